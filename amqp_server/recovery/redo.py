"""Start-up: carries out committed transactions again that may not be in all logs.

It works queue by queue while each log is opened: the part of one queue does not depend on the
others. It is idempotent: appended chunks carry the transaction's id, and settling twice changes
nothing.

Source: docs/redo-format.md, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from appendlog import Append, encode_chunk
from appendlog.segments.append_clock import AppendClock
from offsets import RedoTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from appendlog import Log
    from offsets.settlement import Settlement


CHUNK_BYTES_MAX = 256 * 1024
"""Largest size of a chunk in bytes of messages; a larger message gets a chunk of its own."""


class RedoPublish(NamedTuple):
    """Messages of one transaction for one queue; all of them lie at or above `log_end_offset`."""

    transaction_id: bytes
    log_end_offset: int
    messages: list[bytes]


@dataclass(slots=True)
class QueueRedo:
    """Work of the redo journal for one queue.

    Attributes:
        publishes: Messages to append, in the order of the commits.
        settled: Ranges of offsets to settle.
    """

    publishes: list[RedoPublish] = field(default_factory=list)
    settled: list[tuple[int, int]] = field(default_factory=list)


def redo_by_queue(transactions: Iterable[RedoTransaction]) -> dict[UUID, QueueRedo]:
    """Return the work for each queue, by incarnation."""
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
    """Settle, and append messages that the log lacks; all is on the disk when this returns.

    Args:
        log: Opened log to which nothing was appended since.
        settlement: Settlement of the queue; changed.
        redo: Work for the queue.

    Returns:
        Number of messages that were appended.

    Raises:
        LogError: The log cannot be read or written; the next start repeats all of it.
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
        # A log is written in order, so it contains a prefix of the transaction's messages.
        missing = publish.messages[counts.get(publish.transaction_id, 0) :]
        _append(log, publish.transaction_id, missing)
        appended += len(missing)
    return appended


def remaining(
    transactions: Iterable[RedoTransaction], is_awaited: Callable[[UUID], bool]
) -> list[RedoTransaction]:
    """Return the parts of transactions whose queues are missing but may come back later.

    Args:
        transactions: All transactions of the journal.
        is_awaited: Returns whether the queue of an incarnation is missing but may not be deleted.
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
    """Move the log's end to where the record says it was, if a power cut cut it shorter.

    Unconfirmed messages can be missing there. Messages that are appended again must not lie below
    the hint: the next start would not find it and would append it once more.
    """
    end = log.log_end_offset
    hint = max((publish.log_end_offset for publish in publishes), default=0)
    if end < hint:
        log.append(Append([], hint, sync=False))
        settlement.settle(end, hint)


def _append(log: Log, transaction_id: bytes, messages: list[bytes]) -> None:
    if not messages:
        return
    timestamp_ns = AppendClock(log.directory, log.last_timestamp_ns, log.time_ns).now_ns()
    start = size = 0
    for end, message in enumerate(messages):
        if end > start and size + len(message) > CHUNK_BYTES_MAX:
            _append_chunk(log, transaction_id, messages[start:end], timestamp_ns, sync=False)
            start = end
            size = 0
        size += len(message)
    # The last chunk is synced, and with it all chunks before it.
    _append_chunk(log, transaction_id, messages[start:], timestamp_ns, sync=True)


def _append_chunk(
    log: Log, transaction_id: bytes, messages: list[bytes], timestamp_ns: int, *, sync: bool
) -> None:
    offset = log.log_end_offset
    chunk = encode_chunk(
        messages, offset, None, timestamp_ns, None, log.identity.salt, transaction_id
    )
    log.append(Append([chunk], offset + len(messages), sync=sync))
