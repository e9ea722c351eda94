"""A message as a test looks at it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.testing.plain_values import plain_table
from appendlog import decode_message


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        exchange: Name of the exchange that it was published to; empty for the default exchange.
        routing_key: Routing key that it was published with.
        body: Body.
        headers: Headers as Python values; empty if it has none.
        properties: The other properties.
        queues: Names of the queues that it went to, or of the one that holds it. Empty: it was
            unroutable.
        state: `ready` or `unacked` in a queue; empty for a message that was published.
    """

    exchange: str
    routing_key: str
    body: bytes
    headers: dict[str, Any]
    properties: Properties
    queues: tuple[str, ...]
    state: str = ""

    @classmethod
    def decode(cls, octets: bytes, queues: tuple[str, ...], state: str = "") -> Message:
        """Return the message that the broker stores as these octets."""
        parts = decode_message(octets)
        properties = decode_properties(parts.properties)
        return cls(
            parts.exchange.decode("utf-8", "surrogateescape"),
            parts.routing_key.decode("utf-8", "surrogateescape"),
            parts.body,
            plain_table(properties.headers or {}),
            replace(properties, headers=None),
            queues,
            state,
        )

    @property
    def is_unroutable(self) -> bool:
        """Whether it went to no queue."""
        return not self.queues

    def json(self) -> Any:  # noqa: ANN401 - as json.loads
        """Return what the body says in JSON.

        Raises:
            ValueError: The body is no JSON.
        """
        return json.loads(self.body)
