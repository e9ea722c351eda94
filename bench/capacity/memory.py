"""Memory and open files of our server for each connection, queue and waiting message.

Every measurement checks that all messages are there; one that lost some is an error.
"""

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import requests
from bench.broker_url import BrokerUrl
from bench.capacity.messages import ServicePublishes
from bench.confirm_window import ConfirmWindow
from bench.connection import STALL_SECONDS_MAX, Connection
from bench.errors import BenchError
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock

CHANNEL: Final = 1
SMALL_BODY_BYTES: Final = 128
_PREFETCH: Final = 100
_SHARED_QUEUES: Final = 10
_FILES_MORE: Final = 200
_BLOCK_MESSAGES: Final = 400
_FILLING_SHARE: Final = 5
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """What one connection or queue costs the broker.

    Attributes:
        memory_bytes: RssAnon.
        files: Open files.
    """

    memory_bytes: float
    files: float


@dataclass(frozen=True, slots=True)
class _Usage:
    """What a process has now.

    Attributes:
        memory_bytes: RssAnon.
        files: Open files.
    """

    memory_bytes: int
    files: int

    @classmethod
    def of(cls, pid: int) -> "_Usage":
        return cls(anon_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())))

    def cost_of_each(self, before: "_Usage", count: int) -> Cost:
        memory_bytes = self.memory_bytes - before.memory_bytes
        return Cost(memory_bytes / count, (self.files - before.files) / count)


def anon_bytes(pid: int) -> int:
    """Return the RssAnon of a process without its children.

    Raises:
        BenchError: The process has ended, or there is no `/proc`.
    """
    found = ServerProbe(pid, has_children=False).rss_anon_bytes()
    if not found:
        raise BenchError(f"the memory of process {pid} is unknown")
    return found


def measure_connections(
    url: BrokerUrl, pid: int, count: int, *, look: Callable[[], None] = lambda: None
) -> Cost:
    """Open connections with a channel and a consumer each; every one has published a message.

    Args:
        url: Address of the broker.
        pid: Its process.
        count: Connections, from 1.
        look: Called while all of them are open, before the memory is read.

    Raises:
        BenchError: The broker refuses something, does not answer, or lost a message.
    """
    publishes = ServicePublishes(CHANNEL, seed=1)
    names = [f"shared{number}" for number in range(_SHARED_QUEUES)]
    with ExitStack() as stack:
        stack.enter_context(_files_allowed(count + _FILES_MORE))
        first = stack.enter_context(Connection(url, CHANNEL))
        for name in names:
            first.declare_queue(name, durable=True)
        first.select_confirms()
        _publish_each(first, publishes, names)
        with ExitStack() as clients:
            before = _Usage.of(pid)
            for number in range(count):
                name = names[number % len(names)]
                client = clients.enter_context(Connection(url, CHANNEL))
                client.select_confirms()
                _publish_each(client, publishes, [name])
                client.start_consumer(name, _PREFETCH)
            look()
            cost = _Usage.of(pid).cost_of_each(before, count)
        # What the consumers held comes back when the broker notices that they are gone.
        _expect_ready(first, names, len(names) + count)
        return cost


def measure_queues(url: BrokerUrl, pid: int, count: int) -> Cost:
    """Return the cost of a durable queue, from `count` queues that have got a message each.

    Raises:
        BenchError: The broker refuses something, does not answer, or lost a message.
    """
    publishes = ServicePublishes(CHANNEL, seed=2)
    names = [f"queue{number}" for number in range(count)]
    with Connection(url, CHANNEL) as client:
        client.select_confirms()
        before = _Usage.of(pid)
        client.ask_pipelined(
            [requests.declare_queue(CHANNEL, name, durable=True) for name in names]
        )
        _publish_each(client, publishes, names)
        cost = _Usage.of(pid).cost_of_each(before, count)
        _expect_ready(client, names, count)
        return cost


def measure_ring(url: BrokerUrl, pid: int, count: int) -> float:
    """Return the bytes of memory, beside its body, of a message that is in the ring.

    Args:
        url: Address of the broker, which has no other messages yet.
        pid: Its process.
        count: Messages; no more than a ring holds.

    Raises:
        BenchError: The broker does not answer, or lost a message.
    """
    with Connection(url, CHANNEL) as client:
        client.declare_queue("ring", durable=True)
        before = anon_bytes(pid)
        sent = _send_blocks(client, "ring", 0, count // _BLOCK_MESSAGES)
        _expect_ready(client, ["ring"], sent)
        return (anon_bytes(pid) - before) / sent - SMALL_BODY_BYTES


def measure_waiting(url: BrokerUrl, pid: int, count: int) -> float:
    """Return the bytes of memory of a message that waits in the log and is not in the ring.

    Args:
        url: Address of the broker.
        pid: Its process.
        count: Messages; a fifth of them fills the ring and does not count.

    Raises:
        BenchError: The broker does not answer, or lost a message.
    """
    blocks = count // _BLOCK_MESSAGES
    filling = blocks // _FILLING_SHARE
    with Connection(url, CHANNEL) as client:
        client.declare_queue("deep", durable=True)
        sent = _send_blocks(client, "deep", 0, filling)
        _expect_ready(client, ["deep"], sent)
        before = anon_bytes(pid)
        more = _send_blocks(client, "deep", filling, blocks)
        _expect_ready(client, ["deep"], sent + more)
        return (anon_bytes(pid) - before) / more


def _send_blocks(client: Connection, queue: str, start: int, end: int) -> int:
    """Publish blocks of messages that are alike; return how many messages they have."""
    block = PublishBlock(
        CHANNEL,
        queue,
        body_bytes=SMALL_BODY_BYTES,
        persistent=True,
        block_messages=_BLOCK_MESSAGES,
    )
    for number in range(start, end):
        client.send(block.encode(number, 0))
    return (end - start) * _BLOCK_MESSAGES


def _publish_each(client: Connection, publishes: ServicePublishes, queues: Sequence[str]) -> None:
    """Publish a message to each queue, and wait for all confirms."""
    window = ConfirmWindow()
    client.send(b"".join(publishes.encode(queue).octets for queue in queues))
    while window.settled < len(queues):
        window.feed(client.receive())
    if window.nacked:
        raise BenchError(f"{window.nacked} publishes were refused")


def _expect_ready(client: Connection, queues: Sequence[str], wanted: int) -> None:
    """Wait until queues have so many ready messages together.

    Raises:
        BenchError: They have others after `STALL_SECONDS_MAX`.
    """
    deadline = time.monotonic() + STALL_SECONDS_MAX
    while (found := sum(client.count_ready(queue) for queue in queues)) != wanted:
        if time.monotonic() > deadline:
            raise BenchError(f"LOST {wanted - found}: {wanted} messages were published")
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _files_allowed(wanted: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise BenchError(f"{wanted} open files are needed, the limit is {hard}: `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
