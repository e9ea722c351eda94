"""An envelope: what routing sees of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.readable_headers import readable_properties
from appendlog.layout.message import body_position, properties_position

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table


class Envelope:
    """The routing keys of one message, and its properties if anyone asks for them.

    Args:
        routing_keys: At least one: that of the publish, then those of `CC` and `BCC`.
        message: The message; None if nothing on its way looks at more than the keys.
        visits_max: Exchanges, bindings and nodes of binding keys that it may meet on its way; None:
            any number, because the message must not be refused any more.
    """

    __slots__ = ("_message", "_properties", "_visits", "_visits_max", "routing_keys")

    def __init__(
        self,
        routing_keys: tuple[str, ...],
        message: bytes | None = None,
        visits_max: int | None = None,
    ) -> None:
        self.routing_keys = routing_keys
        self._visits = 0
        self._visits_max = visits_max
        self._message = message
        self._properties: Properties | None = None

    def begin_search(self) -> None:
        """Count from 0: a search that is repeated because bindings changed is not the message's."""
        self._visits = 0

    def visit(self, count: int) -> None:
        """Count exchanges, bindings or nodes of binding keys that the message meets.

        Raises:
            PreconditionFailed: They are more than it may meet.
        """
        self._visits += count
        if self._visits_max is not None and self._visits > self._visits_max:
            raise PreconditionFailed(
                "cannot route message: on its way are more than "
                f"{self._visits_max} exchanges, bindings and words of binding keys",
                60,
                40,
            )

    @property
    def properties(self) -> Properties:
        """The message's properties, as far as they can be decoded; once, when first asked for."""
        if self._properties is None:
            message = self._message
            self._properties = (
                Properties()
                if message is None
                else readable_properties(
                    message[properties_position(message) : body_position(message)]
                )
            )
        return self._properties

    @property
    def headers(self) -> Table:
        """The message's headers; empty if it has none."""
        return self.properties.headers or {}
