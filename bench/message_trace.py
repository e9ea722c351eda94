"""The way of one message through the code: which functions run, in which files, in which order.

    python -m bench.message_trace [--calls]

Runs a server in this process with interpreted kernels, and one client that publishes a persistent
message to a durable queue with a consumer, awaits its confirm and its delivery, acknowledges it,
and awaits the checkpoint that contains the ack. It prints how many functions each leg calls, in how
many files, and how often a call leads to another file. A server that was used before has its caches
filled, so a few messages go first.
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
from bench.amqp_frames import acknowledge, frame, publish_prefix
from bench.broker_url import BrokerUrl
from bench.connection import Connection

_CHANNEL: Final = 1
_QUEUE: Final = "traced"
_BODY: Final = b"x" * 128
_MESSAGES_BEFORE: Final = 20
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

    def wait_until_settled(self, offset: int) -> None:
        """Return when all messages below `offset` are settled, and nothing else waits to run."""
        asyncio.run_coroutine_threadsafe(self._wait_until_settled(offset), self._loop).result()

    async def _wait_until_settled(self, offset: int) -> None:
        (queue,) = self.server.broker.queues()
        while queue.settlement.ack_floor < offset:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.001)
        # Turns that were marked by then have run after this.
        await asyncio.sleep(0.05)

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


def _trace_message(server: _TracedServer, *, shows_calls: bool) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    publish = publish_prefix(_CHANNEL, "", _QUEUE, len(_BODY), True) + frame(3, _CHANNEL, _BODY)
    with Connection(url, _CHANNEL) as publisher, Connection(url, _CHANNEL) as consumer:
        publisher.declare_queue(_QUEUE, True)
        publisher.select_confirms()
        consumer.start_consumer(_QUEUE, 10)
        for tag in range(1, _MESSAGES_BEFORE + 2):
            is_last = tag == _MESSAGES_BEFORE + 1
            if is_last:
                server.write_checkpoint()
                server.trace.begin()
            publisher.send(publish)
            _await_frames(publisher, 1)
            _await_frames(consumer, 3)
            if is_last:
                server.wait_until_settled(tag - 1)
                _show("publish", server.trace.end(), shows_calls=shows_calls)
                server.trace.begin()
            consumer.send(acknowledge(_CHANNEL, tag))
            server.wait_until_settled(tag)
            if is_last:
                _show("ack", server.trace.end(), shows_calls=shows_calls)
                server.trace.begin()
                server.write_checkpoint()
                _show("checkpoint", server.trace.end(), shows_calls=shows_calls)


@click.command()
@click.option("--calls", "shows_calls", is_flag=True, help="Print each call.")
def trace_message(shows_calls: bool) -> None:
    """Print the way of one message through the code."""
    with tempfile.TemporaryDirectory() as directory:
        server = _TracedServer(Path(directory) / "data")
        try:
            _trace_message(server, shows_calls=shows_calls)
        finally:
            server.stop()


if __name__ == "__main__":
    trace_message()
    sys.exit(0)
