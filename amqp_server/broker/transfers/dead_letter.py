"""Dead letters: what a message looks like after it left a queue for its dead-letter exchange.

Source: RabbitMQ, `rabbit_dead_letter`: the header `x-death` has one table for each queue and
reason, the latest first; a repeated death counts up and moves to the front. The fields of a table
are in the order of RabbitMQ 3.10: one for the first death of all, by name for each later one.
`x-last-death-*` as in RabbitMQ since 3.13.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.routing.carbon_copies import long_strings
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.transfers.deaths import REJECTED
from amqp_server.broker.transfers.forwarder import Copy
from amqp_server.broker.transfers.message_headers import readable_properties
from amqp_server.protocol.field_values import FieldValue, field_value
from appendlog.layout.message import HAS_EXPIRATION, HAS_HEADERS, decode_message, encode_message

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.tables import Table
    from appendlog.layout.message import MessageView

X_DEATH = "x-death"
_COUNT_MAX = (1 << 63) - 1


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


class Stamp(NamedTuple):
    """What a death makes of a message's properties and route.

    Attributes:
        properties: As on the wire.
        routing_keys: What the dead letter is routed by; never empty.
        headers: Those in `properties`.
    """

    properties: bytes
    routing_keys: tuple[str, ...]
    headers: Table


class DeadLetters:
    """Forwards a queue's dead letters to its dead-letter exchange.

    Args:
        queue: A queue with a dead-letter exchange.
    """

    def __init__(self, queue: Queue) -> None:
        settings = queue.settings
        assert settings.dead_letter_exchange is not None, "a queue without a dead-letter exchange"
        self.keeps_unroutable = settings.dead_letters_at_least_once
        self._exchange_name = settings.dead_letter_exchange
        self._routing_key = settings.dead_letter_routing_key
        self._queue_name = queue.name
        self._virtual_host = queue.virtual_host
        # Messages that die together are often alike but for their bodies.
        self._stamped: tuple[bytes, bytes, bytes, Death] | None = None
        self._stamp = Stamp(b"", (), {})

    def forward(self, message: bytes, reason: str) -> Copy:
        """Return the dead letter and the queues that it goes to; none if there is no exchange."""
        vhost = self._virtual_host
        name = self._exchange_name
        exchange = vhost.exchanges.get(name) or vhost.damaged.refusing_exchange(name)
        if exchange is None:
            return Copy((), message[0], message)
        view = decode_message(message)
        death = Death(self._queue_name, reason, int(time.time()))
        alike = (view.properties, view.exchange, view.routing_key, death)
        if alike != self._stamped:
            self._stamp = stamp(*alike, self._routing_key)
            self._stamped = alike
        letter = dead_letter(view, self._stamp, exchange.name)
        queues = vhost.routing.route(exchange, Envelope(self._stamp.routing_keys, letter))
        if reason != REJECTED:
            deaths = deaths_of(self._stamp.headers)
            queues = [queue for queue in queues if not is_cycle(queue.name, deaths)]
        return Copy(tuple(queues), letter[0], letter)


def dead_letter(message: MessageView, stamp: Stamp, exchange: str) -> bytes:
    """Return a message after its death, as published to `exchange`."""
    return encode_message(
        (message.flags | HAS_HEADERS) & ~HAS_EXPIRATION,
        exchange.encode("utf-8", "surrogateescape"),
        stamp.routing_keys[0].encode("utf-8", "surrogateescape"),
        stamp.properties,
        message.body,
    )


def stamp(
    properties: bytes, exchange: bytes, key: bytes, death: Death, new_key: str | None
) -> Stamp:
    """Return properties with a death and without an expiration; all else of them stays.

    Args:
        properties: Of the message, as on the wire.
        exchange: Where it was published.
        key: With which routing key.
        death: What happened.
        new_key: Instead of its own and those of its header `CC`; None keeps them.
    """
    old = readable_properties(properties)
    headers = dict(old.headers or {})
    keys = [key, *_carbon_copies(headers)]
    _add_death(headers, death, exchange, keys, old.expiration)
    if new_key is not None:
        keys = [new_key.encode("utf-8", "surrogateescape")]
        headers.pop("CC", None)
    return Stamp(
        replace(old, headers=headers, expiration=None).encode(),
        tuple(each.decode("utf-8", "surrogateescape") for each in keys),
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
    return [each.value for each in _x_death(headers) or () if isinstance(each.value, dict)]


def _add_death(
    headers: Table, death: Death, exchange: bytes, keys: list[bytes], expiration: str | None
) -> None:
    """Put a death in front of `x-death`, and into the headers of the first and the last one."""
    place: Table = {"queue": field_value(death.queue), "reason": field_value(death.reason)}
    known = deaths_of(headers)
    same = [table for table in known if place.items() <= table.items()]
    others = [table for table in known if not place.items() <= table.items()]
    if same:
        # What a publisher wrote there may be any number.
        count = min(sum(map(_count, same)) + 1, _COUNT_MAX)
        latest = same[0] | {"count": FieldValue(b"l", count)}
    else:
        latest = {
            "count": FieldValue(b"l", 1),
            "reason": field_value(death.reason),
            "queue": field_value(death.queue),
            "time": FieldValue(b"T", death.seconds),
            "exchange": FieldValue(b"S", exchange),
            "routing-keys": FieldValue(b"A", [FieldValue(b"S", key) for key in keys]),
        }
        if expiration is not None:
            latest["original-expiration"] = field_value(expiration)
    if _x_death(headers) is not None:
        # As RabbitMQ 3.10 does with each death but the first: some clients compare octets.
        latest = dict(sorted(latest.items()))
    moments = ("last",) if X_DEATH in headers else ("first", "last")
    for moment in moments:
        headers[f"x-{moment}-death-exchange"] = FieldValue(b"S", exchange)
        for part, value in place.items():
            headers[f"x-{moment}-death-{part}"] = value
    tables = [FieldValue(b"F", table) for table in (latest, *others)]
    headers[X_DEATH] = FieldValue(b"A", tables)


def _x_death(headers: Table) -> list[FieldValue] | None:
    """Return what `x-death` holds; None when there is none that deaths can be added to."""
    field = headers.get(X_DEATH)
    return field.value if field is not None and isinstance(field.value, list) else None


def _carbon_copies(headers: Table) -> list[bytes]:
    """Return the routing keys of the header `CC`."""
    value = headers.get("CC")
    if value is None or not isinstance(value.value, list):
        return []
    return long_strings(value.value)


def _count(table: Table) -> int:
    value = table.get("count")
    return value.value if value is not None and isinstance(value.value, int) else 1
