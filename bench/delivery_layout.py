"""Places of the fields in the deliveries of one run, which all have the same size.

A delivery is a basic.deliver, a content header and a body frame. Consumer tag, exchange, length of
the routing key, properties and body size are the same throughout a run, and the delivery tag is
always eight bytes. The first delivery therefore gives the places of the fields in all deliveries.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from bench.amqp_frames import (
    BASIC,
    BODY,
    FRAME_END,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    Frame,
    parse_frames,
    short_string,
)
from bench.errors import BrokenRhythmError, UnexpectedFrameError
from bench.message_body import FIELDS, FIELDS_BYTES

DELIVER: Final = (BASIC, 60)

_TAG: Final = struct.Struct(">Q")
_FIELDS: Final = struct.Struct(FIELDS)
_OFFSET: Final = struct.Struct(">q")
_OFFSET_NAME: Final = short_string("x-stream-offset") + b"l"
_METHOD_START: Final = FRAME_OVERHEAD_BYTES - 1
_TAG_IN_PAYLOAD: Final = 5
"""Place of the consumer tag's bytes: after class, method and the length of the tag."""


@dataclass(frozen=True, slots=True)
class DeliveryLayout:
    """The size of a delivery and the places of its fields, counted from its first byte.

    Attributes:
        delivery_bytes: Size of the three frames together.
        tag_position: Place of the delivery tag.
        body_position: Place of the body.
        prefix: Bytes before the delivery tag, the same in each delivery.
        offset_position: Place of a stream's offset in the headers; 0 for other queues.
    """

    delivery_bytes: int
    tag_position: int
    body_position: int
    prefix: bytes
    offset_position: int = 0

    @classmethod
    def try_learn(cls, octets: bytes | bytearray | memoryview) -> Self | None:
        """Return the layout of the first delivery, or None if it is incomplete.

        Args:
            octets: Bytes from the broker, from the first byte of the first delivery.

        Raises:
            UnexpectedFrameError: The bytes are no delivery, or its body is not in one frame.
        """
        frames: list[Frame] = []
        for parsed in parse_frames(octets):
            frames.append(parsed)
            _check_kind(parsed, len(frames))
            if len(frames) == 3:
                return cls._from_frames(frames, bytes(octets[: _METHOD_START + 260]))
        return None

    @classmethod
    def _from_frames(cls, frames: list[Frame], start: bytes) -> Self:
        deliver, header, body = frames
        (body_bytes,) = _TAG.unpack_from(header.payload, 4)
        if body_bytes != len(body.payload) or body_bytes < FIELDS_BYTES:
            raise UnexpectedFrameError(
                f"a body of {body_bytes} bytes, {len(body.payload)} of them in its first frame",
                f"one frame of at least {FIELDS_BYTES}",
            )
        sizes = [each.wire_bytes for each in frames]
        tag_position = _METHOD_START + _TAG_IN_PAYLOAD + deliver.payload[4]
        return cls(
            delivery_bytes=sum(sizes),
            tag_position=tag_position,
            body_position=sizes[0] + sizes[1] + _METHOD_START,
            prefix=start[:tag_position],
            offset_position=_find_offset(header.payload, sizes[0] + _METHOD_START),
        )

    def check(
        self,
        octets: memoryview,
        position: int,
        place: int,
        block_messages: int,
    ) -> None:
        """Check that the delivery at a position has the message of its place.

        With one publisher and one consumer, messages must come in order. This check therefore
        finds any loss or repetition before this delivery. In a stream the offset is the place.

        Args:
            octets: Buffer that holds the whole delivery.
            position: Start of the delivery in the buffer.
            place: Number of deliveries before this one, since the consumer's start.
            block_messages: Messages in a block of the publisher.

        Raises:
            BrokenRhythmError: The delivery has another message, or the bytes are no delivery.
        """
        end = position + self.delivery_bytes
        tag_position = position + self.tag_position
        (tag,) = _TAG.unpack_from(octets, tag_position)
        publisher, index, block, _ = _FIELDS.unpack_from(octets, position + self.body_position)
        if (
            octets[position:tag_position] != self.prefix
            or octets[end - 1] != FRAME_END
            or tag != place + 1
            or publisher != 0
            or block * block_messages + index != place
        ):
            raise BrokenRhythmError(
                place,
                f"delivery tag {tag}, publisher {publisher}, block {block}, index {index}, "
                f"{block_messages} messages in a block; frames {_describe(octets[position:end])}",
            )
        if self.offset_position:
            (offset,) = _OFFSET.unpack_from(octets, position + self.offset_position)
            if offset != place:
                raise BrokenRhythmError(place, f"offset {offset} in its headers")

    def read_fields(self, octets: memoryview) -> Iterator[tuple[int, int, int, int]]:
        """Return publisher, index, block and stamp of each delivery, at the speed of C.

        Args:
            octets: Complete deliveries, and nothing else.

        Raises:
            BrokenRhythmError: The first or the last delivery is not framed like the others.
        """
        self._check_framing(octets, 0)
        self._check_framing(octets, len(octets) - self.delivery_bytes)
        rest_bytes = self.delivery_bytes - self.body_position - FIELDS_BYTES
        record = struct.Struct(f">{self.body_position}x{FIELDS[1:]}{rest_bytes}x")
        return record.iter_unpack(octets)

    def _check_framing(self, octets: memoryview, position: int) -> None:
        start = octets[position : position + self.tag_position]
        if start != self.prefix or octets[position + self.delivery_bytes - 1] != FRAME_END:
            raise BrokenRhythmError(
                position // self.delivery_bytes, f"frames {_describe(octets[position:])}"
            )


def _find_offset(properties: bytes, start: int) -> int:
    at = properties.find(_OFFSET_NAME)
    return 0 if at < 0 else start + at + len(_OFFSET_NAME)


def _check_kind(parsed: Frame, number: int) -> None:
    is_right = (
        parsed.method_id == DELIVER if number == 1 else parsed.kind == (HEADER, BODY)[number - 2]
    )
    if not is_right:
        raise UnexpectedFrameError(parsed.describe(), f"frame {number} of a delivery")


def _describe(octets: memoryview) -> str:
    try:
        first_three = zip(range(3), parse_frames(octets), strict=False)
        return ", ".join(parsed.describe() for _, parsed in first_three)
    except UnexpectedFrameError:
        return f"that start with {bytes(octets[:16]).hex()}"
