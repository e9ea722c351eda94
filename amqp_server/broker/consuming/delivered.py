"""What a channel sends to a consumer: message objects, or a run that encodes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.protocol.large_delivery import Octets


class EncodableRun(Protocol):
    """Consecutive messages that are sent without one object for each."""

    def __len__(self) -> int:
        """Return the number of messages."""

    def encode(
        self, channel: int, consumer_tag: bytes, first_tag: int, redelivered: bool, frame_max: int
    ) -> Octets:
        """Return the octets of the deliveries; see `amqp_server.protocol.framing`."""


Delivered = list[bytes] | EncodableRun
"""Consecutive messages in the form that their consumer gets."""
