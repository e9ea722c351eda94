"""Dead letters: what a message looks like after it left a queue for its dead-letter exchange.

Source: RabbitMQ, `rabbit_dead_letter`: the header `x-death` has one table for each queue and
reason, the latest first; a repeated death counts up and moves to the front. `x-last-death-*`
as in RabbitMQ since 3.13.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.departures import Copy
from amqp_server.broker.envelope import Envelope
from amqp_server.protocol.field_values import FieldValue, field_value
from amqp_server.protocol.properties import decode_properties
from appendlog.message import HAS_EXPIRATION, HAS_HEADERS, decode_message, encode_message

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.tables import Table

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"
"""Why a message leaves its queue for good without having been acknowledged."""

X_DEATH = "x-death"


class Death(NamedTuple):
    """One message's leaving a queue.

    Attributes:
        queue: Name of the queue.
        reason: One of this module's.
        seconds: When, in seconds since 1970.
    """

    queue: str
    reason: str
    seconds: int


class DeadLetter(NamedTuple):
    """A message after its death.

    Attributes:
        message: To be published.
        flags: Its flags octet.
        routing_keys: What it is routed by; never empty.
        headers: Of the message.
    """

    message: bytes
    flags: int
    routing_keys: tuple[str, ...]
    headers: Table


class DeadLetters:
    """Forwards a queue's dead letters to its dead-letter exchange.

    Args:
        queue: A queue with a dead-letter exchange.
    """

    def __init__(self, queue: Queue) -> None:
        """Read the queue's settings."""
        settings = queue.settings
        assert settings.dead_letter_exchange is not None, "a queue without a dead-letter exchange"
        self.keeps_unroutable = settings.dead_letters_at_least_once
        self._exchange_name = settings.dead_letter_exchange
        self._routing_key = settings.dead_letter_routing_key
        self._queue_name = queue.name
        self._virtual_host = queue.virtual_host

    def forward(self, message: bytes, reason: str) -> Copy:
        """Return the dead letter and the queues that it goes to; none if there is no exchange."""
        vhost = self._virtual_host
        exchange = vhost.exchanges.get(self._exchange_name)
        if exchange is None:
            return Copy((), message[0], message)
        death = Death(self._queue_name, reason, int(time.time()))
        letter = dead_letter(message, death, exchange.name, self._routing_key)
        queues = vhost.routing.route(exchange, Envelope(letter.routing_keys, letter.message))
        if reason != REJECTED:
            deaths = deaths_of(letter.headers)
            queues = [queue for queue in queues if not is_cycle(queue.name, deaths)]
        return Copy(tuple(queues), letter.flags, letter.message)


def dead_letter(message: bytes, death: Death, exchange: str, routing_key: str | None) -> DeadLetter:
    """Return what becomes of `message`: everything it had, its death, and no expiration.

    Args:
        message: As it was in the queue.
        death: What happened.
        exchange: Name of the dead-letter exchange.
        routing_key: Instead of its own and those of its header `CC`; None keeps them.
    """
    view = decode_message(message)
    properties = decode_properties(view.properties)
    headers = dict(properties.headers or {})
    keys = [view.routing_key, *_carbon_copies(headers)]
    _add_death(headers, death, view.exchange, keys, properties.expiration)
    if routing_key is not None:
        keys = [routing_key.encode("utf-8", "surrogateescape")]
        headers.pop("CC", None)
    flags = (view.flags | HAS_HEADERS) & ~HAS_EXPIRATION
    encoded = replace(properties, headers=headers, expiration=None).encode()
    name = exchange.encode("utf-8", "surrogateescape")
    return DeadLetter(
        encode_message(flags, name, keys[0], encoded, view.body),
        flags,
        tuple(key.decode("utf-8", "surrogateescape") for key in keys),
        headers,
    )


def is_cycle(queue: str, deaths: list[Table]) -> bool:
    """Return whether a message that died so has been in `queue` and came round by itself.

    A consumer that rejects is a will from outside: such a round may go on for ever.
    """
    for at, death in enumerate(deaths):
        if death.get("queue") == field_value(queue):
            rejected = field_value(REJECTED)
            return all(each.get("reason") != rejected for each in deaths[: at + 1])
    return False


def deaths_of(headers: Table) -> list[Table]:
    """Return the tables of `x-death`, the latest first; what is no table is passed over."""
    value = headers.get(X_DEATH)
    if value is None or not isinstance(value.value, list):
        return []
    return [each.value for each in value.value if isinstance(each.value, dict)]


def _add_death(
    headers: Table, death: Death, exchange: bytes, keys: list[bytes], expiration: str | None
) -> None:
    """Put a death in front of `x-death`, and into the headers of the first and the last one."""
    place: Table = {"queue": field_value(death.queue), "reason": field_value(death.reason)}
    known = deaths_of(headers)
    same = [table for table in known if place.items() <= table.items()]
    others = [table for table in known if not place.items() <= table.items()]
    if same:
        latest = same[0] | {"count": FieldValue(b"l", sum(map(_count, same)) + 1)}
    else:
        latest = {
            "count": FieldValue(b"l", 1),
            "exchange": FieldValue(b"S", exchange),
            **place,
            "routing-keys": FieldValue(b"A", [FieldValue(b"S", key) for key in keys]),
            "time": FieldValue(b"T", death.seconds),
        }
        if expiration is not None:
            latest["original-expiration"] = field_value(expiration)
    moments = ("last",) if X_DEATH in headers else ("first", "last")
    for moment in moments:
        headers[f"x-{moment}-death-exchange"] = FieldValue(b"S", exchange)
        for part, value in place.items():
            headers[f"x-{moment}-death-{part}"] = value
    tables = [FieldValue(b"F", table) for table in (latest, *others)]
    headers[X_DEATH] = FieldValue(b"A", tables)


def _carbon_copies(headers: Table) -> list[bytes]:
    """Return the routing keys of the header `CC`."""
    value = headers.get("CC")
    if value is None or not isinstance(value.value, list):
        return []
    return [key.value for key in value.value if isinstance(key.value, bytes)]


def _count(table: Table) -> int:
    value = table.get("count")
    return value.value if value is not None and isinstance(value.value, int) else 1
