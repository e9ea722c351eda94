"""Which objects a metric has values of, and with which labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amqp_server.management.metrics.object_filter import ObjectFilter
    from amqp_server.management.metrics.readable_mirror import ReadableMirror

Fields = Mapping[str, Any]
Labelled = tuple[tuple[str, ...], Fields]
"""One object: the values of its labels, and its fields."""

_NOTHING: Final[Fields] = {}
_PROTOCOL: Final = "amqp091"
_QUEUE_TYPES: Final = ("classic", "quorum", "stream")
_DEAD_LETTER_STRATEGIES: Final = (
    ("classic", "at_most_once"),
    ("classic", "disabled"),
    ("quorum", "at_least_once"),
    ("quorum", "at_most_once"),
    ("quorum", "disabled"),
)


@dataclass(frozen=True, slots=True)
class ObjectSet:
    """Objects of one kind.

    Attributes:
        labels: Names of the labels, in the order of the text.
        find: Returns the objects that a filter lets through. None stands for an object that it
            does not: so the caller can pause between any two objects.
    """

    labels: tuple[str, ...]
    find: Callable[[ReadableMirror, ObjectFilter], Iterator[Labelled | None]]


def _node(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    yield (), mirror.node.fields


def _overview(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    yield (), mirror.overview.fields


def _nothing(_: ReadableMirror, __: ObjectFilter) -> Iterator[Labelled]:
    return iter(())


def _logins(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    yield (_PROTOCOL,), mirror.overview.fields.get("auth_attempts") or _NOTHING


def _memory(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    node = mirror.node.fields
    parts = node.get("memory_parts") or _NOTHING
    yield (), {**parts, "other_system": max(node.get("mem_used", 0) - sum(parts.values()), 0)}


def _protocols(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    yield (_PROTOCOL,), mirror.overview.fields


def _queue_types(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    by_type = mirror.overview.fields.get("queue_types") or _NOTHING
    for kind in _QUEUE_TYPES:
        yield (_PROTOCOL, f"rabbit_{kind}_queue"), by_type.get(kind) or _NOTHING


def _dead_letter_strategies(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    by_type = mirror.overview.fields.get("dead_letters") or _NOTHING
    for kind, strategy in _DEAD_LETTER_STRATEGIES:
        by_strategy = by_type.get(kind) or _NOTHING
        yield (f"rabbit_{kind}_queue", strategy), by_strategy.get(strategy) or _NOTHING


def _vhosts(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for name in tuple(mirror.vhosts):
        yield ((name,), {"one": 1}) if wanted.has_vhost(name) else None


def _queues(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for key, row in tuple(mirror.queues.items()):
        yield (key, row.fields) if wanted.has_queue(*key) else None


def _used_queues(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _queues(mirror, wanted):
        yield found if found and found[1].get("message_stats") else None


def _described_queues(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _queues(mirror, wanted):
        if found is None:
            yield None
        else:
            key, fields = found
            yield (*key, f"rabbit_{fields.get('type', 'classic')}_queue", "leader"), {"one": 1}


def _exchanges(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for key, row in tuple(mirror.exchanges.items()):
        yield (key, row.fields) if wanted.has_vhost(key[0]) else None


def _used_exchanges(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _exchanges(mirror, wanted):
        yield found if found and found[1].get("message_stats") else None


def _named_exchanges(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _exchanges(mirror, wanted):
        if found is None or not found[0][1] or found[1].get("internal"):
            yield None
        else:
            key, fields = found
            yield (*key, fields.get("type", "")), {**fields, "one": 1}


def _channels(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    for name, row in tuple(mirror.channels.items()):
        yield (name,), row.fields


def _publishes(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    """Return what channels have published to each exchange."""
    for pair in mirror.pairs["publishes"]:
        channel, exchange = pair.ends
        yield (
            ((str(channel), *exchange), {"message_stats": pair.stats})
            if wanted.has_vhost(exchange[0])
            else None
        )


def _deliveries(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    """Return what channels have got from each queue."""
    for pair in mirror.pairs["deliveries"]:
        channel, queue = pair.ends
        yield (
            ((str(channel), *queue), {"message_stats": pair.stats})
            if wanted.has_queue(queue[0], queue[1])
            else None
        )


def _routes(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    """Return what queues got from each exchange; by which channel is not counted."""
    for pair in mirror.pairs["incoming"]:
        exchange, queue = pair.ends
        yield (
            (("", *queue, *exchange), {"message_stats": pair.stats})
            if wanted.has_queue(queue[0], queue[1])
            else None
        )


def _queues_by_exchange(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _routes(mirror, wanted):
        yield ((found[0][1], found[0][4], found[0][2]), found[1]) if found else None


def _consumed_streams(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _queues(mirror, wanted):
        lags = [group["lag"] for group in (found[1].get("groups") or ())] if found else []
        yield (found[0], {"max_offset_lag": max(lags)}) if found and lags else None


def _groups(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for found in _queues(mirror, wanted):
        if found is None:
            yield None
        else:
            for group in found[1].get("groups") or ():
                yield (*found[0], group["group"]), group


def _exports(mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[Labelled | None]:
    for row in mirror.exports.rows:
        is_wanted = wanted.has_queue(row["vhost"], row["queue"])
        yield ((row["vhost"], row["queue"], row["output"]), row) if is_wanted else None


def _connections(mirror: ReadableMirror, _: ObjectFilter) -> Iterator[Labelled]:
    for name, row in tuple(mirror.connections.items()):
        yield (name,), row.fields


NODE: Final = ObjectSet((), _node)
OVERVIEW: Final = ObjectSet((), _overview)
NO_OBJECTS: Final = ObjectSet((), _nothing)
MEMORY: Final = ObjectSet((), _memory)
LOGINS: Final = ObjectSet(("protocol",), _logins)
PROTOCOLS: Final = ObjectSet(("protocol",), _protocols)
QUEUE_TYPES: Final = ObjectSet(("protocol", "queue_type"), _queue_types)
DEAD_LETTER_STRATEGIES: Final = ObjectSet(
    ("queue_type", "dead_letter_strategy"), _dead_letter_strategies
)
VHOSTS: Final = ObjectSet(("vhost",), _vhosts)
QUEUES: Final = ObjectSet(("vhost", "queue"), _queues)
USED_QUEUES: Final = ObjectSet(("vhost", "queue"), _used_queues)
DESCRIBED_QUEUES: Final = ObjectSet(
    ("vhost", "queue", "queue_type", "membership"), _described_queues
)
USED_EXCHANGES: Final = ObjectSet(("vhost", "exchange"), _used_exchanges)
NAMED_EXCHANGES: Final = ObjectSet(("vhost", "exchange", "type"), _named_exchanges)
CHANNELS: Final = ObjectSet(("channel",), _channels)
CONNECTIONS: Final = ObjectSet(("channel",), _connections)
CHANNELS_BY_EXCHANGE: Final = ObjectSet(("channel", "vhost", "exchange"), _publishes)
CHANNELS_BY_QUEUE: Final = ObjectSet(("channel", "vhost", "queue"), _deliveries)
CHANNELS_BY_QUEUE_AND_EXCHANGE: Final = ObjectSet(
    ("channel", "queue_vhost", "queue", "exchange_vhost", "exchange"), _routes
)
QUEUES_BY_EXCHANGE: Final = ObjectSet(("vhost", "exchange", "queue"), _queues_by_exchange)
CONSUMED_STREAMS: Final = ObjectSet(("vhost", "queue"), _consumed_streams)
GROUPS: Final = ObjectSet(("vhost", "queue", "group"), _groups)
EXPORTS: Final = ObjectSet(("vhost", "queue", "output"), _exports)
