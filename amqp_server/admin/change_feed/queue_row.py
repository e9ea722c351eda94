"""The row of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json
from amqp_server.broker.consuming.single_active_consumer import SingleActiveConsumer
from amqp_server.broker.queue_settings import QueueType
from amqp_server.definitions_file.json_arguments import plain_from_table
from amqp_server.protocol.property_octets import find_property
from appendlog.layout.message import body_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.broker.observed_queue import ObservedQueue
    from appendlog.segments.segment import Segment

_TIMESTAMP: Final = 1 << 6
"""Flag of the property `timestamp`, in the second octet of the flags."""

QUEUE_COLUMNS: Final = (
    "state",
    "consumers",
    "consumer_wait_seconds",
    "single_active_consumer_tag",
    "exclusive_consumer_tag",
    "messages_ready",
    "messages_unacknowledged",
    "messages_dlx",
    "message_bytes_mean",
    "messages_ram",
    "message_bytes_ram",
    "head_message_timestamp",
    "log_bytes",
    "segments",
    "log_start_offset",
    "log_end_offset",
    "recovery_point",
    "checkpointed_floor",
    "ack_floor",
    "oldest_segment_ns",
    "groups",
    "publish",
    "publish_refused",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "redeliver",
    "ack",
    "get_empty",
    "disk_reads",
    "disk_writes",
)
"""Names of the values in the row of a queue; docs/control.md explains them."""


def queue_attributes(queue: ObservedQueue) -> Attributes:
    """Return what seldom changes of a queue."""
    owner = queue.exclusive_owner
    return {
        **text_json("name", queue.name),
        **text_json("vhost", queue.virtual_host.name),
        "type": queue.settings.type.value,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": owner is not None,
        "owner": None if owner is None else owner.name,
        "arguments": plain_from_table(queue.arguments),
        "durability": queue.storage_settings.durability.value if queue.is_journaled else "none",
        **queue.policy.as_json(),
    }


def queue_values(queue: ObservedQueue) -> list[Any]:
    """Return the values of a queue, in the order of `QUEUE_COLUMNS`. Costs microseconds."""
    store = queue.store
    log = store.log
    ring = store.ring
    counters = queue.counters
    ready = queue.ready_count
    end = store.end_offset
    opened_end = queue.opened_end
    ring_count, ring_bytes = len(ring), ring.held_bytes
    count = queue.consumer_count
    active = exclusive = None
    waited_seconds = 0.0
    if count:
        consumers = queue.consumers
        active = consumers.active if isinstance(consumers, SingleActiveConsumer) else None
        exclusive = consumers.first if consumers.has_exclusive else None
        waited_seconds = round(queue.consumer_waits.seconds, 3)
    settlement = queue.settlement
    floor = settlement.ack_floor
    leaving = 0
    groups = None
    if queue.settings.type is QueueType.STREAM:
        unacked = queue.unacked_count
        floor = queue.first_offset
        groups = _groups(queue)
    else:
        leaving = queue.leaving_count
        unacked = max(end - floor - settlement.settled_above_floor - ready - leaving, 0)
    recovery_point = checkpointed_floor = oldest_ns = None
    if queue.is_journaled:
        recovery_point, checkpointed_floor = store.recovery_point, queue.checkpointed_floor
    log_bytes, log_start = 0, end
    mean_bytes = ring_bytes / ring_count if ring_count else 0.0
    segments = log.segments
    if segments:
        log_bytes, log_start = log.size_bytes, log.log_start_offset
        oldest_ns = _segment_ns(segments, floor)
        mean_bytes = mean_bytes or _mean_bytes(segments)
    return [
        _state(queue),
        count,
        waited_seconds,
        None if active is None else active.tag,
        None if exclusive is None else exclusive.tag,
        ready,
        unacked,
        leaving,
        mean_bytes,
        ring_count,
        ring_bytes,
        _head_timestamp(queue) if ready else None,
        log_bytes,
        len(segments),
        log_start,
        end,
        recovery_point,
        checkpointed_floor,
        floor,
        oldest_ns,
        groups,
        end - opened_end,
        queue.publish_refused_count,
        counters.deliver,
        counters.deliver_no_ack,
        counters.get,
        counters.get_no_ack,
        counters.redelivered,
        counters.ack,
        counters.get_empty,
        store.windows.reads,
        store.written_end - opened_end,
    ]


def _state(queue: ObservedQueue) -> str:
    if queue.is_failed:
        return "crashed"
    if queue.is_paused:
        return "paused"
    return "flow" if queue.store.is_stalled else "running"


def _mean_bytes(segments: Sequence[Segment]) -> float:
    """Return the mean size of the messages in the last segment that has some."""
    for segment in reversed(segments[-2:]):
        summary = segment.summary
        if summary.record_count:
            return summary.body_bytes / summary.record_count
    return 0.0


def _segment_ns(segments: Sequence[Segment], floor: int) -> int | None:
    """Return when the segment began that holds an offset; no message from there on is older."""
    for segment in segments:
        if segment.end_offset > floor and segment.summary.record_count:
            return segment.summary.first_timestamp_ns
    return None


def _head_timestamp(queue: ObservedQueue) -> int | None:
    """Return the property `timestamp` of the first ready message; None if it is not in memory."""
    first = queue.ready.peek()
    ring = queue.store.ring
    if first is None or not ring.window_start <= first.start < ring.cursor:
        return None
    (message,) = ring.read(first.start, first.start + 1)
    at = 2 + message[1]
    at += 5 + message[at]
    if not message[at + 1] & _TIMESTAMP:
        return None
    properties = message[at : body_position(message)]
    start, end = find_property(properties, _TIMESTAMP)
    return int.from_bytes(properties[start:end], "big")


def _groups(queue: ObservedQueue) -> list[dict[str, Any]] | None:
    """Return the consumer groups of a stream; None if it has none."""
    groups = queue.groups
    if groups is None or not len(groups):
        return None
    end, start = queue.visible_end, queue.first_offset
    return [
        {
            **text_json("group", group.name),
            "members": group.members,
            "committed": group.offsets.committed,
            "lag": group.offsets.lag(end, start),
            "delivered": group.delivered_count,
            "acked": group.acked_count,
            "unacked": sum(each.unacked for each in group.subscription.consumers),
        }
        for group in groups
    ]
