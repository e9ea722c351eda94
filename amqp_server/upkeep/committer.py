"""Commits of transactions: written to the redo journal together, carried out one by one.

A commit is carried out in slices, and its journal file stays at least until the last of them.

Commits that arrive while the disk is busy share the next round of the redo journal, and its one
sync. A journal file is kept until the messages that it names are in their logs and its settlements
are in a checkpoint. The checkpointer calls at the start and at the end of its rounds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.broker.job import Job, done_in_turns
from offsets import OffsetsError, RedoFailedError

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Iterator,
        Sequence,
    )

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.transactions.commit import Commit
    from amqp_server.broker.turn import Turn
    from amqp_server.upkeep.disk_reserve import DiskReserve
    from offsets import RedoJournal, RedoTransaction

logger = logging.getLogger("amqp_server.committer")

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Size in bytes at which a journal file is closed and a checkpoint is requested."""


FREED_AT_ONCE: Final = 4096
"""Messages and ranges of a record that one step frees."""


class _Waiting(NamedTuple):
    commit: Commit
    record: RedoTransaction
    hints: dict[Queue, int]
    done: asyncio.Future[None]


class _RedoFile:
    """One journal file: offsets that the logs must reach before it can be removed.

    Attributes:
        hints: By queue, the lowest offset that the file may put messages at.
        under_way: Its commits that are not carried out to their end.
    """

    def __init__(self) -> None:
        self.hints: dict[Queue, int] = {}
        self.under_way: set[asyncio.Future[None]] = set()
        self._ends: dict[Queue, int] = {}

    def begin(self, waiting: _Waiting) -> None:
        self.under_way.add(waiting.done)
        for queue, hint in waiting.hints.items():
            self.hints.setdefault(queue, hint)

    def end(self, waiting: _Waiting) -> None:
        self.under_way.discard(waiting.done)
        self._ends.update(waiting.commit.reached)

    async def until_carried_out(self) -> None:
        if self.under_way:
            await asyncio.wait(self.under_way)

    @property
    def targets(self) -> Iterable[Queue]:
        """The queues that got messages, deleted ones too."""
        return self._ends

    @property
    def is_in_the_logs(self) -> bool:
        return not self.under_way and all(
            queue.is_deleted or queue.store.recovery_point >= end
            for queue, end in self._ends.items()
        )


class Committer:
    """Makes commits durable, then carries them out. The event loop owns it.

    Args:
        journal: Opened journal; a worker thread writes it, one round at a time.
        reserve: Disk reserve that is released when a round finds no room, so that the next one
            does.
        turn: Turn that carries out what takes long.
        spawn: Runs a coroutine in the background.
        write_checkpoint: Writes what is settled to the disk; called when a journal file is full.
    """

    def __init__(
        self,
        journal: RedoJournal,
        reserve: DiskReserve,
        turn: Turn,
        spawn: Callable[[Coroutine[None, None, None]], None],
        write_checkpoint: Callable[[], Awaitable[object]],
    ) -> None:
        self._write_checkpoint = write_checkpoint
        self._journal = journal
        self._reserve = reserve
        self._turn = turn
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
            record, hints = await self._record(commit)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            # The list is looked up here and not before the record is made: each round replaces it.
            self._waiting.append(_Waiting(commit, record, hints, done))
            if not self._is_writing:
                self._is_writing = True
                self._spawn(self._write_rounds())
            await done
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._all_done.set()

    async def _record(self, commit: Commit) -> tuple[RedoTransaction, dict[Queue, int]]:
        """Make the record of a commit, in the turns of its client."""
        made: list[tuple[RedoTransaction, dict[Queue, int]]] = []

        def steps() -> Iterator[None]:
            made.append((yield from commit.record()))

        name = f"record of client {commit.client.name!r}"
        await done_in_turns(self._turn, commit.client.task_queue, steps(), name)
        return made[0]

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
                    self._carry_out(waiting, file)
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
        for file in tuple(self._files.values()):
            await file.until_carried_out()
        for queue in {queue for file in self._files.values() for queue in file.targets}:
            await queue.store.make_durable()
        try:
            await self._write_checkpoint()
        except OffsetsError as error:
            logger.warning("checkpoint failed error=%s", error)

    def _carry_out(self, waiting: _Waiting, file: _RedoFile) -> None:
        """Let a recorded commit be carried out; until its last step the file stays."""
        file.begin(waiting)

        def steps() -> Iterator[None]:
            yield from _free(waiting.record)
            try:
                yield from waiting.commit.carry_out()
            except Exception as error:
                # A programming error: the record is on the disk, and the next start carries it out.
                # Its file is never removed.
                logger.exception("commit not carried out")
                waiting.done.set_exception(error)
            else:
                file.end(waiting)
                waiting.done.set_result(None)

        waiting.commit.schedule(steps())

    def _refuse(self, batch: Sequence[_Waiting], error: Exception) -> None:
        # The state of this file is unknown, so the next round begins a new one.
        self._is_file_open = False
        for waiting in batch:
            self._abort(waiting, error)

    def _abort(self, waiting: _Waiting, error: Exception) -> None:
        def steps() -> Iterator[None]:
            yield from _free(waiting.record)
            yield from waiting.commit.abort()
            waiting.done.set_exception(error)

        Job(self._turn, waiting.commit.client.task_queue, steps(), "refused commit").start()

    def _file_number(self) -> int:
        if not self._is_file_open:
            self._is_file_open = True
            # Ask the journal: recovery may have begun a file for transactions that it could not
            # complete.
            self._number = self._journal.last_number + 1
        return self._number


def _free(record: RedoTransaction) -> Iterator[None]:
    """Empty a record that is on the disk: to free millions of messages and ranges takes long."""
    for part in (
        record.messages,
        *(target.runs for target in record.targets),
        *(settled.ranges for settled in record.settled),
    ):
        assert isinstance(part, list), "a commit makes its record of lists"
        while part:
            del part[-FREED_AT_ONCE:]
            yield
