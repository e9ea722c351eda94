"""Storage that all queues share below the broker: flusher, page pool, data directory."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from amqp_server.broker.changed_queues import ChangedQueues
from amqp_server.broker.counters.counted_channels import CountedChannels
from amqp_server.broker.job import Job
from amqp_server.broker.storing.client_writes import ClientWrites
from amqp_server.broker.storing.failed_stores import FailedStores
from amqp_server.broker.storing.group_commit import WaitingWrites
from amqp_server.broker.storing.log_mark import LogMark, QueueLogsMark
from amqp_server.broker.storing.memory_relief import MemoryRelief
from amqp_server.broker.storing.message_store import MessageStore
from amqp_server.broker.storing.opened_log import OpenedLog
from amqp_server.broker.storing.spill_delay import ThrottledQueues
from amqp_server.broker.storing.storage_settings import StoreSettings, storage_settings
from amqp_server.broker.storing.unopened_log import UnopenedLog
from amqp_server.broker.storing.window_budget import WindowBudget
from appendlog import (
    CloseRequest,
    CompactRequest,
    DeleteRequest,
    DurableDirectories,
    FlushRequest,
    Log,
    RemoveSettledRequest,
    ReopenRequest,
)
from appendlog.files.found_files import FoundFiles
from appendlog.opening import fresh_state
from appendlog.recovery.log_images import read_images
from metadata.log_directories import logs_of_vhost, remove_log
from metadata.names import log_directory, queue_directory, spill_directory, vhost_directory
from ring import PagePool, Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path
    from uuid import UUID

    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.storing.client_writes import Writes
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from amqp_server.broker.storing.store_owner import StoreOwner
    from amqp_server.broker.storing.window_reader import ReadInWorker
    from amqp_server.broker.turn import Turn
    from amqp_server.protocol.tables import Table
    from appendlog import (
        FileSystem,
        FlushResult,
        LogIdentity,
        LogOptions,
        RecoveryReport,
    )
    from offsets.settlement import Settlement

logger = logging.getLogger("amqp_server.broker.storing.storage")

RELIEF_SHARE = 0.8
"""Share of the allowed bytes that remains after the rings together held too much."""


class QueueStorage:
    """Opens logs, makes stores, and hands the flusher's results to the right store.

    Args:
        config: Sizes and paths.
        flusher: Writes all logs. The caller starts it and calls `take_results` on the loop.
        read_in_worker: Runs a read in a worker and calls back on the event loop.
        turn: Turn at whose end the rings release memory.
        filesystem: File system of all logs.
        on_compacted: Called on the event loop with the result of each compaction.

    Attributes:
        changed_queues: Queues that have changed since the last request.
        counted_channels: What channels have counted of the traffic.
        clock: Time that the append times and deadlines of messages go by.
        queues_in_commit: Queues that a commit changes. Until its end nothing else changes what
            clients see there.
    """

    def __init__(
        self,
        config: ServerConfig,
        flusher: Writes,
        read_in_worker: ReadInWorker,
        turn: Turn,
        filesystem: FileSystem,
        on_compacted: Callable[[FlushResult], None],
    ) -> None:
        self.pool = PagePool(config.ring_bytes_total)
        self.flusher = flusher
        self.queues_in_commit: Collection[StoreOwner] = ()
        self.clock = turn.clock
        self._config = config
        self._read_in_worker = read_in_worker
        self._client_writes = ClientWrites(flusher, turn)
        self._window_budget = WindowBudget(turn=turn)
        self.throttled_queues = ThrottledQueues(turn.mark_after_real)
        self._turn = turn
        self._waiting_writes = WaitingWrites(turn)
        self._filesystem = filesystem
        self._directories = DurableDirectories(config.storage_path)
        self._found_files = FoundFiles()
        # Most queues have no arguments: they share these.
        self._plain_settings = storage_settings({}, config)
        self._plain_options = self._plain_settings.log_options(
            self._directories, self.clock.time_ns
        )
        self.failed_stores = FailedStores()
        self.changed_queues = ChangedQueues()
        self.counted_channels = CountedChannels()
        self._stores: dict[Log, MessageStore] = {}
        self._relief = MemoryRelief(turn, self.pool, self._stores)
        self._on_deleted: dict[Log, Callable[[], None]] = {}
        self.on_compacted = on_compacted

    def settings(self, arguments: Table) -> StorageSettings:
        """Return how a queue with these arguments is kept on the disk."""
        return storage_settings(arguments, self._config) if arguments else self._plain_settings

    def fresh_log(
        self, identity: LogIdentity, settings: StorageSettings, *, is_journaled: bool
    ) -> OpenedLog:
        """Return the log of a queue that is being declared; its directory does not exist yet.

        Args:
            identity: Virtual host, queue and incarnation of the log.
            settings: How the queue is kept on the disk.
            is_journaled: Whether the queue survives a restart. If not, its log lies in the spill
                directory, which each start empties.
        """
        place = self._place(identity, settings, log_directory if is_journaled else spill_directory)
        # The directory cannot exist. Looking for it would block the loop for each declare.
        return OpenedLog(Log(fresh_state(*place, self._filesystem)), settings)

    def look_at(self, logs: Sequence[tuple[LogIdentity, StorageSettings]]) -> list[UnopenedLog]:
        """Read what is in the directories of some logs, to open them; may block on the disk.

        Args:
            logs: Identity of each, and how it is kept on the disk; at most `IMAGES_AT_ONCE`.
        """
        places = [self._place(identity, settings) for identity, settings in logs]
        images = read_images(self._filesystem, [directory for directory, _, _ in places])
        return [
            UnopenedLog(*place, settings, image)
            for place, (_, settings), image in zip(places, logs, images, strict=True)
        ]

    def open_log(
        self, unopened: UnopenedLog, settled_floor: int = 0, known_end: int = 0
    ) -> tuple[Log, RecoveryReport]:
        """Open or create a queue's log, and recover it; may block on the disk for a while.

        Args:
            unopened: The log, from `look_at`.
            settled_floor: Floor of its checkpoint; recovery does not miss offsets below it.
            known_end: End in its checkpoint; offsets below it were on the disk.
        """
        directory, identity, options, _, image = unopened
        files = self._filesystem
        return Log.open(
            directory,
            identity,
            options,
            files,
            settled_floor,
            known_end,
            image,
            self._found_files,
        )

    def placeholder_log(
        self, identity: LogIdentity, settings: StorageSettings, filesystem: FileSystem
    ) -> Log:
        """Return an empty log that refuses every write.

        Args:
            identity: Virtual host, queue and incarnation of the log.
            settings: How the log would be kept on the disk.
            filesystem: Finds nothing, and refuses every write.
        """
        log, _ = Log.open(*self._place(identity, settings), filesystem)
        return log

    def mark_of(self, log: Log) -> LogMark:
        """Return the deletion mark of a log."""
        return LogMark(log.directory, self._directories, self._filesystem)

    def mark_of_queue(self, vhost: str, queue: str) -> QueueLogsMark:
        """Return the deletion mark for all logs of a queue that could not be recovered."""
        directory = queue_directory(self._config.storage_path, vhost, queue)
        return QueueLogsMark(directory, self._directories, self._filesystem)

    def remove_logs_of(self, vhost: str) -> tuple[Path, OSError] | None:
        """Remove all logs of a deleted virtual host; blocks on the disk.

        Other files beside the logs stay.

        Returns:
            The first path that cannot be removed, and the error; None if all logs are gone.
        """
        directory = vhost_directory(self._config.storage_path, vhost)
        path = directory
        try:
            for log in logs_of_vhost(directory, self._filesystem):
                path = log.path
                remove_log(path, self._filesystem)
                self._directories.note_removed(self._filesystem, path)
        except OSError as error:
            return path, error
        with suppress(OSError):
            self._filesystem.rmdir(directory)
        return None

    def _place(
        self,
        identity: LogIdentity,
        settings: StorageSettings,
        directory_of: Callable[[Path, str, str, UUID], Path] = log_directory,
    ) -> tuple[Path, LogIdentity, LogOptions]:
        """Return the directory, identity and options of a log."""
        directory = directory_of(
            self._config.storage_path, identity.vhost, identity.queue, identity.incarnation
        )
        if settings is self._plain_settings:
            return directory, identity, self._plain_options
        return directory, identity, settings.log_options(self._directories, self.clock.time_ns)

    def make_store(
        self, opened: OpenedLog, settlement: Settlement, *, is_journaled: bool, owner: StoreOwner
    ) -> MessageStore:
        """Return a store over an opened log, with an empty ring."""
        log = opened.log
        config = self._config
        ring = Ring(config.ring_size, config.ring_bytes, self.pool, log.log_end_offset)
        store = MessageStore(
            log=log,
            ring=ring,
            settlement=settlement,
            is_journaled=is_journaled,
            settings=StoreSettings(
                opened.settings.durability, config.flush_bytes, config.flush_interval_seconds
            ),
            flusher=self._client_writes,
            read_in_worker=self._read_in_worker,
            owner=owner,
            throttled_queues=self.throttled_queues,
            waiting_writes=self._waiting_writes,
            window_budget=self._window_budget,
            stopwatch=self._turn.stopwatch,
        )
        self._stores[log] = store
        return store

    def forget(self, store: MessageStore) -> None:
        """Stop expecting results for a store that will never write anything."""
        del self._stores[store.log]

    def discard(self, store: MessageStore, on_done: Callable[[], None] | None = None) -> None:
        """Forget the store of a deleted queue, and remove its log from the disk.

        Args:
            store: Store of the deleted queue.
            on_done: Called when the log is removed, or cannot be removed.
        """
        store.discard()
        self.failed_stores.discard(store)
        del self._stores[store.log]
        if on_done is not None:
            self._on_deleted[store.log] = on_done
        self.flusher.submit(DeleteRequest(store.log))

    def keep(self, store: MessageStore) -> None:
        """Forget the store of a deleted queue, and close its log, which stays on the disk."""
        store.fail()
        store.discard()
        self.failed_stores.discard(store)
        del self._stores[store.log]
        if not store.log.is_unused:
            self.flusher.submit(CloseRequest(store.log))

    def take_results(self, results: Sequence[FlushResult]) -> None:
        """Hand each result of the flusher to its store. Called on the event loop."""
        if len(results) == 1:
            # That of a lone message: it is one step.
            self._apply(results[0])
        else:
            steps = self._apply_each(results)
            Job(self._turn, self._turn.upkeep, steps, "results of the disk").start()

    def _apply_each(self, results: Sequence[FlushResult]) -> Iterator[None]:
        for result in results:
            yield
            self._apply(result)

    def _apply(self, result: FlushResult) -> None:
        """Hand a result to its store, and to those who wait for it."""
        request = result.request
        if isinstance(request, DeleteRequest):
            self._on_deleted.pop(request.log, _nothing)()
        elif isinstance(request, CompactRequest):
            self.on_compacted(result)
        store = self._stores.get(request.log)
        if store is None:
            return
        try:
            if isinstance(request, FlushRequest):
                store.flushed(result)
            elif isinstance(request, RemoveSettledRequest | CompactRequest):
                store.wake_owner()
            elif isinstance(request, ReopenRequest):
                store.reopened(result)
                if not store.is_failed:
                    self.failed_stores.discard(store)
        except Exception:
            # An error in one store must not cost the others their results.
            logger.exception("flush result not applied log=%s", store.log.directory)

    def relieve_memory(self) -> None:
        """Schedule the release of memory, because the rings together hold too much."""
        self._relief.start(int(self.pool.bytes_max * RELIEF_SHARE))

    @property
    def held_bytes(self) -> int:
        """Bytes of messages in rings, and of windows of logs."""
        return self.pool.held_bytes + self._window_budget.held_bytes

    def release_memory(self) -> None:
        """Make all rings release what their logs have, because the server is low on memory.

        It takes several turns.
        """
        self._relief.start(0)


def _nothing() -> None:
    """Do nothing: no caller asked to be notified."""
