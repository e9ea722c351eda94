"""The way of one message through the code: which functions run, in which files, in which order.

    python -m bench.message_trace [--calls | --system]

Runs a server in this process with interpreted kernels, and one client that publishes a persistent
message to a durable queue with a consumer, awaits its confirm and its delivery, acknowledges it,
and awaits the checkpoint that contains the ack. Then another client gets a message of another queue
and acknowledges it, and one more calls a server with direct reply-to. It prints how many functions
each leg calls, in how many files, and how often a call leads to another file: the shortest of five
traces. A server that was used before has its caches filled, so a few messages go first.
`tests/bench/test_message_trace.py` has the most that each leg may have. With `--system` it counts
from outside: see `bench.system_trace`.
"""

import os

os.environ["AMQP_SERVER_PURE_PYTHON"] = "1"

import asyncio
import sys
import tempfile
import threading
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Final

import click
import uvloop

from amqp_server.base.config import ServerConfig
from amqp_server.server import Server
from amqp_server.start_and_stop import start
from bench.amqp_frames import acknowledge, frame, method_frame, publish_prefix, short_string
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BenchError
from bench.system_trace import calls_to, show_system_costs

_CHANNEL: Final = 1
_QUEUE: Final = "traced"
_GET_QUEUE: Final = "got"
_BODY: Final = b"x" * 128
_MESSAGES_BEFORE: Final = 20
_TRACED: Final = 5
_IDLE_SECONDS: Final = 0.05
_ROOT: Final = Path(__file__).resolve().parent.parent
_PACKAGES: Final = ("amqp_server", "appendlog", "metadata", "offsets", "ring")


class _Trace:
    """Calls of our functions in all threads, while it is on.

    Attributes:
        calls: File and function of each call, in order.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._is_on = False

    def note(self, traced: FrameType, event: str, _: object) -> None:
        """Remember a call; the interpreter's profiling hook."""
        if not self._is_on or event != "call":
            return
        code = traced.f_code
        if traced.f_back is not None and traced.f_back.f_code.co_filename == __file__:
            # Asked by this file, not by the server.
            return
        path = Path(code.co_filename)
        if path.is_relative_to(_ROOT):
            file = path.relative_to(_ROOT)
            if file.parts[0] in _PACKAGES and not code.co_name.startswith("<"):
                self.calls.append((str(file), code.co_qualname))

    def begin(self) -> None:
        """Forget the calls so far, and remember those from now on."""
        self.calls = []
        self._is_on = True

    def end(self) -> list[tuple[str, str]]:
        """Return the calls since `begin`."""
        self._is_on = False
        return self.calls


class _TracedServer:
    """A server on a thread of its own, whose calls are traced."""

    def __init__(self, storage_path: Path) -> None:
        self.trace = _Trace()
        self._config = ServerConfig(
            port=0, storage_path=storage_path, offset_checkpoint_interval_seconds=3600
        )
        self._started: Future[tuple[Server, tuple[str, int]]] = Future()
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        threading.setprofile(self.trace.note)
        self._thread = threading.Thread(target=self._run, name="server")
        self._thread.start()
        self.server, self.address = self._started.result()

    def write_checkpoint(self) -> None:
        """Return when a checkpoint has all that is settled by now."""
        write = self.server.checkpointer.write_now()
        asyncio.run_coroutine_threadsafe(write, self._loop).result()

    def wait_until_settled(self, name: str, offset: int) -> None:
        """Return when a queue's messages below `offset` are settled, and nothing waits to run."""
        settled = self._wait_until_settled(name, offset)
        asyncio.run_coroutine_threadsafe(settled, self._loop).result()

    def wait_until_idle(self) -> None:
        """Return when the turns that are marked have run."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(_IDLE_SECONDS), self._loop).result()

    async def _wait_until_settled(self, name: str, offset: int) -> None:
        settlement = self.server.broker.vhosts["/"].queues[name].settlement
        while settlement.ack_floor < offset:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.001)
        # Turns that were marked by then have run after this.
        await asyncio.sleep(_IDLE_SECONDS)

    def stop(self) -> None:
        """Stop, and return when it has ended."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        threading.setprofile(None)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            running = await start(self._config)
        except BaseException as error:
            self._started.set_exception(error)
            raise
        self._started.set_result((running.server, running.address))
        await self._ending.wait()
        await running.stop()


