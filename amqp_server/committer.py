"""Commits of transactions: written to the redo journal together, carried out one by one.

Commits that arrive while the disk is busy share the next round of the redo journal, and its one
sync. A journal file is kept until the messages that it names are in their logs and its settlements
are in a checkpoint. The checkpointer calls at the start and at the end of its rounds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from offsets import OffsetsError, RedoFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.transactions.commit import Commit
    from amqp_server.disk_reserve import DiskReserve
    from offsets import RedoJournal, RedoTransaction

logger = logging.getLogger(__name__)

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Size in bytes at which a journal file is closed and a checkpoint is requested."""


class _Waiting(NamedTuple):
    commit: Commit
    record: RedoTransaction
    hints: dict[Queue, int]
    done: asyncio.Future[None]


class _RedoFile:
    """One journal file: offsets that the logs must reach before it can be removed."""

    def __init__(self) -> None:
        self.hints: dict[Queue, int] = {}
        self.is_kept = False
        self._ends: dict[Queue, int] = {}

    def note(self, hints: Mapping[Queue, int], reached: Mapping[Queue, int]) -> None:
        for queue, hint in hints.items():
            self.hints.setdefault(queue, hint)
        self._ends.update(reached)

    @property
    def targets(self) -> Iterable[Queue]:
        """The queues that got messages, deleted ones too."""
        return self._ends

    @property
    def is_in_the_logs(self) -> bool:
        return not self.is_kept and all(
            queue.is_deleted or queue.store.recovery_point >= end
            for queue, end in self._ends.items()
        )


class Committer:
    """Makes commits durable, then carries them out. The event loop owns it.

    Args:
        journal: Opened journal; a worker thread writes it, one round at a time.
        reserve: Disk reserve that is released when a round finds no room, so that the next one
            does.
        spawn: Runs a coroutine in the background.
        write_checkpoint: Writes what is settled to the disk; called when a journal file is full.
    """

    def __init__(
        self,
        journal: RedoJournal,
        reserve: DiskReserve,
        spawn: Callable[[Coroutine[None, None, None]], None],
        write_checkpoint: Callable[[], Awaitable[object]],
    ) -> None:
        self._write_checkpoint = write_checkpoint
        self._journal = journal
        self._reserve = reserve
        self._spawn = spawn
        self._files: dict[int, _RedoFile] = {}
        self._number = 0
        self._is_file_open = False
        self._written_number: int | None = None
        self._waiting: list[_Waiting] = []
        self._is_writing = False
        self._under_way = 0
        self._all_done = asyncio.Event()
        self._all_done.set()

    async def commit(self, commit: Commit) -> None:
        """Return when a transaction is durable and has been carried out.

        Raises:
                RedoUnknownError: The disk refused; the next start may carry out the transaction.
                RedoFailedError: The disk refused; no part of the transaction was carried out.
        """
        self._under_way += 1
        self._all_done.clear()
        try:
            await commit.make_ready()
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(_Waiting(commit, *commit.record(), done))
            if not self._is_writing:
                self._is_writing = True
                self._spawn(self._write_rounds())
            await done
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._all_done.set()

    async def drain(self) -> None:
        """Return when every commit that has begun is finished."""
        await self._all_done.wait()

    # For the checkpointer

    def begin_round(self) -> list[int]:
        """Return the files that a checkpoint of this moment makes obsolete."""
        self._is_file_open = False
        return [
            number
            for number, file in self._files.items()
            if number != self._written_number and file.is_in_the_logs
        ]

    async def end_round(self, numbers: Sequence[int]) -> None:
        """Remove files that `begin_round` returned; the checkpoint of that moment is written."""
        if not numbers:
            return
        try:
            await asyncio.to_thread(self._journal.remove, numbers)
        except RedoFailedError as error:
            # The files stay, and so do the segments that they need; the next round tries again.
            logger.warning("redo files not removed error=%s", error)
            return
        for number in numbers:
            del self._files[number]

    def kept_from(self) -> dict[Queue, int]:
        """Return, by queue, the lowest offset that the journal needs, settled or not."""
        kept: dict[Queue, int] = {}
        for file in self._files.values():
            for queue, hint in file.hints.items():
                kept[queue] = min(hint, kept.get(queue, hint))
        return kept

    # Rounds

    async def _write_rounds(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            number = self._written_number = self._file_number()
            try:
                records = [waiting.record for waiting in batch]
                await asyncio.to_thread(self._journal.write, number, records)
            except RedoFailedError as error:
                logger.error("commit failed error=%s", error)  # noqa: TRY400 - one line
                await asyncio.to_thread(self._reserve.release_for, error)
                self._refuse(batch, error)
            except Exception as error:
                logger.exception("commit failed")
                self._refuse(batch, error)
            else:
                file = self._files.setdefault(number, _RedoFile())
                for waiting in batch:
                    _carry_out(waiting, file)
            finally:
                self._written_number = None
            if self._is_file_open and self._journal.file_bytes >= FILE_BYTES_MAX:
                self._is_file_open = False
                self._spawn(self._make_room())
        self._is_writing = False

    async def _make_room(self) -> None:
        """Make the logs durable and write a checkpoint, so that a full journal file can go.

        Runs also where checkpoints are written only on request: the journal would grow without
        limit.
        """
        logger.info("redo journal full, a checkpoint is written file_bytes=%d", FILE_BYTES_MAX)
        # Without this the file would stay until the next one is full.
        for queue in {queue for file in self._files.values() for queue in file.targets}:
            await queue.store.make_durable()
        try:
            await self._write_checkpoint()
        except OffsetsError as error:
            logger.warning("checkpoint failed error=%s", error)

    def _refuse(self, batch: Sequence[_Waiting], error: Exception) -> None:
        # The state of this file is unknown, so the next round begins a new one.
        self._is_file_open = False
        for waiting in batch:
            waiting.commit.abort()
            waiting.done.set_exception(error)

    def _file_number(self) -> int:
        if not self._is_file_open:
            self._is_file_open = True
            # Ask the journal: recovery may have begun a file for transactions that it could not
            # complete.
            self._number = self._journal.last_number + 1
        return self._number


def _carry_out(waiting: _Waiting, file: _RedoFile) -> None:
    try:
        file.note(waiting.hints, waiting.commit.carry_out())
    except Exception as error:
        # A programming error: the record is on the disk, and the next start carries it out.
        logger.exception("commit not carried out")
        file.is_kept = True
        waiting.done.set_exception(error)
    else:
        waiting.done.set_result(None)
