"""Starts and stops a server, step by step.

| step                                  | start | recover_and_stop | try_recovery |
|---------------------------------------|-------|------------------|--------------|
| bind the address                      | yes   |                  |              |
| claim the data directory              | yes   | yes              |              |
| read it, assemble the server, recover | yes   | yes              | yes          |
| begin to write                        | yes   | yes              |              |
| serve clients                         | yes   |                  |              |

Each step adds to the stack `opened` how to end what it has begun. A stop unwinds that stack: it
ends the steps in the reverse order. A start that fails unwinds it too, so it closes exactly what it
has opened. If it has begun to write, the clean stop that recovery has revoked is on record again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from amqp_server import __version__
from amqp_server.access.backends.loading import load_backends
from amqp_server.admin.log_tail import LogTail
from amqp_server.audit.actor import SERVER
from amqp_server.base.config import words
from amqp_server.base.errors import StartupError
from amqp_server.children.management_process import ManagementProcess
from amqp_server.children.management_sockets import ManagementSockets, bind_management
from amqp_server.children.shovel_process import ShovelProcess
from amqp_server.connections.client_connection import ClientConnection
from amqp_server.connections.client_listeners import TLS, ClientListeners, Listening
from amqp_server.connections.shovel_listener import ShovelListener
from amqp_server.control.listener import ControlListener
from amqp_server.control.transfers import Transfers
from amqp_server.control_commands import control_commands
from amqp_server.definitions_start import load_definitions
from amqp_server.operations.cluster_id import give_cluster_id
from amqp_server.queue_shutdown import shut_queues_down
from amqp_server.recovery.directory_upgrade import DirectoryUpgrade
from amqp_server.recovery.message_loading import load_messages
from amqp_server.recovery.start_report_file import store_report
from amqp_server.recovery.storage_lock import keep_lock, lock_storage
from amqp_server.recovery.stored_state import open_stores
from amqp_server.server import assemble, restore_reserve
from amqp_server.server_activity import ServerActivity
from amqp_server.server_recovery import recover_server
from amqp_server.upkeep.disk_reserve import DiskReserve
from amqp_server.upkeep.disk_watch import DiskWatch
from amqp_server.upkeep.open_file_limit import close_log_files, refuse_start_without_files
from appendlog import FileSystem, Flusher
from appendlog.files.counted_files import CountedFiles
from offsets.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from amqp_server.access.backends.chain import OutsideBackend
    from amqp_server.base.clock import Clock
    from amqp_server.base.config import ServerConfig
    from amqp_server.base.time_slice import Stopwatch
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.connections.tls.reloading import CurrentContext
    from amqp_server.recovery.missing_parts import Part
    from amqp_server.recovery.start_report import StartReport
    from amqp_server.server import Server
    from amqp_server.upkeep.alarms import Sensor
    from amqp_server.upkeep.disk_watch import Stall
    from metadata.directory_lock import DirectoryLock

logger = logging.getLogger("amqp_server.start_and_stop")

SHUTDOWN_SECONDS_MAX = 8.0
"""Seconds that a stop may take; the server then closes what is still open without waiting."""


class RunningServer:
    """A server that listens; made by `start`.

    Args:
        server: Its parts.
        listening: All its listeners.
        listeners: What accepts its clients.
        management: Process of the management server; None: the server has no process of its own.
        opened: How to end each step of the start.
        last_writes: What a clean stop writes; a part of `opened`.

    Attributes:
        server: Its parts.
        listening: Host, port and protocol of all its listeners: those without TLS first.
        address: Host and port of the first of them.
        tls_address: Host and port of the first with TLS; None if there is none.
        listeners: What accepts its clients.
        management: Process of the management server; None: the server has no process of its own.
    """

    def __init__(
        self,
        server: Server,
        listening: list[Listening],
        listeners: ClientListeners,
        management: ManagementProcess | None,
        opened: AsyncExitStack,
        last_writes: _LastWrites,
    ) -> None:
        self.server = server
        self.listening = listening
        self.address = listening[0][:2]
        self.tls_address = next((each[:2] for each in listening if each[2] == TLS), None)
        self.listeners = listeners
        self.management = management
        self._opened = opened
        self._last_writes = last_writes

    async def stop(self) -> bool:
        """Stop cleanly: afterwards no settled message returns and redelivered flags are exact.

        Returns:
            Whether the stop was clean. False means that the disk refused the last checkpoint: the
            next start recovers as after a crash.
        """
        await self._opened.aclose()
        return self.server.checkpointer.has_written_last

    async def abandon(self) -> None:
        """Release everything, but write nothing of what is only in memory.

        The next start recovers as after a crash. Requests that the flusher has already are carried
        out: use a file system that refuses them if they must not reach the files.
        """
        self._last_writes.are_skipped = True
        await self._opened.aclose()


async def start(
    config: ServerConfig,
    filesystem: FileSystem | None = None,
    sensor: Sensor | None = None,
    clock: Clock | None = None,
    *,
    stopwatch: Stopwatch = perf_counter,
    owns_process: bool = True,
    make_connection: Callable[[ServerContext], ClientConnection] = ClientConnection,
) -> RunningServer:
    """Bind, recover and listen. The system refuses clients until the server listens.

    Args:
        config: Settings; not changed.
        filesystem: File operations for definitions, logs and checkpoints. Tests pass one that
            fails.
        sensor: Measures memory and disk; tests pass one whose readings they set.
        clock: Time that the broker goes by; tests pass one that they turn.
        stopwatch: Measures the work of the event loop; tests pass one that they move.
        owns_process: Whether the process exists for the server. If not, the server leaves alone
            what belongs to its host: it watches no garbage collections, and opens no control
            socket, because the bind of one changes the umask for a moment.
        make_connection: Makes the connection of each client; tests pass one that can fail.

    Raises:
        StartupError: The data directory or the address cannot be used.
    """
    async with AsyncExitStack() as opened:
        if clock is not None:
            opened.enter_context(clock.use())
        backends = load_backends(config)
        log_tail = opened.enter_context(LogTail()) if owns_process else None
        # Bind first: a server that cannot have its address must not touch the data directory.
        bound = await _bind(config, opened)
        management_sockets = await _bind_management(config, owns_process, opened)
        directory = await _claim(config, filesystem or CountedFiles(), opened)
        server, report = await _recover(config, directory, (), sensor, clock, opened, stopwatch)
        _start_audit(server, opened)
        disk_watch = _disk_watch(server) if owns_process else None
        if disk_watch is not None:
            # Below what writes: a stop may hang as well.
            opened.callback(disk_watch.stop)
        last_writes = await _begin_to_write(server, directory, report, opened)
        await _start_backends(server, backends, opened)
        listening = await _serve(server, bound, make_connection, opened)
        address = listening[0][:2]
        management = None
        if owns_process:
            management = ManagementProcess(config, management_sockets)
            listener = ShovelListener(server.context, server.access, make_connection)
            shovels = ShovelProcess(
                server.broker, server.parameters, listener, is_off=config.no_shovels
            )
            await _open_control_socket(server, address, management, shovels, log_tail, opened)
            _start_management(management, listening, opened)
            if management.status is not None:
                server.tasks.spawn(give_cluster_id(server.broker, server.parameters))
            opened.push_async_callback(shovels.stop)
            shovels.start()
            server.watch.watch_collections()
            opened.callback(server.watch.stop)
        if disk_watch is not None:
            # From now on: the syncs of a recovery may take long.
            try:
                disk_watch.start()
            except RuntimeError as error:
                raise StartupError(
                    f"cannot start the thread that watches disks: {error}"
                ) from error
        _run_in_background(server, bound.context, opened)
        return RunningServer(server, listening, bound, management, opened.pop_all(), last_writes)


async def recover_and_stop(config: ServerConfig, accepted: Collection[Part] = ()) -> StartReport:
    """Recover the data directory as a start does, then stop cleanly without listening.

    Args:
        config: Settings; not changed.
        accepted: Parts of the directory whose loss the operator accepts if they are missing.

    Raises:
        StartupError: The data directory cannot be used.
    """
    async with AsyncExitStack() as opened:
        directory = await _claim(config, FileSystem(), opened)
        server, report = await _recover(config, directory, accepted, None, None, opened)
        await _begin_to_write(server, directory, report, opened)
    if not server.checkpointer.has_written_last:
        raise StartupError(
            "recovery succeeded, but the disk refused the last checkpoint: "
            "the next start recovers again"
        )
    return report


async def try_recovery(
    config: ServerConfig, filesystem: FileSystem, accepted: Collection[Part] = ()
) -> StartReport:
    """Return what a start would do; takes no lock.

    Args:
        config: Settings; not changed.
        filesystem: File operations that change nothing.
        accepted: Parts of the directory whose loss the operator accepts if they are missing.

    Raises:
        StartupError: The data directory cannot be used.
    """
    async with AsyncExitStack() as opened:
        directory = _Directory(filesystem, _reserve(config, filesystem), None, None)
        _, report = await _recover(config, directory, accepted, None, None, opened)
    return report


# The steps of a start, each with its end


class _Directory(NamedTuple):
    """Data directory, as a start uses it.

    Attributes:
        filesystem: File operations.
        reserve: Disk reserve.
        lock: Claim on the directory; None in a dry run.
        upgrade: Upgrade from an earlier format; None if there is none.
    """

    filesystem: FileSystem
    reserve: DiskReserve
    lock: DirectoryLock | None
    upgrade: DirectoryUpgrade | None

    def keep_lock(self) -> None:
        """Create the file LOCK again if it was deleted.

        Raises:
            CheckpointFailedError: Another server has claimed the directory.
        """
        assert self.lock is not None, "a dry run writes no rounds of checkpoints"
        keep_lock(self.lock)


async def _bind(config: ServerConfig, opened: AsyncExitStack) -> ClientListeners:
    """Bind the addresses; ends by releasing them."""
    bound = await ClientListeners.bind(config)
    opened.callback(bound.close)
    return bound


async def _bind_management(
    config: ServerConfig, owns_process: bool, opened: AsyncExitStack
) -> ManagementSockets:
    """Bind the ports of the management server; ends by releasing them."""
    if not owns_process:
        return ManagementSockets()
    sockets = await bind_management(config)
    opened.callback(sockets.close)
    return sockets


async def _claim(
    config: ServerConfig, filesystem: FileSystem, opened: AsyncExitStack
) -> _Directory:
    """Lock the data directory; ends by releasing the lock."""
    lock = lock_storage(config.storage_path, filesystem)
    opened.callback(lock.release)
    reserve = _reserve(config, filesystem)
    with _refusing_bad_storage(config):
        await asyncio.to_thread(reserve.open)
    upgrade = DirectoryUpgrade(lock) if lock.is_upgrade else None
    return _Directory(filesystem, reserve, lock, upgrade)


async def _recover(
    config: ServerConfig,
    directory: _Directory,
    accepted: Collection[Part],
    sensor: Sensor | None,
    clock: Clock | None,
    opened: AsyncExitStack,
    stopwatch: Stopwatch = perf_counter,
) -> tuple[Server, StartReport]:
    """Read the data directory, assemble the server and recover it; ends by closing all files."""
    filesystem, reserve = directory.filesystem, directory.reserve
    stored = await open_stores(config, filesystem, reserve, opened)
    server = assemble(
        config, filesystem, reserve, stored, directory.keep_lock, sensor, clock, stopwatch
    )
    # A clean stop has closed the logs already. Other ends must not write to them.
    opened.callback(close_log_files, config.storage_path)
    opened.push_async_callback(_finish_writes, server.flusher)
    with _refusing_bad_storage(config):
        report = await recover_server(server, stored, directory.upgrade, accepted)
    return server, report


async def _finish_writes(flusher: Flusher) -> None:
    """Return when everything that was submitted is written and reported."""
    loop = asyncio.get_running_loop()
    closed = loop.create_future()

    def on_closed() -> None:
        if flusher.fileno >= 0:
            loop.remove_reader(flusher.fileno)
        # Nobody waits any more if the stop was cancelled.
        if not closed.done():
            closed.set_result(None)

    flusher.close(on_closed)
    await closed


def _start_audit(server: Server, opened: AsyncExitStack) -> None:
    """Begin to record; ends when everything that is recorded is on the disk."""
    audit = server.audit
    audit.start()
    opened.push_async_callback(audit.stop)
    audit.record("server.started", SERVER, details={"version": __version__, "pid": os.getpid()})
    opened.callback(audit.record, "server.stopped", SERVER)


async def _begin_to_write(
    server: Server, directory: _Directory, report: StartReport, opened: AsyncExitStack
) -> _LastWrites:
    """Start the flusher; ends by writing everything that is only in memory.

    Raises:
        StartupError: The system has no thread left.
    """
    if directory.upgrade is not None:
        await asyncio.to_thread(directory.upgrade.finish)
    queues = tuple(server.broker.queues())
    await asyncio.to_thread(server.imports.settle_all, queues)
    try:
        server.flusher.start(asyncio.get_running_loop().add_reader)
    except (OSError, RuntimeError) as error:
        raise StartupError(f"cannot start the threads that write logs: {error}") from error
    last_writes = _LastWrites(server)
    opened.push_async_callback(last_writes.write)
    # Before the report, which says that the directory has definitions.
    await load_definitions(server)
    path = server.config.storage_path
    await asyncio.to_thread(store_report, path, server.filesystem, report.as_json)
    return last_writes


class _LastWrites:
    """Files that a clean stop writes.

    Args:
        server: Server that stops.

    Attributes:
        are_skipped: Whether the stop writes nothing, as if the process had been killed.
    """

    def __init__(self, server: Server) -> None:
        self.are_skipped = False
        self._server = server

    async def write(self) -> None:
        """Write everything that is only in memory, or drop it."""
        if self.are_skipped:
            self._server.broker.cancel_expiry_timers()
            # They need the flusher, which is closed next.
            self._server.broker.turn.finish_jobs()
            self._server.tasks.cancel()
        else:
            await _write_last(self._server)


async def _write_last(server: Server) -> None:
    """Finish all work, then write the last checkpoint. Logs if the stop is not clean."""
    server.broker.cancel_expiry_timers()
    server.broker.turn.finish_jobs()
    await server.committer.drain()
    if server.tasks:
        await server.tasks.wait(SHUTDOWN_SECONDS_MAX / 4)
        # A disk that cannot be read must not keep the server from stopping.
        server.broker.stop_forwarding()
    await server.tasks.finish()
    await server.metadata.drain()
    try:
        await shut_queues_down(
            server.broker,
            server.compactor,
            server.checkpointer,
            server.flusher,
            seconds_max=SHUTDOWN_SECONDS_MAX / 4,
        )
    except OffsetsError as error:
        logger.error("stop is not clean error=%s", error)  # noqa: TRY400 - one line, no traceback


async def _start_backends(
    server: Server, backends: Mapping[str, OutsideBackend], opened: AsyncExitStack
) -> None:
    """Let users in whom other back ends know; ends by closing these."""
    authentication = server.context.handshake_factory.authentication
    if backends:
        authentication.use(words(server.config.auth_backends), backends)
    opened.push_async_callback(authentication.chain.close)
    await authentication.chain.start()


async def _serve(
    server: Server,
    bound: ClientListeners,
    make_connection: Callable[[ServerContext], ClientConnection],
    opened: AsyncExitStack,
) -> list[Listening]:
    """Listen for clients; return the listeners. Ends by closing all connections."""
    await server.alarms.look()
    await restore_reserve(server.reserve, server.alarms)
    seconds_max = min(server.config.limits.closing_seconds_max, SHUTDOWN_SECONDS_MAX / 2)
    opened.callback(server.logins.close)
    opened.push_async_callback(server.connections.close, seconds_max)
    addresses = await bound.listen(partial(make_connection, server.context), server.connections)
    opened.callback(bound.close)
    return addresses


async def _open_control_socket(
    server: Server,
    address: tuple[str, int],
    management: ManagementProcess,
    shovels: ShovelProcess,
    log_tail: LogTail | None,
    opened: AsyncExitStack,
) -> None:
    """Listen for commands; ends by removing the socket."""
    transfers = Transfers()
    # Before the last writes: what they have taken out of queues is given back.
    opened.push_async_callback(transfers.end)
    started_seconds = time.monotonic()
    commands = control_commands(
        server, address, management, shovels, started_seconds, transfers, log_tail
    )
    control = ControlListener(server.config.storage_path, commands, server.audit)
    await control.start()
    opened.push_async_callback(control.stop)


def _start_management(
    management: ManagementProcess, listening: list[Listening], opened: AsyncExitStack
) -> None:
    """Start the management server, which asks the control socket; ends by ending it."""
    opened.push_async_callback(management.stop)
    management.start(listening)


def _disk_watch(server: Server) -> DiskWatch:
    """Return what watches for a disk that hangs; it must be started."""
    loop, files = asyncio.get_running_loop(), server.filesystem
    sources = [server.flusher.under_way]
    if isinstance(files, CountedFiles):
        sources.append(files.under_way)

    def report(stall: Stall | None) -> None:
        loop.call_soon_threadsafe(server.alarms.take_stall, stall)

    config = server.config
    exits = config.on_disk_stall == "exit"
    return DiskWatch(sources, config.disk_stall_limit_seconds, report, exits=exits)


def _run_in_background(
    server: Server, tls_context: CurrentContext | None, opened: AsyncExitStack
) -> None:
    """Start the work that goes on until the stop; ends by cancelling it."""
    queues = tuple(server.broker.queues())
    check_seconds = server.config.limits.alarm_check_seconds
    tasks = [
        asyncio.create_task(server.context.heartbeats.turn(), name="heartbeats"),
        asyncio.create_task(load_messages(queues), name="message loading"),
        asyncio.create_task(server.checkpointer.run(), name="checkpointer"),
        asyncio.create_task(server.alarms.run(check_seconds), name="alarms"),
    ]
    if tls_context is not None:
        tasks.append(asyncio.create_task(tls_context.watch(server.clock), name="TLS files"))

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    opened.push_async_callback(end)
    loading = tasks[1]
    activity = ServerActivity(server, lambda: not loading.done())
    opened.enter_context(server.clock.serve(activity))


@contextmanager
def _refusing_bad_storage(config: ServerConfig) -> Iterator[None]:
    """Convert errors of the disk without which a start cannot go on.

    Raises:
        StartupError: The block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        refuse_start_without_files(error, error)
        reason = error.strerror or str(error)
        name = f"{error.filename}: " if error.filename else ""
        raise StartupError(
            f"cannot use the data directory {config.storage_path}: {name}{reason}"
        ) from error


def _reserve(config: ServerConfig, filesystem: FileSystem) -> DiskReserve:
    return DiskReserve(config.storage_path, filesystem, config.disk_free_limit_bytes)
