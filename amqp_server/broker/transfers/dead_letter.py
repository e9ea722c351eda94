"""Dead letters: how a message changes on its way to the dead-letter exchange of its queue.

Source: RabbitMQ, `rabbit_dead_letter`: the header `x-death` has one table for each queue and
reason, the latest first; a repeated death increments its count and moves to the front. The fields
of a table are in the order of RabbitMQ 3.10: a special order for the very first death, by name for
each later one. `x-last-death-*` is as in RabbitMQ since 3.13.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.routing.carbon_copies import long_strings
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.transfers.deaths import REJECTED, X_DEATH, known_death, take_deaths
from amqp_server.broker.transfers.forwarder import Copy
from amqp_server.broker.transfers.large_body import with_body, without_large_body
from amqp_server.protocol.field_values import VOID, FieldValue, field_value
from amqp_server.protocol.properties import decode_properties
from amqp_server.protocol.property_octets import HEADERS, with_property
from amqp_server.protocol.readable_headers import split_properties
from amqp_server.protocol.strings import encode_longstr, encode_shortstr
from amqp_server.protocol.tables import encode_table
from appendlog.layout.message import (
    ALL_DEATHS,
    COUNTED_DEATHS_MAX,
    DEATHS_SHIFT,
    HAS_EXPIRATION,
    HAS_HEADERS,
    decode_message,
    encode_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.transfers.deaths import KnownDeath
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table
    from appendlog.layout.message import MessageView

logger = logging.getLogger("amqp_server.broker.transfers.dead_letter")

_COUNT_MAX = (1 << 63) - 1
_LENGTH_BYTES = 4


class Death(NamedTuple):
    """Event that makes a dead letter out of a message.

    Attributes:
        queue: Name of the queue that the message was in.
        reason: One of the constants of `deaths`.
        seconds: Time of the event, in seconds since 1970.
    """

    queue: str
    reason: str
    seconds: int


class Stamp(NamedTuple):
    """Properties and routing keys of a message after its death.

    Attributes:
        properties: Properties as on the wire.
        routing_keys: Routing keys of the dead letter; never empty.
        cycle: Queues that the message comes back to if it goes there again; see `cycle_of`.
        since_publish: How many of its deaths are since it was published; `ALL_DEATHS`: all.
    """

    properties: bytes
    routing_keys: tuple[str, ...]
    cycle: frozenset[str] = frozenset()
    since_publish: int = ALL_DEATHS


_NO_STAMP = Stamp(b"", ())


class DeadLetters:
    """Forwards a queue's dead letters to its dead-letter exchange.

    Args:
        virtual_host: Virtual host of the queue and of its dead-letter exchange.
        queue: Name of the queue.
        settings: Settings of the queue, which name a dead-letter exchange.
        time_ns: Returns the time of day, in nanoseconds since 1970 UTC.
        count_cycle: Called for each dead letter that is not put into a queue again.
    """

    def __init__(
        self,
        virtual_host: VirtualHost,
        queue: str,
        settings: QueueSettings,
        time_ns: Callable[[], int],
        count_cycle: Callable[[], None],
    ) -> None:
        assert settings.dead_letter_exchange is not None, "the queue has no dead-letter exchange"
        self.keeps_unroutable = settings.dead_letters_at_least_once
        self._exchange_name = settings.dead_letter_exchange
        self._routing_key = settings.dead_letter_routing_key
        self._queue_name = queue
        self._virtual_host = virtual_host
        self._time_ns = time_ns
        self._count_cycle = count_cycle
        self._is_cycle_logged = False
        # Messages that die together often differ in their bodies only, so the last stamp is kept
        # while messages are forwarded.
        self._stamped: tuple[bytes, bytes, bytes, Death, int] | None = None
        self._stamp = _NO_STAMP

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        """Return the steps to the dead letter and its queues; without the exchange it has none."""
        vhost = self._virtual_host
        name = self._exchange_name
        exchange = vhost.exchanges.get(name) or vhost.damaged.refusing_exchange(name)
        if exchange is None:
            return Copy((), message[0], message)
        front, body = without_large_body(message)
        view = decode_message(front)
        death = Death(self._queue_name, reason, self._time_ns() // 10**9)
        since_publish = view.flags >> DEATHS_SHIFT
        alike = (view.properties, view.exchange, view.routing_key, death, since_publish)
        if alike != self._stamped:
            self._stamp = stamp(*alike, self._routing_key)
            self._stamped = alike
        stamped = self._stamp
        letter = dead_letter(view, stamped, exchange.name)
        # First the queues, then the copy: the exchange may be deleted while a large body is copied.
        envelope = Envelope(stamped.routing_keys, letter)
        queues = yield from vhost.routing.route_in_steps(exchange, envelope)
        if body is not None:
            letter = yield from with_body(letter, body)
        if reason != REJECTED:
            others = [queue for queue in queues if queue.name not in stamped.cycle]
            if len(others) < len(queues):
                self._count_circulating(death, others)
            queues = others
        return Copy(tuple(queues), letter[0], letter)

    def _count_circulating(self, death: Death, others: Sequence[object]) -> None:
        """Count a dead letter that would circulate, and log the first of the queue."""
        if others or not self.keeps_unroutable:
            # One that is kept is tried again and again.
            self._count_cycle()
        if self._is_cycle_logged:
            return
        self._is_cycle_logged = True
        logger.warning(
            "dead letters circulate outcome=%s vhost=%s queue=%s exchange=%s reason=%s",
            "kept" if self.keeps_unroutable and not others else "dropped",
            self._virtual_host.name,
            self._queue_name,
            self._exchange_name,
            death.reason,
        )

    def forget(self) -> None:
        """Free the last stamp: after many deaths it is as large as the message."""
        self._stamped, self._stamp = None, _NO_STAMP


class NoDeadLetters:
    """Drops the messages of a queue that turned out to have no dead-letter exchange."""

    keeps_unroutable = False

    def forward(self, message: bytes, _reason: str) -> Steps[Copy]:
        """Return the steps to a copy that goes to no queue."""
        yield from ()
        return Copy((), message[0], message)

    def forget(self) -> None:
        """Do nothing: it remembers nothing."""


def dead_letter(message: MessageView, stamp: Stamp, exchange: str) -> bytes:
    """Return a message after its death, as published to `exchange`."""
    return encode_message(
        _flags_of(message, stamp),
        exchange.encode("utf-8", "surrogateescape"),
        stamp.routing_keys[0].encode("utf-8", "surrogateescape"),
        stamp.properties,
        message.body,
    )


def _flags_of(message: MessageView, stamp: Stamp) -> int:
    kept = message.flags & ((1 << DEATHS_SHIFT) - 1) & ~HAS_EXPIRATION
    return kept | HAS_HEADERS | stamp.since_publish << DEATHS_SHIFT


def stamp(
    properties: bytes,
    exchange: bytes,
    key: bytes,
    death: Death,
    since_publish: int,
    new_key: str | None,
) -> Stamp:
    """Return the properties with a death added and the expiration removed.

    Args:
        properties: Properties of the message, as on the wire.
        exchange: Exchange that the message was published to.
        key: Routing key that it was published with.
        death: Death to add.
        since_publish: How many of its deaths are since it was published; `ALL_DEATHS`: all.
        new_key: Routing key that replaces its own and those of its header `CC`; None keeps
            them.
    """
    readable, others = split_properties(properties)
    readable, known = take_deaths(readable)
    rest = decode_properties(readable)
    headers = dict(rest.headers or {})
    keys = [key, *_carbon_copies(headers)]
    since_publish = _deaths_since_publish(known or (), since_publish, death)
    deaths = _add_death(headers, known, death, exchange, keys, rest.expiration)
    if new_key is not None:
        keys = [new_key.encode("utf-8", "surrogateescape")]
        headers.pop("CC", None)
    return Stamp(
        with_property(
            replace(rest, headers=None, expiration=None).encode(),
            HEADERS,
            _encode_headers(headers, deaths, others),
        ),
        tuple(each.decode("utf-8", "surrogateescape") for each in keys),
        cycle_of(deaths if since_publish == ALL_DEATHS else deaths[:since_publish]),
        since_publish,
    )


def _deaths_since_publish(known: Sequence[KnownDeath], count: int, death: Death) -> int:
    """Return how many deaths are since the publish, with one more.

    The latest are in front. Those that a client has published with the message are behind, and do
    not count: it is no cycle that a message comes again to where it was in an earlier life.
    """
    if count == ALL_DEATHS or not known:
        return ALL_DEATHS
    here = field_value(death.queue), field_value(death.reason)
    is_there = here in [(each.queue, each.reason) for each in known[:count]]
    # Behind the largest number only the latest ones count: a longer circle of a message that was
    # published with deaths goes on, where to count all would lose one that is in none.
    return count if is_there else min(count + 1, COUNTED_DEATHS_MAX)


def cycle_of(deaths: list[KnownDeath]) -> frozenset[str]:
    """Return the queues that a message has visited since it was last rejected.

    Args:
        deaths: Its deaths since it was published, the latest first.

    It must not go there again because it expired, for example: it would circulate for ever. A
    consumer that rejects a message acts on purpose, so such a cycle may go on.
    """
    visited: set[str] = set()
    rejected = field_value(REJECTED)
    for death in deaths:
        if death.reason == rejected:
            break
        queue = death.queue
        if queue is not None and queue.kind == b"S" and isinstance(queue.value, bytes):
            visited.add(queue.value.decode("utf-8", "surrogateescape"))
    return frozenset(visited)


def deaths_of(headers: Table) -> list[Table]:
    """Return the tables of `x-death`, the latest first; other values are skipped."""
    return [each.value for each in _x_death(headers) or () if isinstance(each.value, dict)]


def _add_death(
    headers: Table,
    known: list[KnownDeath] | None,
    death: Death,
    exchange: bytes,
    keys: list[bytes],
    expiration: str | None,
) -> list[KnownDeath]:
    """Add a death to the `x-first-death-*` and `x-last-*` headers, and in front of the others.

    Args:
        headers: Headers of the message; what is in the place of `x-death` is replaced.
        known: Its deaths until now; None if the header is missing or no list.
        death: Death to add.
        exchange: Exchange that the message was published to.
        keys: Its routing keys.
        expiration: Its property `expiration`.

    Returns:
        All deaths, the latest first.
    """
    place: Table = {"queue": field_value(death.queue), "reason": field_value(death.reason)}
    here = (place["queue"], place["reason"])
    same = [each.table for each in known or () if (each.queue, each.reason) == here]
    others = [each for each in known or () if (each.queue, each.reason) != here]
    if same:
        # A publisher may have written any number there.
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
    if known is not None:
        # RabbitMQ 3.10 sorts each death but the first, and some clients compare octets.
        latest = dict(sorted(latest.items()))
    moments = ("last",) if X_DEATH in headers else ("first", "last")
    for moment in moments:
        headers[f"x-{moment}-death-exchange"] = FieldValue(b"S", exchange)
        for part, value in place.items():
            headers[f"x-{moment}-death-{part}"] = value
    headers[X_DEATH] = VOID
    return [known_death(latest), *others]


def _encode_headers(headers: Table, deaths: list[KnownDeath], others: bytes) -> bytes:
    """Return headers as on the wire, with the deaths in their place, and octets behind them."""
    array = encode_longstr(b"".join([b"F" + each.octets for each in deaths]))
    parts = [
        encode_shortstr(X_DEATH) + b"A" + array
        if name == X_DEATH
        else encode_table({name: value})[_LENGTH_BYTES:]
        for name, value in headers.items()
    ]
    return encode_longstr(b"".join((*parts, others)))


def _x_death(headers: Table) -> list[FieldValue] | None:
    """Return the values of `x-death`; None if the header is missing or no list."""
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
