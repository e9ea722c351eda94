"""The row of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.consuming.single_active_consumer import SingleActiveConsumer
from amqp_server.definitions_file.json_arguments import plain_from_table
from amqp_server.views.values import text_json

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.census.row import Facts

QUEUE_COLUMNS: Final = (
    "state",
    "consumers",
    "consumer_capacity",
    "single_active_consumer_tag",
    "exclusive_consumer_tag",
    "messages_ready",
    "messages_unacknowledged",
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
    "oldest_message_ns",
    "groups",
    "publish",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "redeliver",
    "ack",
    "get_empty",
    "disk_reads",
    "disk_writes",
    "dropped",
)
"""Names of the values in the row of a queue; docs/control.md explains them."""


def queue_facts(queue: Queue) -> Facts:
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


def queue_values(queue: Queue) -> list[Any]:
    """Return the values of a queue, in the order of `QUEUE_COLUMNS`. Costs microseconds."""
    store = queue.store
    log = store.log
    ring = store.ring
    consumers = queue.consumers
    active = consumers.active if isinstance(consumers, SingleActiveConsumer) else None
    exclusive = consumers.first if consumers.has_exclusive else None
    counters = queue.counters
    segments = log.segments
    ring_count = len(ring)
    log_bytes = log.size_bytes
    return [
        _state(queue),
        queue.consumer_count,
        1.0,
        None if active is None else active.tag,
        None if exclusive is None else exclusive.tag,
        queue.ready_count,
        queue.unacked_count,
        ring.held_bytes / ring_count if ring_count else 0,
        ring_count,
        ring.held_bytes,
        None,
        log_bytes,
        len(segments),
        log.log_start_offset,
        store.end_offset,
        store.recovery_point if queue.is_journaled else None,
        queue.checkpointed_floor if queue.is_journaled else None,
        None,
        None,
        store.end_offset - queue.opened_end,
        counters.deliver,
        counters.deliver_no_ack,
        counters.get,
        counters.get_no_ack,
        counters.redelivered,
        counters.ack,
        counters.get_empty,
        store.windows.reads,
        store.written_end - queue.opened_end,
        0,
    ]


def _state(queue: Queue) -> str:
    if queue.is_failed:
        return "crashed"
    return "flow" if queue.store.is_stalled else "running"
