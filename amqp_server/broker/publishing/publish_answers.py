"""What a client hears about its publishes: confirms, refusals, and messages that come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.protocol.constants import ReplyCode
from amqp_server.protocol.large_delivery import content_of
from amqp_server.protocol.methods import BasicNack, BasicReturn, ack_frame, method_frame

if TYPE_CHECKING:
    from amqp_server.broker.client import Client

_TEXT: Final = b"NO_ROUTE"
_RETURN: Final = b"".join(
    [
        BasicReturn.identity,
        ReplyCode.NO_ROUTE.to_bytes(2, "big"),
        bytes([len(_TEXT)]),
        _TEXT,
    ]
)


class PublishAnswers:
    """Sends the answers to the publishes of one channel.

    Args:
        number: Number of the channel.
        client: Its connection.
    """

    __slots__ = ("_client", "_number")

    def __init__(self, number: int, client: Client) -> None:
        self._number = number
        self._client = client

    def confirm(self, delivery_tag: int, *, multiple: bool) -> None:
        """Tell that a publish, with `multiple` also all before it, is safe."""
        self._client.write(ack_frame(self._number, delivery_tag, multiple=multiple))

    def refuse(self, delivery_tag: int, *, multiple: bool) -> None:
        """Tell that a publish, with `multiple` also all before it, was not taken."""
        nack = BasicNack(delivery_tag=delivery_tag, multiple=multiple, requeue=False)
        self._client.write(method_frame(self._number, nack))

    def give_back(self, messages: list[bytes]) -> None:
        """Return mandatory messages that no queue takes."""
        for message in messages:
            self._client.write(
                content_of(message, self._number, _RETURN, b"", self._client.frame_max)
            )
