"""All constants of `amqp-server size` that this machine can measure, beside those of the model."""

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.brokers import OURS
from bench.capacity import disk, memory, processor
from bench.capacity.management import ResidentMemory, list_all
from bench.management.managed_server import start_managed_server
from bench.our_server import start_our_server
from bench.running_broker import RunningBroker
from cli import unit_costs

_REST_SECONDS: Final = 2.0
"""Then a start has given back the memory that it does not need."""
_STORED_MESSAGES: Final = 1000
_TOGETHER: Final = 50
_RING_MESSAGES: Final = 60_000
_KERNEL: Final = re.compile(r"^(?:Slab|KernelStack|PageTables):\s+(\d+) kB$", re.MULTILINE)
_ENDS: Final = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything is measured.

    Attributes:
        connections: Connections, from 1.
        queues: Durable queues, from 1.
        waiting: Messages of one queue that wait in its log, from 10,000.
        rate: Messages a second that come alone.
        seconds: Seconds of each measurement of the processor.
        data_dir: Directory for the servers' data.
    """

    connections: int
    queues: int
    waiting: int
    rate: int
    seconds: float
    data_dir: Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One constant.

    Attributes:
        name: What it is.
        unit: B, files or us.
        measured: As this machine has it.
        model: As `cli.unit_costs` has it; None for what the model does not use.
    """

    name: str
    unit: str
    measured: float
    model: float | None


def measure(plan: Plan) -> Iterator[Figure]:
    """Measure all constants; each group has a server of its own.

    Raises:
        BenchError: A broker did not start, refused something, or lost a message.
    """
    yield from _with_connections(plan)
    yield from _with_queues(plan)
    yield from _messages(plan)
    yield from _processor(plan)


def _with_connections(plan: Plan) -> Iterator[Figure]:
    with (
        _directory(plan) as directory,
        start_managed_server(directory) as server,
    ):
        time.sleep(min(_REST_SECONDS, plan.seconds))
        broker = ResidentMemory.of(server.broker_pid)
        before = ResidentMemory.of(server.management_pid)
        own_bytes = memory.anon_bytes(server.broker_pid)
        yield Figure("broker, empty: resident", "B", broker.now_bytes, unit_costs.BROKER_BYTES)
        yield Figure("broker, empty: its own (RssAnon)", "B", own_bytes, None)
        yield Figure(
            "management server, empty: resident", "B", before.now_bytes, unit_costs.MANAGEMENT_BYTES
        )
        kernel_before, kernel_bytes = _kernel_bytes(), 0

        def look() -> None:
            nonlocal kernel_bytes
            kernel_bytes = _kernel_bytes() - kernel_before
            list_all(server.url, "/api/connections")

        cost = memory.measure_connections(
            server.amqp_url, server.broker_pid, plan.connections, look=look
        )
        listed = ResidentMemory.of(server.management_pid).peak_bytes - before.peak_bytes
        count = plan.connections
        yield Figure("connection", "B", cost.memory_bytes, unit_costs.CONNECTION_BYTES)
        yield Figure("connection", "files", cost.files, unit_costs.CONNECTION_FILES)
        yield Figure(
            "connection: kernel, rough", "B", kernel_bytes / count / _ENDS, unit_costs.SOCKET_BYTES
        )
        yield Figure(
            "connection: management server, listed",
            "B",
            listed / count,
            unit_costs.MANAGED_CONNECTION_BYTES,
        )


def _with_queues(plan: Plan) -> Iterator[Figure]:
    with (
        _directory(plan) as directory,
        start_managed_server(directory) as server,
    ):
        before = ResidentMemory.of(server.management_pid)
        disk_before = disk.allocated_bytes(directory / "data")
        count = plan.queues
        cost = memory.measure_queues(server.amqp_url, server.broker_pid, count)
        disk_bytes = disk.allocated_bytes(directory / "data") - disk_before
        list_all(server.url, "/api/queues")
        listed = ResidentMemory.of(server.management_pid).peak_bytes - before.peak_bytes
        yield Figure("queue", "B", cost.memory_bytes, unit_costs.QUEUE_BYTES)
        yield Figure("queue: of the caches of logs", "files", cost.files, None)
        yield Figure(
            "queue: management server, listed", "B", listed / count, unit_costs.MANAGED_QUEUE_BYTES
        )
        yield Figure("queue: on the disk", "B", disk_bytes / count, unit_costs.STORED_QUEUE_BYTES)


def _messages(plan: Plan) -> Iterator[Figure]:
    with _directory(plan) as directory, start_our_server(OURS, directory) as server:
        pid = _pid(server)
        found = memory.measure_ring(server.url, pid, _RING_MESSAGES)
        yield Figure("message in a ring", "B", found, unit_costs.RING_MESSAGE_BYTES)
        found = memory.measure_waiting(server.url, pid, plan.waiting)
        yield Figure("message in a log only", "B", found, unit_costs.WAITING_MESSAGE_BYTES)
        data = directory / "data"
        alone = disk.measure_stored(server.url, data, _STORED_MESSAGES, at_once=1)
        together = disk.measure_stored(server.url, data, _STORED_MESSAGES, at_once=_TOGETHER)
        yield Figure("headers of a message", "B", alone.header_bytes, unit_costs.HEADER_BYTES)
        name = "log of a message, beside body and headers"
        yield Figure(name, "B", alone.framing_bytes, unit_costs.STORED_MESSAGE_BYTES)
        yield Figure(f"the same, {_TOGETHER} together", "B", together.framing_bytes, None)


def _processor(plan: Plan) -> Iterator[Figure]:
    with _directory(plan) as directory, start_our_server(OURS, directory) as server:
        pid = _pid(server)
        found = processor.measure_lone_messages(server.url, pid, plan.rate, plan.seconds)
        yield Figure(f"lone message at {plan.rate}/s", "us", found, unit_costs.LONE_US)
        found = processor.measure_heartbeats(server.url, pid, plan.connections, plan.seconds)
        yield Figure("heartbeat interval", "us", found, unit_costs.HEARTBEAT_US)


@contextmanager
def _directory(plan: Plan) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="amqp-bench-capacity-", dir=plan.data_dir) as name:
        yield Path(name)


def _pid(server: RunningBroker) -> int:
    assert server.pid is not None, "a server of ours has a process"
    return server.pid


def _kernel_bytes() -> int:
    """Return the memory that the kernel uses for itself, of the whole machine."""
    return sum(int(each) for each in _KERNEL.findall(Path("/proc/meminfo").read_text())) * 1024
