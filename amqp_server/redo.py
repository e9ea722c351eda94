"""Start-up: carry out again what was committed and may not be in all the logs.

Queue by queue, while its log is being opened: what a transaction means for one queue does not
depend on the others. Idempotent: what is appended carries the transaction's id, and to settle
twice is to settle once.

Source: docs/redo-format.md, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from appendlog import encode_chunk
from appendlog.segments.append_clock import AppendClock
from offsets import RedoTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from appendlog import Log
    from offsets.settlement import Settlement


CHUNK_BYTES_MAX = 256 * 1024
"""Message bytes in a chunk at most; a larger message is alone in its own."""


class RedoPublish(NamedTuple):
    """Messages of one transaction for one queue; nothing of them lies below the hint."""

    transaction_id: bytes
    log_end_offset: int
    messages: list[bytes]


@dataclass(slots=True)
class QueueRedo:
    """What the redo journal says of one queue.

    Attributes:
        publishes: In the order of their commits.
        settled: Ranges of offsets.
    """

    publishes: list[RedoPublish] = field(default_factory=list)
    settled: list[tuple[int, int]] = field(default_factory=list)


def redo_by_queue(transactions: Iterable[RedoTransaction]) -> dict[UUID, QueueRedo]:
    """Return what each queue, by its incarnation, has to do."""
    queues: dict[UUID, QueueRedo] = {}
    for transaction in transactions:
        for target in transaction.targets:
            queues.setdefault(target.incarnation, QueueRedo()).publishes.append(
                RedoPublish(
                    transaction.transaction_id,
                    target.log_end_offset,
                    transaction.messages_of(target),
                )
            )
        for settled in transaction.settled:
            queues.setdefault(settled.incarnation, QueueRedo()).settled += settled.ranges
    return queues


def carry_out_again(log: Log, settlement: Settlement, redo: QueueRedo) -> int:
    """Settle, and append what the log has not yet; on the disk when this returns.

    Args:
        log: Opened; nothing was appended to it since.
        settlement: Of the queue; changed.
        redo: What has to be done.

    Returns:
        How many messages were appended.

    Raises:
        LogError: The log cannot be read or written; repeat it all at the next start.
    """
    end = log.log_end_offset
    _skip_what_is_gone(log, settlement, redo.publishes)
    for start, stop in redo.settled:
        if start < end:
            settlement.settle(start, min(stop, end))
    if not redo.publishes:
        return 0
    counts = log.transaction_counts(min(publish.log_end_offset for publish in redo.publishes))
    appended = 0
    for publish in redo.publishes:
        # A log is written in order: what it has of a transaction is its beginning.
        missing = publish.messages[counts.get(publish.transaction_id, 0) :]
        _append(log, publish.transaction_id, missing)
        appended += len(missing)
    return appended


def remaining(
    transactions: Iterable[RedoTransaction], is_awaited: Callable[[UUID], bool]
) -> list[RedoTransaction]:
    """Return what could not be carried out, because its queue may come back later.

    Args:
        transactions: All that were read.
        is_awaited: Whether a queue, by its incarnation, is not here but may not be gone.
    """
    left: list[RedoTransaction] = []
    for transaction in transactions:
        targets = [each for each in transaction.targets if is_awaited(each.incarnation)]
        settled = [each for each in transaction.settled if is_awaited(each.incarnation)]
        if targets or settled:
            left.append(
                RedoTransaction(
                    transaction.transaction_id,
                    transaction.messages if targets else [],
                    targets,
                    settled,
                )
            )
    return left


def _skip_what_is_gone(log: Log, settlement: Settlement, publishes: Iterable[RedoPublish]) -> None:
    """Let the log begin where the record says that it ended: a power cut took what was before.

    Messages that nobody waited for can be gone. What is carried out again must not lie below
    the hint, or the next start would not find it, and append it once more.
    """
    end = log.log_end_offset
    hint = max((publish.log_end_offset for publish in publishes), default=0)
    if end < hint:
        log.append([], hint, sync=False)
        settlement.settle(end, hint)


def _append(log: Log, transaction_id: bytes, messages: list[bytes]) -> None:
    if not messages:
        return
    timestamp_ns = AppendClock(log.directory, log.last_timestamp_ns).now_ns()
    start = size = 0
    for end, message in enumerate(messages):
        if end > start and size + len(message) > CHUNK_BYTES_MAX:
            _append_chunk(log, transaction_id, messages[start:end], timestamp_ns, sync=False)
            start, size = end, 0
        size += len(message)
    # The last one waits for the disk, and takes all before it along.
    _append_chunk(log, transaction_id, messages[start:], timestamp_ns, sync=True)


def _append_chunk(
    log: Log, transaction_id: bytes, messages: list[bytes], timestamp_ns: int, *, sync: bool
) -> None:
    offset = log.log_end_offset
    chunk = encode_chunk(
        messages, offset, None, timestamp_ns, None, log.identity.salt, transaction_id
    )
    log.append([chunk], offset + len(messages), sync)
