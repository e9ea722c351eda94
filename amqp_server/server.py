"""The parts of one server, and how they are connected.

`amqp_server.start_and_stop` opens what the parts need, starts them, and stops them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from amqp_server.access.access_control import AccessControl
from amqp_server.access.logins import Logins
from amqp_server.admin.imports.imports import Imports
from amqp_server.audit.audit_log import AuditLog
from amqp_server.base.background_tasks import BackgroundTasks
from amqp_server.base.clock import SystemClock
from amqp_server.base.garbage_collection import collector
from amqp_server.broker.broker import Broker
from amqp_server.broker.definitions import Definitions
from amqp_server.broker.job import Job, done_in_turns
from amqp_server.broker.policies.policies import Policies
from amqp_server.broker.storing.storage import QueueStorage
from amqp_server.broker.turn import Turn
from amqp_server.broker.turn_watch import TurnWatch
from amqp_server.broker.vhost_changes import VhostChanges
from amqp_server.connections.authentication import Authentication
from amqp_server.connections.connection_limits import ConnectionLimits
from amqp_server.connections.handshake_factory import HandshakeFactory
from amqp_server.connections.heartbeats import HeartbeatWheel
from amqp_server.connections.large_writes import LargeWrites
from amqp_server.connections.open_connections import Lingering, OpenConnections
from amqp_server.connections.parked_publishes import ParkedBudget
from amqp_server.connections.server_context import ServerContext
from amqp_server.connections.slow_readers import SlowReaders
from amqp_server.definitions_file.definitions_import import DefinitionsImport
from amqp_server.operations.limit_settings import LimitSettings
from amqp_server.operations.parameter_settings import ParameterSettings
from amqp_server.upkeep.alarms import AlarmEvents, Alarms
from amqp_server.upkeep.checkpointer import Checkpointer
from amqp_server.upkeep.committer import Committer
from amqp_server.upkeep.compactor import Compactor
from amqp_server.upkeep.reclaimer import Reclaimer
from amqp_server.upkeep.resource_sensor import ResourceSensor, watermark_bytes
from amqp_server.upkeep.worker_reads import WorkerReads
from appendlog import Flusher
from appendlog.reclaim.leases import Leases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.base.clock import Clock
    from amqp_server.base.config import ServerConfig
    from amqp_server.base.time_slice import Stopwatch
    from amqp_server.recovery.stored_state import StoredState
    from amqp_server.upkeep.alarms import Sensor
    from amqp_server.upkeep.checkpointer import CheckpointReport
    from amqp_server.upkeep.disk_reserve import DiskReserve
    from appendlog import FileSystem, FlushResult
    from metadata.store import MetadataStore
    from offsets import RedoJournal
    from offsets.checkpoint import CheckpointStore


@dataclass(frozen=True, slots=True)
class Server:
    """All parts of one server; made by `assemble`.

    Attributes:
        config: Settings.
        audit: Records who changed what.
        clock: Time that the broker goes by.
        filesystem: File operations for definitions, logs and checkpoints.
        reserve: Disk reserve of the data directory.
        metadata: Store of the definitions.
        checkpoints: Store of the checkpoints.
        journal: Redo journal of transactions.
        flusher: Writes all logs; must be started, and is closed after the last request.
        reads: Reads of logs that the broker waits for.
        tasks: Tasks that no caller awaits.
        access: Users and permissions.
        logins: Checks passwords.
        broker: Virtual hosts, exchanges and queues.
        committer: Makes transactions durable.
        compactor: Rewrites segments that are mostly settled.
        checkpointer: Writes what is settled to the disk, and frees segments.
        definitions: Imports and exports definitions files.
        policies: Sets, clears and applies policies.
        vhost_changes: Creates and deletes virtual hosts.
        alarms: Alarms for low memory and low disk space.
        limit_settings: Changes the limits of virtual hosts and users.
        parameters: Changes parameters, and descriptions of virtual hosts.
        imports: Imports of exported messages.
        connections: The open connections of clients.
        context: What each of these connections uses.
        watch: Measures how long each piece of work takes.
        slow_readers: Cuts off clients that do not read while memory is low.
    """

    config: ServerConfig
    audit: AuditLog
    clock: Clock
    filesystem: FileSystem
    reserve: DiskReserve
    metadata: MetadataStore
    checkpoints: CheckpointStore
    journal: RedoJournal
    flusher: Flusher
    reads: WorkerReads
    tasks: BackgroundTasks
    access: AccessControl
    logins: Logins
    broker: Broker
    committer: Committer
    compactor: Compactor
    checkpointer: Checkpointer
    definitions: DefinitionsImport
    policies: Policies
    vhost_changes: VhostChanges
    alarms: Alarms
    limit_settings: LimitSettings
    parameters: ParameterSettings
    imports: Imports
    connections: OpenConnections
    context: ServerContext
    watch: TurnWatch
    slow_readers: SlowReaders


def assemble(
    config: ServerConfig,
    filesystem: FileSystem,
    reserve: DiskReserve,
    stored: StoredState,
    keep_lock: Callable[[], None],
    sensor: Sensor | None = None,
    clock: Clock | None = None,
    stopwatch: Stopwatch = perf_counter,
) -> Server:
    """Make an empty server and connect its parts; opens and starts nothing.

    Args:
        config: Settings; not changed.
        filesystem: File operations for definitions, logs and checkpoints.
        reserve: Disk reserve of the data directory.
        stored: The stores of the data directory; their owner closes them.
        keep_lock: Called in a worker before each round of checkpoints; raises an OffsetsError if
            the directory lock is lost.
        sensor: Measures memory and disk; None measures this process.
        clock: Time that the broker goes by; None: that of the machine.
        stopwatch: Measures the work of the event loop.
    """
    loop = asyncio.get_running_loop()
    limits = config.limits
    tasks = BackgroundTasks()
    watch = TurnWatch(stopwatch)
    audit = AuditLog(
        config.storage_path, config.audit_file_bytes, config.audit_files, loop.call_later
    )
    clock = clock or SystemClock(loop.call_later)

    # These two parts report to one that needs them itself. Neither calls before the server runs.
    def take_results(results: Sequence[FlushResult]) -> None:
        storage.take_results(results)

    async def write_checkpoint() -> CheckpointReport:
        return await checkpointer.write_round()

    # Queues and their logs
    flusher = Flusher(take_results)
    reads = WorkerReads()
    compactor = Compactor(flusher, config.compact_below, lambda: _spare_bytes(config, filesystem))
    turn = Turn(loop.call_soon, loop.call_later, watch, collector.note_work, clock, stopwatch)
    storage = QueueStorage(config, flusher, reads.read, turn, filesystem, compactor.compacted)
    committer = Committer(stored.journal, reserve, turn, tasks.spawn, write_checkpoint)
    broker = Broker(
        config,
        storage,
        Definitions(stored.metadata, storage.mark_of),
        turn,
        tasks.spawn,
        audit,
        commit=committer.commit,
        write_checkpoint=write_checkpoint,
    )
    policies = Policies(broker, tasks.spawn)
    leases = Leases(config.storage_path, filesystem)
    checkpointer = Checkpointer(
        broker,
        stored.checkpoints,
        reserve,
        Reclaimer(broker, flusher, committer, compactor, leases, reserve),
        committer,
        keep_lock,
        config.offset_checkpoint_interval_seconds,
        clock,
    )

    # Clients
    connections = OpenConnections(config.connections_max)

    async def disconnect_user(name: str) -> None:
        steps = connections.disconnect_user(name)
        await done_in_turns(turn, turn.upkeep, steps, f"deletion of user {name!r}")

    access = AccessControl(stored.metadata, broker.vhosts, tasks.spawn, disconnect_user, audit)
    logins = Logins(access.users)
    vhost_changes = VhostChanges(broker, tasks.spawn, connections.disconnect, policies, access)
    connection_limits = ConnectionLimits(broker.vhosts, access.users, broker.churn)
    authentication = Authentication(config, access, logins, broker.vhosts, connection_limits)
    parked_budget = ParkedBudget(limits.parked_bytes_max)

    def held_bytes() -> int:
        """Return the bytes of all messages and frames in memory; any thread may call it."""
        return (
            storage.held_bytes
            + parked_budget.held_bytes
            + broker.assembly_budget.held_bytes
            + broker.transaction_budget.held_bytes
            + sum(connection.held_bytes for connection in connections)
        )

    def use_disk() -> None:
        storage.failed_stores.retry()
        tasks.spawn(restore_reserve(reserve, alarms))

    memory_bytes_max = watermark_bytes(config.memory_watermark)

    slow_readers = SlowReaders(
        connections,
        int(memory_bytes_max * limits.unread_fraction_max),
        limits.slow_reader_checks_max,
    )

    def relieve_memory() -> None:
        storage.release_memory()
        Job(turn, turn.upkeep, slow_readers.look(), "search for slow readers").start()

    def notify_connections() -> None:
        alarm_events.report(alarms.low)
        if not alarms.is_memory_low:
            slow_readers.forget()
        Job(turn, turn.upkeep, connections.on_alarms_changed(), "begin or end of an alarm").start()

    alarm_events = AlarmEvents(broker.events)
    alarms = Alarms(
        sensor or ResourceSensor(config.storage_path, memory_bytes_max, held_bytes),
        memory_bytes_max=memory_bytes_max,
        disk_free_bytes_min=config.disk_free_limit_bytes,
        changed=notify_connections,
        relieve_memory=relieve_memory,
        use_disk=use_disk,
        keeps_growing=policies.unknown,
    )
    # One read, behind what the read before it left over of a publish as large as two frames.
    read_bytes_max = max(limits.read_buffer_bytes, limits.large_read_bytes)
    read_buffer = bytearray(read_bytes_max + 3 * config.frame_bytes_max)
    read_view = memoryview(read_buffer)
    context = ServerContext(
        config=config,
        broker=broker,
        connections=connections,
        access=access,
        connection_limits=connection_limits,
        handshake_factory=HandshakeFactory(config, authentication),
        alarms=alarms,
        parked_budget=parked_budget,
        large_writes=LargeWrites(asyncio.get_running_loop().call_soon),
        heartbeats=HeartbeatWheel(),
        lingering=Lingering(limits.lingering_connections_max),
        watch=watch,
        read_buffer=read_buffer,
        read_view=read_view,
        first_view=read_view[: limits.read_buffer_bytes],
    )
    return Server(
        config=config,
        audit=audit,
        clock=clock,
        filesystem=filesystem,
        reserve=reserve,
        metadata=stored.metadata,
        checkpoints=stored.checkpoints,
        journal=stored.journal,
        flusher=flusher,
        reads=reads,
        tasks=tasks,
        access=access,
        logins=logins,
        broker=broker,
        committer=committer,
        compactor=compactor,
        checkpointer=checkpointer,
        definitions=DefinitionsImport(broker, access, policies, vhost_changes, tasks.spawn),
        vhost_changes=vhost_changes,
        policies=policies,
        alarms=alarms,
        limit_settings=LimitSettings(broker, access, stored.metadata, tasks.spawn),
        parameters=ParameterSettings(broker, vhost_changes, stored.metadata, tasks.spawn),
        imports=Imports(config, filesystem, lambda: bool(alarms.low)),
        connections=connections,
        context=context,
        watch=watch,
        slow_readers=slow_readers,
    )


async def restore_reserve(reserve: DiskReserve, alarms: Alarms) -> None:
    """Create the disk reserve again if the last disk check found room for it."""
    if (seen := alarms.last) and reserve.is_due(seen.disk_free_bytes):
        await asyncio.to_thread(reserve.restore)


def _spare_bytes(config: ServerConfig, filesystem: FileSystem) -> int:
    """Return the bytes free on the disk above the limit of the disk alarm."""
    return filesystem.free_bytes(config.storage_path) - config.disk_free_limit_bytes
