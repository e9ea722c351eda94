"""Opens one queue's log at the start and computes what of it is settled.

Also which attributes of its messages the queue's rules need, and when they are read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.rules.unloaded_attributes import AppendTimes, UnloadedAttributes
from amqp_server.broker.storing.opened_log import OpenedLog
from amqp_server.recovery.redo import carry_out_again
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from amqp_server.base.clock import Clock
    from amqp_server.broker.definitions import QueueDefinition
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.storing.unopened_log import UnopenedLog
    from amqp_server.recovery.redo import QueueRedo
    from appendlog import Log, RecoveryReport
    from offsets import QueueCheckpoint

logger = logging.getLogger("amqp_server.queue_recovery")


def open_queue(
    storage: QueueStorage,
    unopened: UnopenedLog,
    definition: QueueDefinition,
    checkpoint: QueueCheckpoint | None,
    redo: QueueRedo | None,
    known_end: int,
    *,
    was_clean: bool,
) -> tuple[OpenedLog, RecoveryReport]:
    """Open one log and compute what of it is settled. Runs in a worker.

    Args:
        storage: Opens the log.
        unopened: The log.
        definition: Definition of the queue, or of the hidden queue of an exchange.
        checkpoint: The last known settlement.
        redo: Work of committed transactions for this queue; carried out when this returns.
        known_end: Offset below which the log was on the disk according to the checkpoints. Records
            missing below it are lost, and the log continues above it.
        was_clean: Whether the server stopped cleanly.

    Raises:
        LogError: The log cannot be opened.
    """
    known_floor = checkpoint.ack_floor if checkpoint is not None else 0
    log, report = storage.open_log(unopened, known_floor, known_end)
    if known_end > report.end_offset:
        logger.error(
            "%s vhost=%s queue=%s path=%s log_end=%d known_end=%d lost_ranges=%s",
            "end of log missing" if report.segment_count else "log missing",
            unopened.identity.vhost,
            unopened.identity.queue,
            report.directory,
            report.end_offset,
            known_end,
            report.lost,
        )
    # Retention stops at the checkpointed floor (I1): the broker has not removed what is missing
    # above it.
    report.add_lost(known_floor, log.log_start_offset)
    end = log.log_end_offset
    settlement = _settled(log, report, checkpoint)
    delivered_watermark = end
    if checkpoint is not None and was_clean:
        delivered_watermark = min(checkpoint.delivered_watermark, end)
    if redo is not None and carry_out_again(log, settlement, redo) and not was_clean:
        delivered_watermark = log.log_end_offset
    opened = OpenedLog(
        log,
        unopened.settings,
        settlement.ack_floor,
        settlement.ranges(),
        delivered_watermark,
        _redeliveries(checkpoint, settlement, end) if checkpoint is not None else [],
        *recovered_attributes(log, definition, settlement, storage.clock),
    )
    return opened, report


def _settled(log: Log, report: RecoveryReport, checkpoint: QueueCheckpoint | None) -> Settlement:
    """Return what is settled of a log: by the checkpoint, or because its records are gone."""
    end = log.log_end_offset
    settlement = Settlement()
    if checkpoint is not None:
        settlement.settle(0, min(checkpoint.ack_floor, end))
        for start, stop in checkpoint.acked_ranges:
            if start < end:
                settlement.settle(start, min(stop, end))
    settlement.settle(0, log.log_start_offset)
    gone = [
        *report.lost,
        *log.transient_ranges(settlement.ack_floor),
        *log.reclaim.removed_ranges(settlement.ack_floor),
    ]
    for start, stop in gone:
        if start < end:
            settlement.settle(start, min(stop, end))
    return settlement


def _redeliveries(
    checkpoint: QueueCheckpoint, settlement: Settlement, end: int
) -> list[tuple[int, int, int]]:
    """Return redelivery counts of unsettled messages below `end` as `[start, stop)` ranges."""
    return [
        (low, high, count)
        for start, stop, count in checkpoint.redeliveries
        for low, high in settlement.unsettled_ranges(start, max(start, min(stop, end)))
    ]


def leading_incarnations(
    checkpoints: Mapping[UUID, QueueCheckpoint], queues: Iterable[Queue]
) -> set[UUID]:
    """Return the queues whose checkpoint settles offsets above the end of their log.

    Recovery clips such settlement to the log's end. The checkpoint on the disk must be replaced
    before the log grows again: after a crash it would hide new messages.
    """
    leading: set[UUID] = set()
    for queue in queues:
        state = checkpoints.get(queue.incarnation)
        if state is not None:
            returned = max((end for _, end, _ in state.redeliveries), default=0)
            if max(state.settled_end, returned) > queue.opened_end:
                leading.add(queue.incarnation)
    return leading


def recovered_attributes(
    log: Log, definition: QueueDefinition, settlement: Settlement, clock: Clock
) -> tuple[MessageAttributes | None, UnloadedAttributes | None]:
    """Return the known attributes of a queue's messages, and the reader for the others.

    A queue with a length limit has them read before it takes messages: what it may take depends on
    them, and the number of its messages is bounded.
    """
    floor, end = settlement.ack_floor, log.log_end_offset
    attributes = definition.attributes(floor)
    settings = definition.settings
    ttl_since_ns = definition.policy.ttl_since_ns
    if ttl_since_ns and not definition.is_delay_queue:
        # Messages from before the policy have the lifetime that the arguments give. Both times are
        # rounded, so one that is as old as the policy, to a millisecond or two, may have either.
        since_ms = AppendTimes(clock).since_ms(ttl_since_ns)
        attributes.limit_ttl(since_ms, definition.own_settings.message_ttl_ms)
    is_stream = settings.type is QueueType.STREAM
    expires = not is_stream and any(summary.max_expiry_ns for summary in log.summaries())
    if not attributes.is_needed and not expires:
        return None, None
    unread = UnloadedAttributes(log, attributes, settlement.unsettled_ranges(floor, end), clock)
    if settings.max_length is None and settings.max_length_bytes is None:
        return definition.attributes(end), unread
    while unread.read_some():
        pass
    attributes.close_gap(end)
    return attributes, None
