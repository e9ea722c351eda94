"""Browses a queue while its server does not run, from the log and the checkpoint."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amqp_server.admin.views.record_view import browsed_rows
from amqp_server.broker.message_states import MessageState
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.subscriptions.start_position import StartKind
from appendlog import FileSystem, LogReader
from appendlog.layout.message import PERSISTENT
from offsets import Settlement, decode_checkpoint, read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from amqp_server.broker.header_filter import HeaderFilter
    from amqp_server.broker.subscriptions.start_position import StartPosition
    from amqp_server.maintenance.stored_queues import StoredQueue


class StoredBrowse:
    """The log of one stopped queue, opened for reading by `stored_browse`.

    Args:
        reader: Reader of its log.
        settlement: Settlement in the last checkpoint.
        is_stream: Whether the queue is a stream, whose messages are never settled.
    """

    def __init__(self, reader: LogReader, settlement: Settlement, *, is_stream: bool) -> None:
        self._reader = reader
        self._settlement = settlement
        self._is_stream = is_stream

    def offset_of(self, position: StartPosition) -> int:
        """Return the offset of a position in the log."""
        reader = self._reader
        match position.kind:
            case StartKind.FIRST:
                return reader.log_start_offset
            case StartKind.NEXT:
                return reader.log_end_offset
            case StartKind.TAIL:
                return max(reader.log_start_offset, reader.log_end_offset - position.number)
            case StartKind.OFFSET:
                return max(reader.log_start_offset, position.number)
            case StartKind.TIME:
                return reader.first_offset_at(position.number)

    def rows(
        self,
        start: int,
        end: int,
        state: str,
        filters: Sequence[HeaderFilter],
        body_bytes_max: int | None,
    ) -> Iterator[dict[str, Any]]:
        """Return the matching messages of `[start, end)`; see `browsed_rows`.

        A transient message counts as settled, because the next start drops it.
        """
        end = min(end, self._reader.log_end_offset)
        if start >= end:
            return
        for batch in self._reader.read(start, end):
            records = zip(batch.offsets, batch.timestamps_ns, batch.messages, strict=True)
            stated = (
                (offset, time_ns, message, self._state(offset, message))
                for offset, time_ns, message in records
            )
            yield from browsed_rows(stated, state, filters, body_bytes_max)

    def _state(self, offset: int, message: bytes) -> MessageState:
        if self._is_stream:
            return MessageState.READY
        is_gone = self._settlement.is_settled(offset) or not message[0] & PERSISTENT
        return MessageState.SETTLED if is_gone else MessageState.READY


@contextmanager
def stored_browse(storage_path: Path, queue: StoredQueue) -> Iterator[StoredBrowse]:
    """Open the log of a queue of a data directory on which no server runs.

    Raises:
        LogError: No segment can be read.
        OffsetsError: The checkpoint cannot be read.
    """
    entry = read_checkpoint(storage_path / "offsets", FileSystem()).entries.get(
        queue.incarnation.bytes
    )
    settlement = Settlement()
    if entry is not None:
        checkpoint = decode_checkpoint(entry)
        settlement = Settlement(checkpoint.ack_floor, checkpoint.acked_ranges)
    is_stream = queue.definition.settings.type is QueueType.STREAM
    with LogReader(queue.directory, skip_damage=True) as reader:
        yield StoredBrowse(reader, settlement, is_stream=is_stream)
