"""Tens of thousands of encoded messages, which a publisher writes again and again.

Neighbours stand side by side: publishers write slices of the corpus without a copy, after `renew`
has given each message new ids and a new digest in place.
"""

import struct
from collections.abc import Iterable
from random import Random
from typing import Final
from zlib import crc32

from bench.amqp_frames import (
    BASIC,
    BODY,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    body_pieces,
    frame,
    method_frame,
    short_string,
)
from bench.traffic.frames import FIELD_DIGITS, renew
from bench.traffic.shape import (
    PLACEHOLDER,
    PLACEHOLDER_IN_UUID,
    TIME_PLACEHOLDER,
    Properties,
)

_FIELD_PLACEHOLDER: Final = b"0" * FIELD_DIGITS
_NS: Final = 1_000_000_000


class Corpus:
    """Encoded messages; each belongs to one publisher while it is sent.

    Attributes:
        view: All messages, one behind the other.
        count: Number of messages.
    """

    def __init__(self, messages: Iterable[tuple[bytes, bytes]], *, lead: int = 0) -> None:
        """Find the places that differ from message to message.

        Args:
            messages: Frames of each publish, with its body, which the last frames have. Ids and
                timestamp are the placeholders of `shape`.
            lead: Octets before the FIELD_DIGITS zeros in each body.

        Raises:
            ValueError: A body has no room for the digits.
        """
        self._octets = bytearray()
        self._messages: list[tuple[tuple[int, ...], int, int, int, int]] = []
        self._starts = [0]
        for octets, body in messages:
            self._add(octets, body, lead)
        self.view = memoryview(self._octets)
        self.count = len(self._messages)

    def _add(self, octets: bytes, body: bytes, lead: int) -> None:
        start = len(self._octets)
        frames_bytes = len(body) + len(body_pieces(body)) * FRAME_OVERHEAD_BYTES
        body_at = len(octets) - frames_bytes + FRAME_OVERHEAD_BYTES - 1
        digits_at = body_at + lead
        if octets[digits_at : digits_at + FIELD_DIGITS] != _FIELD_PLACEHOLDER:
            raise ValueError(f"a body of {len(body)} octets without {FIELD_DIGITS} zeros in it")
        head = octets[:body_at]
        spots: list[int] = []
        for at in _find_all(head, PLACEHOLDER.encode()):
            spots += (start + at, 0, 16)
        for at in _find_all(head, PLACEHOLDER_IN_UUID.encode()):
            spots += (start + at, 48, 4, start + at + 5, 0, 12)
        time_at = head.find(TIME_PLACEHOLDER)
        tail = body[lead + FIELD_DIGITS :]
        self._messages.append(
            (
                tuple(spots),
                start + time_at if time_at >= 0 else 0,
                start + body_at,
                start + digits_at,
                crc32(tail),
            )
        )
        self._octets += octets
        self._starts.append(len(self._octets))

    def renew(
        self, first: int, count: int, serial: int, seed: int, now_ns: int, time_ns: int
    ) -> memoryview:
        """Renew neighbours in place, and return their frames; no copy.

        Args:
            first: Index of the first message.
            count: Number of messages; the last one is within the corpus.
            serial: Serial of the first message; the next ones have the next numbers.
            seed: Seed of the ids.
            now_ns: Stamp, ns of CLOCK_MONOTONIC.
            time_ns: Time for the timestamp property, ns of CLOCK_REALTIME.
        """
        renew(
            self._octets,
            self.view,
            self._messages,
            first,
            count,
            serial,
            seed,
            now_ns,
            time_ns // _NS,
        )
        return self.view[self._starts[first] : self._starts[first + count]]


def encode_publish(
    channel: int, exchange: str, routing_key: str, properties: Properties, body: bytes
) -> tuple[bytes, bytes]:
    """Return the frames of one publish, and its body."""
    arguments = b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0"
    header = struct.pack(">HHQH", BASIC, 0, len(body), properties.flags) + properties.octets
    octets = (
        method_frame(channel, BASIC, 40, arguments)
        + frame(HEADER, channel, header)
        + b"".join(frame(BODY, channel, piece) for piece in body_pieces(body))
    )
    return octets, body


def new_body(random: Random, body_bytes: int) -> bytes:
    """Return a body: zeros for the digits, then random octets."""
    return _FIELD_PLACEHOLDER + random.randbytes(body_bytes - FIELD_DIGITS)


def _find_all(octets: bytes, wanted: bytes) -> Iterable[int]:
    at = octets.find(wanted)
    while at >= 0:
        yield at
        at = octets.find(wanted, at + len(wanted))