class _Legs:
    """The shortest trace of each leg: what a timer asks for at the same time is not its own."""

    def __init__(self) -> None:
        self._shortest: dict[str, list[tuple[str, str]]] = {}

    def add(self, leg: str, calls: list[tuple[str, str]]) -> None:
        """Keep a trace if it is the shortest of its leg."""
        if leg not in self._shortest or len(calls) < len(self._shortest[leg]):
            self._shortest[leg] = calls

    def show(self, *, shows_calls: bool) -> None:
        """Print all legs."""
        for leg, calls in self._shortest.items():
            _show(leg, calls, shows_calls=shows_calls)


def _show(leg: str, calls: list[tuple[str, str]], *, shows_calls: bool) -> None:
    files = [file for file, _ in calls]
    changes = sum(before != after for before, after in pairwise(files))
    click.echo(
        f"{leg}: {len(calls)} calls of {len(set(calls))} functions in {len(set(files))} files, "
        f"{changes} changes of file"
    )
    if shows_calls:
        for file, function in calls:
            click.echo(f"    {file}  {function}")


def _await_frames(connection: Connection, count: int) -> None:
    """Read until `count` whole frames have come."""
    received = connection.take_unread()
    while received.count(b"\xce") < count:
        received += connection.receive()


def _trace_message(server: _TracedServer, legs: _Legs) -> None:
    """Trace publishes with their confirms and deliveries, their acks, and checkpoints."""
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    publish = publish_prefix(_CHANNEL, "", _QUEUE, len(_BODY), True) + frame(3, _CHANNEL, _BODY)
    with Connection(url, _CHANNEL) as publisher, Connection(url, _CHANNEL) as consumer:
        publisher.declare_queue(_QUEUE, True)
        publisher.select_confirms()
        consumer.start_consumer(_QUEUE, 10)
        for tag in range(1, _MESSAGES_BEFORE + _TRACED + 1):
            is_traced = tag > _MESSAGES_BEFORE
            if is_traced:
                server.write_checkpoint()
                server.trace.begin()
            publisher.send(publish)
            _await_frames(publisher, 1)
            _await_frames(consumer, 3)
            if is_traced:
                server.wait_until_settled(_QUEUE, tag - 1)
                legs.add("publish", server.trace.end())
                server.trace.begin()
            consumer.send(acknowledge(_CHANNEL, tag))
            server.wait_until_settled(_QUEUE, tag)
            if is_traced:
                legs.add("ack", server.trace.end())
                server.trace.begin()
                server.write_checkpoint()
                legs.add("checkpoint", server.trace.end())


def _trace_get(server: _TracedServer, legs: _Legs) -> None:
    """Trace gets of a ready message, each with its ack."""
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    publish = publish_prefix(_CHANNEL, "", _GET_QUEUE, len(_BODY), True) + frame(3, _CHANNEL, _BODY)
    get = method_frame(_CHANNEL, 60, 70, bytes(2) + short_string(_GET_QUEUE) + b"\x00")
    with Connection(url, _CHANNEL) as client:
        client.declare_queue(_GET_QUEUE, True)
        client.select_confirms()
        for tag in range(1, _MESSAGES_BEFORE + _TRACED + 1):
            client.send(publish)
            _await_frames(client, 1)
            server.wait_until_settled(_GET_QUEUE, tag - 1)
            server.trace.begin()
            client.send(get)
            _await_frames(client, 3)
            client.send(acknowledge(_CHANNEL, tag))
            server.wait_until_settled(_GET_QUEUE, tag)
            if tag > _MESSAGES_BEFORE:
                legs.add("get", server.trace.end())


def _trace_call(server: _TracedServer, legs: _Legs) -> None:
    """Trace calls with direct reply-to: a request to a queue, and its reply."""
    with calls_to(BrokerUrl(*server.address, "guest", "guest", "/")) as run:
        run(_MESSAGES_BEFORE)
        for _ in range(_TRACED):
            server.wait_until_idle()
            server.trace.begin()
            run(1)
            server.wait_until_idle()
            legs.add("call", server.trace.end())


@click.command()
@click.option("--calls", "shows_calls", is_flag=True, help="Print each call.")
@click.option(
    "--system",
    "is_system",
    is_flag=True,
    help="Print system calls, context switches and CPU time of a message instead.",
)
def trace_message(shows_calls: bool, is_system: bool) -> None:
    """Print the way of one message through the code."""
    if is_system:
        try:
            show_system_costs()
        except BenchError as error:
            raise click.ClickException(str(error)) from None
        return
    with tempfile.TemporaryDirectory() as directory:
        server = _TracedServer(Path(directory) / "data")
        try:
            legs = _Legs()
            _trace_message(server, legs)
            _trace_get(server, legs)
            _trace_call(server, legs)
            legs.show(shows_calls=shows_calls)
        finally:
            server.stop()


if __name__ == "__main__":
    trace_message()
    sys.exit(0)
