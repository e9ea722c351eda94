"""Background checkpoints: write what is settled to the disk, then free segments."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.storing.failed_stores import is_disk_full
from amqp_server.broker.transfers.deaths import DELIVERY_LIMIT, REJECTED
from amqp_server.upkeep.group_rounds import GroupRounds
from appendlog.layout.format import OFFSET_MAX
from offsets import CheckpointFailedError, OffsetsError, QueueSnapshot, WrittenRound

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from uuid import UUID

    from amqp_server.base.clock import Clock
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.upkeep.committer import Committer
    from amqp_server.upkeep.disk_reserve import DiskReserve
    from amqp_server.upkeep.reclaimer import Reclaimer
    from offsets import QueueCheckpoint
    from offsets.checkpoint import CheckpointStore

logger = logging.getLogger("amqp_server.checkpointer")


class CheckpointReport(NamedTuple):
    """Result of a checkpoint round that is on the disk.

    Attributes:
        queues: Number of queues whose state was written.
        written_bytes: Bytes written; 0 when there was nothing to write.
        generation: Generation of the checkpoint file.
        seconds: Duration of the round.
    """

    queues: int
    written_bytes: int
    generation: int
    seconds: float


class Checkpointer:
    """Writes the settlement of dirty queues, one round at a time.

    A checkpoint may lag behind what is settled, but never lead what is durable: it ends at the
    recovery point (invariant I4). Otherwise acks could outlive their messages and hide new ones.
    A round spreads over as many turns of the event loop as it needs. Each queue's state is taken at
    its own moment; the states of two queues need not agree.

    Args:
        broker: Broker whose queues are written.
        store: Checkpoint files; a worker thread writes them, one round at a time.
        reserve: Disk reserve that makes room for a checkpoint on a full disk.
        reclaimer: Frees disk space after each round.
        committer: Names the redo files that a round makes obsolete, and removes them after it.
        keep_lock: Called in a worker before each round; raises an OffsetsError if the directory
            lock is lost and nothing may be written.
        interval_seconds: Seconds from the start of a round to the start of the next; 0 writes
            rounds only on request.
        clock: Time that the interval goes by.

    Attributes:
        has_written_last: Whether the last round is on the disk, which records a clean stop.
    """

    def __init__(
        self,
        broker: Broker,
        store: CheckpointStore,
        reserve: DiskReserve,
        reclaimer: Reclaimer,
        committer: Committer,
        keep_lock: Callable[[], None],
        interval_seconds: float,
        clock: Clock,
    ) -> None:
        self._broker = broker
        self._to_checkpoint = broker.queues_to_checkpoint
        self._store = store
        self._reserve = reserve
        self._reclaimer = reclaimer
        self._committer = committer
        self._keep_lock = keep_lock
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._round = asyncio.Lock()
        self._next: asyncio.Task[CheckpointReport] | None = None
        # The start itself has written a round.
        self._last_round_seconds = clock.monotonic()
        self.has_written_last = False

    def take_over(self, incarnations: Container[UUID]) -> None:
        """Register the recovered queues; the first round looks at all of them.

        Args:
            incarnations: Incarnations that the checkpoint on the disk names.
        """
        for queue in self._broker.queues():
            queue.is_checkpointed = queue.incarnation in incarnations
            # The start's own round has written every recovery point that had changed.
            queue.checkpointed_recovery_point = queue.store.recovery_point
            self._to_checkpoint.add(queue)

    @property
    def age_seconds(self) -> float:
        """Seconds since the start of the last round that succeeded, by the broker's clock."""
        return self._clock.monotonic() - self._last_round_seconds

    @property
    def is_writing(self) -> bool:
        """Whether a round is being written, or is about to begin."""
        return self._next is not None or self._round.locked()

    async def run(self) -> None:
        """Write a round every interval, until cancelled; return at once if the interval is 0.

        Rounds start at whole intervals after the first. A round that takes longer than an interval
        skips the starts that it overlaps, and delays none.
        """
        interval = self._interval_seconds
        if not interval:
            return
        clock = self._clock
        due = clock.monotonic() + interval
        while True:
            due = await clock.until_round(due, interval)
            try:
                await self.write_round()
            except OffsetsError as error:
                logger.error("checkpoint failed error=%s", error)  # noqa: TRY400 - one line says it all
            except Exception:
                logger.exception("checkpoint failed")
            due += interval * max(math.ceil((clock.monotonic() - due) / interval), 1)

    async def write_round(self) -> CheckpointReport:
        """Return when everything that is settled and durable now is in a checkpoint on the disk.

        Callers that ask before a round has begun share it. The round continues if they are
        cancelled.

        Raises:
            CheckpointFailedError: The disk refused the write; the next round repeats it.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._begin_round(), name="checkpoint round")
        return await asyncio.shield(self._next)

    async def write_now(self) -> CheckpointReport:
        """Make everything that is settled now durable, then write a checkpoint of it.

        Runs when an operator or a client asks for a checkpoint.

        Raises:
            CheckpointFailedError: The disk refused the write; the next round repeats it.
        """
        time_slice = self._broker.turn.new_slice()
        behind = [
            queue for queue in self._to_checkpoint if queue.is_journaled and not queue.is_synced
        ]
        for queue in behind:
            queue.store.request_sync()
            await time_slice.yield_if_due()
        for queue in behind:
            await queue.store.make_durable()
        return await self.write_round()

    async def write_last(self) -> None:
        """Write every queue's final state; the server has stopped, so nothing changes after it.

        Raises:
            CheckpointFailedError: The disk refused the write; the stop is not a clean one.
        """
        while self._next is not None:
            # A round that is written after the last one would revoke the clean stop.
            await asyncio.wait([self._next])
        async with self._round:
            await asyncio.to_thread(self._keep_lock)
            changed = self._to_checkpoint.take()
            await self._write(list(self._broker.queues()), changed, is_last=True)
        self.has_written_last = True

    async def _begin_round(self) -> CheckpointReport:
        async with self._round:
            self._next = None
            await asyncio.to_thread(self._keep_lock)
            changed = self._to_checkpoint.take()
            return await self._write(changed, changed, is_last=False)

    async def _write(
        self, queues: list[Queue], changed: list[Queue], *, is_last: bool
    ) -> CheckpointReport:
        """Write the state of these queues, then free what the changed ones need no longer."""
        began_seconds = self._clock.monotonic()
        started_seconds = time.perf_counter()
        removed = list(self._broker.removed_incarnations)
        # Ask before any state is taken: a redo file may be removed when the states contain all that
        # it names, and states only grow.
        committed = self._committer.begin_round()
        time_slice = self._broker.turn.new_slice()
        dirty: list[tuple[Queue, QueueSnapshot]] = []
        unchanged: list[tuple[Queue, QueueSnapshot]] = []
        settled: list[Queue] = []
        groups = GroupRounds()
        written = WrittenRound(self._store.generation, 0)
        try:
            for queue in queues:
                if queue.is_deleted:
                    continue
                queue.store.request_sync()
                # The last round writes every queue: it also records what was delivered.
                if queue.is_journaled and (_is_due(queue) or is_last):
                    dirty.append((queue, checkpoint_of(queue, is_last=is_last)))
                    if queue.is_checkpoint_due:
                        settled.append(queue)
                    self._note_taken(queue)
                elif queue.is_journaled:
                    unchanged.append((queue, checkpoint_of(queue)))
                await groups.take(queue, time_slice, every=is_last)
                await time_slice.yield_if_due()
            if dirty or removed or is_last or groups:
                write = partial(
                    self._store.write_round,
                    [state for _, state in dirty],
                    removed,
                    is_last,
                    groups.states,
                    groups.removed,
                )
                if settled or removed or is_last or groups:
                    written = await asyncio.to_thread(self._reserve.run, write)
                elif (points := await self._write_points(write)) is not None:
                    written = points
                else:
                    self._to_checkpoint.update(queue for queue, _ in dirty)
                    unchanged, dirty = [*unchanged, *dirty], []
        except BaseException:
            groups.carry_over()
            for queue in settled:
                queue.is_checkpoint_due = True
            self._to_checkpoint.update(queues)
            raise
        del self._broker.removed_incarnations[: len(removed)]
        for queue, state in dirty:
            queue.checkpointed_floor = state.settled.ack_floor
            queue.checkpointed_recovery_point = state.recovery_point
            await time_slice.yield_if_due()
        await self._committer.end_round(committed)
        known = {queue: state.settled for queue, state in [*unchanged, *dirty]}
        await self._reclaimer.run_round(changed, known, time_slice)
        self._last_round_seconds = began_seconds
        seconds = time.perf_counter() - started_seconds
        return CheckpointReport(len(dirty), written.written_bytes, written.generation, seconds)

    async def _write_points(self, write: Callable[[], WrittenRound]) -> WrittenRound | None:
        """Write a round that contains only recovery points; return None if the disk has no room.

        Such a round frees no segment, so it must not use the reserve: appends would fill that room
        as well. If it fails for want of room, the round continues with what frees space.

        Raises:
            CheckpointFailedError: The disk refused the write for another reason.
        """
        try:
            return await asyncio.to_thread(write)
        except CheckpointFailedError as error:
            if not is_disk_full(error.cause):
                raise
            logger.warning("recovery points not recorded error=%s", error)
            return None

    def _note_taken(self, queue: Queue) -> None:
        queue.is_checkpointed = True
        # The checkpoint leaves out what is settled but not yet durable: the queue is due again.
        is_behind = not (queue.is_synced or queue.is_failed)
        queue.is_checkpoint_due = queue.is_checkpoint_due and is_behind
        if queue.is_checkpoint_due:
            self._to_checkpoint.add(queue)


def _is_due(queue: Queue) -> bool:
    """Return whether a round has something to write for a queue.

    That includes a queue in which nothing was settled but whose recovery point moved. Otherwise
    nothing would show at a start that its log has vanished.
    """
    moved_on = queue.store.recovery_point != queue.checkpointed_recovery_point
    return queue.is_checkpoint_due or moved_on


def checkpoint_of(queue: Queue, *, is_last: bool = False) -> QueueSnapshot:
    """Return the state of a queue that a checkpoint may contain now.

    Args:
        queue: Queue whose state is taken; not changed.
        is_last: Whether the server has stopped, so that redelivered flags can be exact.
    """
    durable_end = queue.store.recovery_point
    settled = queue.settlement.snapshot(durable_end)
    assert queue.checkpointed_floor <= settled.ack_floor, "I1: a checkpoint went back"
    redeliveries = queue.redeliveries(durable_end)
    if is_last:
        redeliveries += [(start, end, 0) for start, end in _marked(queue)]
    return QueueSnapshot(
        queue.incarnation,
        settled,
        queue.delivered_watermark,
        redeliveries,
        durable_end,
    )


def _marked(queue: Queue) -> list[tuple[int, int]]:
    """Return the delivered ranges above the watermark; the server has stopped."""
    marked = (queue.loading if queue.loading.is_loading else queue.ready).redelivered_ranges()
    if queue.forwarder is not None:
        # These messages were rejected, but their dead letters are not durable yet.
        marked += queue.forwarder.in_transit({REJECTED, DELIVERY_LIMIT})
    return marked


def all_delivered(checkpoint: QueueCheckpoint) -> QueueCheckpoint:
    """Return a checkpoint in which every message counts as delivered before."""
    return replace(checkpoint, delivered_watermark=OFFSET_MAX)
