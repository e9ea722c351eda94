"""What a channel sends to a consumer: messages, or a run that knows how to write itself."""

from __future__ import annotations

from typing import Protocol


class EncodableRun(Protocol):
    """Neighbouring messages that need no object each to be sent."""

    def __len__(self) -> int:
        """Return how many messages."""

    def encode(
        self, channel: int, consumer_tag: bytes, first_tag: int, redelivered: bool, frame_max: int
    ) -> bytes | bytearray:
        """Return the octets of their deliveries; see `amqp_server.protocol.framing`."""


Delivered = list[bytes] | EncodableRun
"""Neighbouring messages as their consumer gets them."""
