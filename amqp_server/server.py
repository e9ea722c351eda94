"""The server: starts the broker's parts in order and stops them in the reverse order.

Start: bind the address > lock the data directory > read definitions, checkpoint and redo journal >
recover the logs > start the flusher > listen.
Stop: close the listener > close the connections > drain the flusher > write the last checkpoint >
release the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.accepted_loss import accept_loss
from amqp_server.alarms import Alarms
from amqp_server.broker.broker import Broker
from amqp_server.broker.definitions import Definitions
from amqp_server.broker.storing.storage import QueueStorage
from amqp_server.broker.turn import Turn
from amqp_server.broker.turn_watch import TurnWatch
from amqp_server.broker.vhost_changes import VhostChanges
from amqp_server.checkpointer import Checkpointer
from amqp_server.cleaning import begin_cleaning
from amqp_server.client_connection import ClientConnection
from amqp_server.committer import Committer
from amqp_server.compactor import Compactor
from amqp_server.control.listener import ControlListener
from amqp_server.directory_upgrade import DirectoryUpgrade
from amqp_server.disk_reserve import DiskReserve, ReservedDocumentFiles
from amqp_server.errors import StartupError
from amqp_server.first_round import first_round
from amqp_server.group_recovery import RecoveredGroups
from amqp_server.handshakes import Handshakes
from amqp_server.heartbeats import HeartbeatWheel
from amqp_server.imports.imports import Imports
from amqp_server.lingering import Lingering
from amqp_server.listening import bind, listen
from amqp_server.message_loading import load_messages
from amqp_server.parked_publishes import ParkedBudget
from amqp_server.queue_shutdown import shut_queues_down
from amqp_server.reclaimer import Reclaimer
from amqp_server.recovery import recover
from amqp_server.redo import redo_by_queue, remaining
from amqp_server.resource_sensor import ResourceSensor, watermark_bytes
from amqp_server.start_report import StartReport
from amqp_server.start_report_file import store_report
from amqp_server.storage_lock import keep_lock, lock_storage
from amqp_server.worker_reads import read_in_worker
from appendlog import FileSystem, ThreadFlusher
from appendlog.reclaim.leases import Leases
from metadata.data_format import read_format
from metadata.errors import MetadataError
from metadata.store import MetadataStore
from offsets.checkpoint import CheckpointStore
from offsets.errors import OffsetsError
from offsets.redo_journal import RedoJournal

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping, Sequence
    from uuid import UUID

    from amqp_server.alarms import Sensor
    from amqp_server.config import ServerConfig
    from amqp_server.first_round import FirstRound
    from amqp_server.missing_parts import Part
    from appendlog import FlushResult
    from metadata.directory_lock import DirectoryLock
    from metadata.loading import LoadReport
    from offsets import QueueCheckpoint, RedoTransaction

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS_MAX = 8.0
"""Seconds that a stop may take; the server then closes what is still open without waiting."""


class Server:
    """One broker with its sockets, threads and background tasks.

    Args:
        config: Settings; not changed.
        filesystem: File operations for definitions, logs and checkpoints. Tests pass one that
            fails, a dry run passes one that changes nothing.
        sensor: Measures memory and disk; tests pass one whose readings they set.
    """

    def __init__(
        self,
        config: ServerConfig,
        filesystem: FileSystem | None = None,
        sensor: Sensor | None = None,
    ) -> None:
        """Create the parts that need no file and no socket; `start` opens the others."""
        self.config = config
        memory_bytes_max = watermark_bytes(config.memory_watermark)
        self.alarms = Alarms(
            sensor
            or ResourceSensor(config.storage_path, memory_bytes_max, self._held_message_bytes),
            memory_bytes_max=memory_bytes_max,
            disk_free_bytes_min=config.disk_free_limit_bytes,
            changed=self._alarms_changed,
            relieve_memory=lambda: self._storage.release_memory(),
            use_disk=self._use_disk,
        )
        self.parked_budget = ParkedBudget(config.limits.parked_bytes_max)
        self.watch = TurnWatch()
        self.heartbeats = HeartbeatWheel()
        self.lingering = Lingering(config.limits.lingering_connections_max)
        # Bytes left over from one read, then one whole publish as large as two frames.
        self.read_buffer = bytearray(
            config.limits.read_buffer_bytes + 3 * config.limits.frame_bytes_max
        )
        self.read_view = memoryview(self.read_buffer)
        self.connections: set[ClientConnection] = set()
        self.address: tuple[str, int] = (config.host, config.port)
        self.started_seconds = 0.0
        self.handshakes = Handshakes(self)
        self.broker: Broker
        self.vhost_changes: VhostChanges
        self.checkpointer: Checkpointer
        self.journal: RedoJournal
        self.compactor: Compactor
        self._lock: DirectoryLock
        self._upgrade: DirectoryUpgrade | None = None
        self._filesystem = filesystem or FileSystem()
        self.imports = Imports(config, self._filesystem, lambda: bool(self.alarms.low))
        self._reserve = DiskReserve(
            config.storage_path, self._filesystem, config.disk_free_limit_bytes
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._background: list[asyncio.Task[None]] = []
        self._listener: asyncio.Server | None = None
        self._control = ControlListener(self)
        self.is_stopping = False
        self._all_gone = asyncio.Event()

    # Start and stop

    async def start(self) -> None:
        """Bind, recover and listen. The system refuses clients until the server listens.

        Raises:
            StartupError: The data directory or the address cannot be used.
        """
        # Bind first: a server that cannot have its address must not touch the data directory.
        self._listener = await bind(self.config, partial(ClientConnection, self))
        try:
            await self._lock_and_recover()
        except BaseException:
            self._listener.close()
            raise
        try:
            await self.alarms.look()
            await self._restore_reserve()
            self.address = await listen(self.config, self._listener)
            await self._control.start()
        except BaseException:
            # Recovery has revoked the clean stop on the disk: stop cleanly to record it again.
            await self.stop()
            raise
        self.started_seconds = time.monotonic()
        self.watch.watch_collections()
        self._background = [
            asyncio.create_task(self.heartbeats.turn(), name="heartbeats"),
            asyncio.create_task(load_messages(tuple(self.broker.queues())), name="message loading"),
            asyncio.create_task(self.checkpointer.run(), name="checkpointer"),
            asyncio.create_task(
                self.alarms.run(self.config.limits.alarm_check_seconds), name="alarms"
            ),
        ]

    async def recover_and_stop(self, accepted: Collection[Part] = ()) -> StartReport:
        """Recover the data directory as a start does, then stop cleanly without listening.

        Args:
            accepted: Parts of the directory whose loss the operator accepts if they are missing.

        Raises:
            StartupError: The data directory cannot be used.
        """
        report = await self._lock_and_recover(accepted)
        if not await self.stop():
            raise StartupError(
                "recovery succeeded, but the disk refused the last checkpoint: "
                "the next start recovers again"
            )
        return report

    async def try_recovery(self, accepted: Collection[Part] = ()) -> StartReport:
        """Return what a start would do; takes no lock, and its file operations change nothing.

        Args:
            accepted: Parts of the directory whose loss the operator accepts if they are missing.

        Raises:
            StartupError: The data directory cannot be used.
        """
        try:
            return await self._recover(accepted)
        finally:
            if hasattr(self, "_flusher"):
                self._flusher.close()

    async def _lock_and_recover(self, accepted: Collection[Part] = ()) -> StartReport:
        self._lock = lock_storage(self.config.storage_path, self._filesystem)
        if self._lock.is_upgrade:
            self._upgrade = DirectoryUpgrade(self._lock)
        try:
            await asyncio.to_thread(self._reserve.open)
            report = await self._recover(accepted)
            if self._upgrade is not None:
                await asyncio.to_thread(self._upgrade.finish)
            await asyncio.to_thread(self.imports.settle_all, tuple(self.broker.queues()))
        except BaseException:
            if hasattr(self, "_flusher"):
                self._flusher.close()
            self._lock.release()
            raise
        self._flusher.start()
        await asyncio.to_thread(store_report, self.config.storage_path, self._filesystem, report)
        return report

    async def stop(self) -> bool:
        """Stop cleanly: afterwards no settled message returns and redelivered flags are exact.

        Returns:
            Whether the stop was clean. False means that the disk refused the last checkpoint: the
            next start recovers as after a crash.
        """
        self.is_stopping = True
        self.watch.stop()
        if self._listener is not None:
            self._listener.close()
        await self._control.stop()
        if not self.connections:
            self._all_gone.set()
        for connection in tuple(self.connections):
            connection.force_close("broker forced connection closure with reason 'shutdown'")
        for task in self._background:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS_MAX / 2):
                await self._all_gone.wait()
        for connection in tuple(self.connections):
            connection.abandon("shutdown")
        self.broker.cancel_expiry_timers()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._committer.drain()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=SHUTDOWN_SECONDS_MAX / 4)
            # A disk that cannot be read must not keep the server from stopping.
            self.broker.stop_forwarding()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._metadata.close()
        try:
            await shut_queues_down(
                self.broker,
                self.compactor,
                self.checkpointer,
                self._flusher,
                seconds_max=SHUTDOWN_SECONDS_MAX / 4,
            )
        except OffsetsError as error:
            logger.error("stop is not clean error=%s", error)  # noqa: TRY400 - one line, no traceback
            return False
        finally:
            await asyncio.to_thread(self._flusher.close)
            self._checkpoints.close()
            self.journal.close()
            self._lock.release()
        return True

    async def _recover(self, accepted: Collection[Part]) -> StartReport:
        started = time.perf_counter()
        report, checkpoints, was_clean = await self._read_directory()
        groups = RecoveredGroups(self._checkpoints.take_groups(), was_clean=was_clean)
        accepted_loss = await asyncio.to_thread(
            accept_loss,
            self.config.storage_path,
            self._filesystem,
            accepted,
            report,
            checkpoints,
            groups,
            has_checkpoints=self._checkpoints.generation > 0,
        )
        if self._upgrade is not None:
            # Sign the documents before the cleaning removes any: it must not be written again after
            # that.
            await self._upgrade.write_documents(self._metadata, report)
        cleaning = await asyncio.to_thread(
            begin_cleaning,
            self.config.storage_path,
            report,
            self._filesystem,
            is_earlier_format=read_format(self.config.storage_path).has_unsigned_documents,
        )
        start_report = StartReport()
        start_report.accepted_loss = accepted_loss.parts
        start_report.note_files(
            report, self._checkpoints.recovery, self.journal.recovery, was_clean=was_clean
        )
        self._assemble()
        transactions = self.journal.recovery.transactions
        redo = redo_by_queue(transactions)
        await cleaning.remove_documents(self.broker.definitions)
        recovered = await recover(
            self.broker, report, checkpoints, redo, groups, was_clean=was_clean
        )
        knows_all = not report.unreadable and not recovered.damaged
        queues = groups.restore(self.broker.queues())
        known = {queue.incarnation for queue in queues}
        await cleaning.remove_files(
            self.config.storage_path, self._filesystem, self.broker.definitions
        )
        changed = {*redo, *recovered.lossy}
        first = first_round(queues, checkpoints, groups, changed, knows_all=knows_all)
        left = remaining(transactions, lambda each: not knows_all and each not in known)
        await self._revoke_clean_stop(first, left)
        start_report.note_queues(
            recovered.reports + accepted_loss.logs,
            recovered.malformed,
            redo_left=len(left),
            cleaning=cleaning,
            seconds=time.perf_counter() - started,
        )
        written = {state.incarnation for state in first.states}
        self.checkpointer.take_over({*checkpoints, *written, *redo, *groups.incarnations})
        return start_report

    def _held_message_bytes(self) -> int:
        """Return the bytes of all messages in memory; any thread may call it."""
        unsent_bytes = sum(connection.unsent_bytes for connection in tuple(self.connections))
        return (
            self._storage.held_bytes
            + self.parked_budget.held_bytes
            + self.broker.assembly_budget.held_bytes
            + self.broker.transaction_budget.held_bytes
            + unsent_bytes
        )

    async def _read_directory(self) -> tuple[LoadReport, Mapping[UUID, QueueCheckpoint], bool]:
        """Read definitions, checkpoint and journal; return also whether the last stop was clean."""
        path = self.config.storage_path
        files = ReservedDocumentFiles(self._filesystem, self._reserve)
        self._metadata = MetadataStore(path / "metadata", files)
        try:
            accepts_unsigned = read_format(path).has_unsigned_documents
            report = await self._metadata.load(accepts_unsigned=accepts_unsigned)
            self._checkpoints, checkpoints, was_clean = await asyncio.to_thread(
                CheckpointStore.open, path / "offsets", self._filesystem
            )
            self.journal = await asyncio.to_thread(
                RedoJournal.open, path / "transactions", self._filesystem
            )
        except (OSError, MetadataError, OffsetsError) as error:
            raise StartupError(f"cannot read the data directory {path}: {error}") from error
        return report, checkpoints, was_clean

    def _assemble(self) -> None:
        """Create the parts of the running server and connect each with those that it needs."""
        loop = asyncio.get_running_loop()
        turn = Turn(loop.call_soon, loop.call_later, self.watch)
        self._flusher = ThreadFlusher(partial(self._results_from_worker, loop))
        self._storage = QueueStorage(
            self.config, self._flusher, read_in_worker, turn, self._filesystem
        )
        definitions = Definitions(self._metadata, self._storage.mark_of)
        self.broker = Broker(self.config, self._storage, definitions, turn, self.spawn)
        self._committer = Committer(self.broker, self.journal, self._reserve, self.spawn)
        self.broker.commit = self._committer.commit
        self.compactor = Compactor(self._flusher, self.config.compact_below, self._spare_bytes)
        self._storage.on_compacted = self.compactor.compacted
        leases = Leases(self.config.storage_path, self._filesystem)
        reclaimer = Reclaimer(
            self.broker,
            self._flusher,
            self._committer,
            self.compactor,
            leases,
            self._reserve,
        )
        self.checkpointer = Checkpointer(
            self.broker,
            self._checkpoints,
            self._reserve,
            reclaimer,
            self._committer,
            lambda: keep_lock(self._lock),
            self.config.offset_checkpoint_interval_seconds,
        )
        self.broker.write_checkpoint = self.checkpointer.write_round
        self.vhost_changes = VhostChanges(self.broker, self.spawn, self.disconnect)

    async def _revoke_clean_stop(self, first: FirstRound, left: list[RedoTransaction]) -> None:
        """Write the first checkpoint round, and what recovery could not complete of commits."""
        try:
            await asyncio.to_thread(self._reserve.run, first.write, self._checkpoints)
            # Every other committed transaction is in the logs and in a checkpoint now.
            await asyncio.to_thread(self.journal.finish_recovery, left)
        except OffsetsError as error:
            path = self.config.storage_path
            raise StartupError(f"cannot write the data directory {path}: {error}") from error

    def _use_disk(self) -> None:
        self._storage.failed_stores.retry()
        self.spawn(self._restore_reserve())

    async def _restore_reserve(self) -> None:
        if (seen := self.alarms.last) and self._reserve.is_due(seen.disk_free_bytes):
            await asyncio.to_thread(self._reserve.restore)

    def _spare_bytes(self) -> int:
        """Return the bytes free on the disk above the limit of the disk alarm."""
        free_bytes = self._filesystem.free_bytes(self.config.storage_path)
        return free_bytes - self.config.disk_free_limit_bytes

    # For connections

    def admit(self, connection: ClientConnection) -> bool:
        """Register a connection; return False if there are too many or the server is stopping."""
        if self.is_stopping or len(self.connections) >= self.config.limits.connections_max:
            return False
        self.connections.add(connection)
        return True

    def disconnect(self, vhost: str) -> None:
        """Close the connections of a virtual host that was deleted."""
        for connection in tuple(self.connections):
            if connection.vhost == vhost:
                connection.force_close(f"vhost '{vhost}' is deleted")

    def forget(self, connection: ClientConnection) -> None:
        """Remove a connection that is lost."""
        self.connections.discard(connection)
        if self.is_stopping and not self.connections:
            self._all_gone.set()

    def _alarms_changed(self) -> None:
        for connection in tuple(self.connections):
            connection.on_alarms_changed()

    def note_more_input(self, connection: ClientConnection) -> None:
        """Resume reading a client after the turn that handles what it has sent so far."""
        self._storage.more_input = True
        asyncio.get_running_loop().call_soon(self._read_on, connection)

    def _read_on(self, connection: ClientConnection) -> None:
        self._storage.more_input = False
        connection.read_on()

    # Workers and tasks

    def spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run a coroutine in the background; it is awaited at shutdown."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background task failed task=%s", task.get_name(), exc_info=error)

    def _results_from_worker(
        self, loop: asyncio.AbstractEventLoop, results: Sequence[FlushResult]
    ) -> None:
        # The loop may be closed already: then no code is left to take the results.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._storage.take_results, results)
