"""The frames that the broker sends, as filters see them."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.protocol.constants import (
    FRAME_END_BYTE,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    PROTOCOL_HEADER,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ACK: Final = b"\x00\x3c\x00\x50"
NACK: Final = b"\x00\x3c\x00\x78"
DELIVER: Final = b"\x00\x3c\x00\x3c"
_CHANNEL_CLOSES: Final = (b"\x00\x14\x00\x28", b"\x00\x14\x00\x29")
_CONNECTION_CLOSES: Final = (b"\x00\x0a\x00\x32", b"\x00\x0a\x00\x33")
_HEAD: Final = Struct(">BHL")
_CONFIRM: Final = Struct(">4sQB")


class Frame(NamedTuple):
    """One frame.

    Attributes:
        kind: Type of the frame.
        channel: Number of its channel; 0 is the connection itself.
        payload: What it contains; of a method, first the identity in four octets.
    """

    kind: int
    channel: int
    payload: bytes

    @property
    def octets(self) -> bytes:
        """The frame as it is sent."""
        return (
            _HEAD.pack(self.kind, self.channel, len(self.payload)) + self.payload + FRAME_END_BYTE
        )

    @property
    def identity(self) -> bytes:
        """Identity of the method, or nothing if the frame has none."""
        return self.payload[:4] if self.kind == FRAME_METHOD else b""

    @property
    def is_confirm(self) -> bool:
        """Whether the frame confirms or refuses publishes: the broker acknowledges nothing else."""
        return self.identity in (ACK, NACK)

    @property
    def is_delivery(self) -> bool:
        """Whether a message begins that goes to a consumer."""
        return self.identity == DELIVER

    @property
    def closes_channel(self) -> bool:
        """Whether nothing more may be sent on the channel."""
        return self.identity in _CHANNEL_CLOSES

    @property
    def closes_connection(self) -> bool:
        """Whether nothing more may be sent on the connection."""
        return self.identity in _CONNECTION_CLOSES

    @property
    def consumer_tag(self) -> str:
        """Consumer tag of a delivery."""
        end = 5 + self.payload[4]
        return self.payload[5:end].decode("utf-8", "surrogateescape")

    @property
    def confirmed(self) -> tuple[int, bool]:
        """Delivery tag of a confirm, and whether all publishes before it are meant too."""
        _, tag, bits = _CONFIRM.unpack(self.payload)
        return tag, bool(bits & 1)

    def as_nack(self) -> Frame:
        """Return the basic.nack of the publishes that a confirm is about."""
        return self._replace(payload=NACK + self.payload[4:])


def confirm(identity: bytes, channel: int, tag: int, *, multiple: bool) -> Frame:
    """Return a confirm.

    Args:
        identity: `ACK` or `NACK`.
        channel: Number of the channel.
        tag: Delivery tag of the publish.
        multiple: Whether all publishes before it are meant too.
    """
    return Frame(FRAME_METHOD, channel, _CONFIRM.pack(identity, tag, multiple))


def frames_of(octets: bytes) -> Iterator[Frame]:
    """Iterate over the frames of one write, which are whole."""
    at = 0
    while at < len(octets):
        kind, channel, size = _HEAD.unpack_from(octets, at)
        start = at + _HEAD.size
        yield Frame(kind, channel, octets[start : start + size])
        at += size + FRAME_OVERHEAD_BYTES


def has_frames(octets: bytes) -> bool:
    """Return whether a write consists of frames; an answer to another protocol does not."""
    return not octets.startswith(PROTOCOL_HEADER[:4])
