"""Messages of a stream whose deliveries carry their offset in the header `x-stream-offset`.

The kernel (`amqp_server.protocol.framing`) adds the header; it replaces one from the publisher.

Source: RabbitMQ, `rabbit_stream_queue`: each delivery of a stream has it, a signed 64-bit number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.large_delivery import deliveries_of

if TYPE_CHECKING:
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.protocol.large_delivery import LargeMessage, Octets


class StampedRun:
    """Consecutive messages with their offsets.

    Attributes:
        messages: At least one, without gaps; or a large one with other properties.
        first_offset: Offset of the first message.
    """

    __slots__ = ("first_offset", "messages")

    def __init__(self, messages: Messages | LargeMessage, first_offset: int) -> None:
        self.messages = messages
        self.first_offset = first_offset

    def __len__(self) -> int:
        return len(self.messages)

    def encode(
        self, channel: int, consumer_tag: bytes, first_tag: int, redelivered: bool, frame_max: int
    ) -> Octets:
        """Return the octets of the deliveries; see `amqp_server.protocol.framing`."""
        places = (channel, consumer_tag, first_tag, redelivered, frame_max, self.first_offset)
        if isinstance(self.messages, list):
            return deliveries_of(self.messages, *places)
        return self.messages.encode(*places)
