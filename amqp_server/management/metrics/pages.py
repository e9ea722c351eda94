"""What is on each page of metrics, before the identity of the broker, which ends them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from amqp_server.management.metrics.collector import histogram_text
from amqp_server.management.metrics.families.channel_families import (
    CHANNEL_DELIVERIES,
    CHANNEL_DETAILS,
    CHANNEL_PROCESSES,
    CHANNEL_PUBLISHES,
    CHANNEL_ROUTES,
)
from amqp_server.management.metrics.families.connection_families import (
    CONNECTION_COARSE,
    CONNECTION_DETAILS,
)
from amqp_server.management.metrics.families.exchange_families import (
    EXCHANGE_BINDINGS,
    EXCHANGE_NAMES,
    EXCHANGE_PUBLISHES,
    VHOST_STATUS,
)
from amqp_server.management.metrics.families.global_families import (
    GLOBAL_DEAD_LETTERS,
    GLOBAL_DELIVERIES,
    GLOBAL_PUBLISHES,
)
from amqp_server.management.metrics.families.memory_families import MEMORY_BREAKDOWN
from amqp_server.management.metrics.families.node_families import (
    ALARMS,
    AUTH_ATTEMPTS,
    AUTH_ATTEMPTS_BY_SOURCE,
    CHURN,
    NODE_COARSE,
    NODE_LIMITS,
    PERSISTER,
    RAFT,
    TOTALS,
)
from amqp_server.management.metrics.families.own_families import (
    BROKER,
    EXPORT_STATES,
    GROUP_LAGS,
    QUEUE_LOGS,
    TRANSFERS,
)
from amqp_server.management.metrics.families.queue_families import (
    QUEUE_COARSE,
    QUEUE_CONSUMER_COUNT,
    QUEUE_DELIVERIES,
    QUEUE_DETAILS,
    QUEUE_INFO,
    QUEUE_PUBLISHES,
    STREAM_CONSUMERS,
)
from amqp_server.management.metrics.object_filter import ObjectFilter
from amqp_server.management.metrics.object_lines import object_lines, sum_lines

if TYPE_CHECKING:
    from amqp_server.management.metrics.family import FamilyGroup
    from amqp_server.management.metrics.readable_mirror import ReadableMirror

_BROKER_WIDE: Final = (
    CHURN,
    NODE_COARSE,
    NODE_LIMITS,
    PERSISTER,
    RAFT,
    AUTH_ATTEMPTS,
    ALARMS,
    TOTALS,
    GLOBAL_PUBLISHES,
    GLOBAL_DELIVERIES,
    GLOBAL_DEAD_LETTERS,
    BROKER,
    TRANSFERS,
)
"""Groups whose metrics are the same on the page of sums and on that of all objects."""
_OF_OBJECTS: Final = (
    AUTH_ATTEMPTS_BY_SOURCE,
    QUEUE_COARSE,
    QUEUE_DETAILS,
    QUEUE_DELIVERIES,
    QUEUE_PUBLISHES,
    STREAM_CONSUMERS,
    CHANNEL_DETAILS,
    CHANNEL_PUBLISHES,
    CHANNEL_PROCESSES,
    CHANNEL_DELIVERIES,
    CHANNEL_ROUTES,
    CONNECTION_COARSE,
    CONNECTION_DETAILS,
    EXCHANGE_PUBLISHES,
    QUEUE_LOGS,
    GROUP_LAGS,
    EXPORT_STATES,
)
"""Groups with a line for each object, or the sum of all objects."""
GROUPS: Final = (*_BROKER_WIDE, *_OF_OBJECTS, QUEUE_INFO)
"""Groups of the page with a line for each object."""
CHOSEN_BY_NAME: Final[dict[str, FamilyGroup]] = {
    group.name: group
    for group in (
        CHURN,
        NODE_COARSE,
        NODE_LIMITS,
        PERSISTER,
        RAFT,
        AUTH_ATTEMPTS,
        *_OF_OBJECTS,
        QUEUE_CONSUMER_COUNT,
        VHOST_STATUS,
        EXCHANGE_BINDINGS,
        EXCHANGE_NAMES,
        BROKER,
        TRANSFERS,
    )
}
"""Groups that the page `/metrics/detailed` can show, by what its address calls them."""
_WITH_QUEUE_INFO: Final = (QUEUE_COARSE, QUEUE_CONSUMER_COUNT, QUEUE_DETAILS)
_EVERYTHING: Final = ObjectFilter()

Pieces = Iterator[str]
"""Text of a page in pieces, some of them empty: after each the reader may pause."""


def sums(mirror: ReadableMirror) -> Pieces:
    """Return the page `/metrics`: the broker, and the sums of all objects."""
    return chain(
        _lines(mirror, _BROKER_WIDE),
        chain.from_iterable(sum_lines(group, mirror, _EVERYTHING) for group in _OF_OBJECTS),
        histogram_text(mirror),
    )


def per_object(mirror: ReadableMirror) -> Pieces:
    """Return the page `/metrics/per-object`: the broker, and each object."""
    return chain(
        _lines(mirror, GROUPS),
        histogram_text(mirror),
    )


def detailed(mirror: ReadableMirror, names: Sequence[str], wanted: ObjectFilter) -> Pieces:
    """Return the page `/metrics/detailed`: chosen groups, and chosen objects of them.

    Args:
        mirror: State of the broker.
        names: Names of groups; unknown ones are ignored, as RabbitMQ does.
        wanted: Which virtual hosts and queues are shown.

    Raises:
        InvalidFilterError: While the page is read: the search for queues takes too long.
    """
    chosen = [CHOSEN_BY_NAME[name] for name in dict.fromkeys(names) if name in CHOSEN_BY_NAME]
    covered = {group.is_superset_of for group in chosen}
    groups = [group for group in chosen if group.name not in covered]
    if any(group in _WITH_QUEUE_INFO for group in groups):
        groups.append(QUEUE_INFO)
    return chain.from_iterable(
        object_lines(group, group.detailed_prefix, mirror, wanted) for group in groups
    )


def memory_breakdown(mirror: ReadableMirror) -> Pieces:
    """Return the page `/metrics/memory-breakdown`: what uses the memory."""
    return _lines(mirror, (MEMORY_BREAKDOWN,))


def _lines(mirror: ReadableMirror, groups: Sequence[FamilyGroup]) -> Pieces:
    return chain.from_iterable(
        object_lines(group, group.prefix, mirror, _EVERYTHING) for group in groups
    )
