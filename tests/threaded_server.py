"""A server inside the test's process, on a loop and a thread of its own.

For what no process outside can show: file systems that fail, hold syncs or lose power, limits
small enough to be reached, and a look at the broker's state.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import uvloop

from amqp_server.base.clock import Clock
from amqp_server.base.config import Limits, ServerConfig
from amqp_server.connections.client_connection import ClientConnection
from amqp_server.server import Server
from amqp_server.start_and_stop import RunningServer as StartedServer
from amqp_server.start_and_stop import start
from amqp_server.upkeep.alarms import Sensor
from appendlog.files.filesystem import FileSystem
from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS

ResultT = TypeVar("ResultT")


class ThreadedServer:
    """One in-process server; as a context manager it is stopped at the end.

    Args:
        storage_path: Data directory.
        filesystem: For logs and checkpoints.
        limits: Bounds; the default ones when None.
        sensor: Looks at memory and disk.
        clock: Time that it goes by; None: that of the machine.
        stopwatch: Measures its work; tests that compare clients pass one that stands.
        settings: Fields of `ServerConfig`.

    Attributes:
        server: Parts of the server; set once it has started.
        address: Where to connect to; set once it has started.
        running: What `start` has returned; set once it has started.
        new_event_loop: Makes its event loop; a subclass may have another one.
    """

    server: Server
    address: tuple[str, int]
    running: StartedServer
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(uvloop.new_event_loop)

    def __init__(
        self,
        storage_path: Path,
        filesystem: FileSystem | None = None,
        limits: Limits | None = None,
        sensor: Sensor | None = None,
        clock: Clock | None = None,
        stopwatch: Callable[[], float] = perf_counter,
        **settings: Any,  # noqa: ANN401 - as the dataclass has them
    ) -> None:
        config = ServerConfig(
            port=0, storage_path=storage_path, limits=limits or Limits(), **settings
        )
        self._start = partial(start, config, filesystem, sensor, clock, stopwatch=stopwatch)
        self._loop: asyncio.AbstractEventLoop
        self._started: Future[None] = Future()
        self._ending = asyncio.Event()
        self._stops_cleanly = True
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)

    def __enter__(self) -> Self:
        """Start, and return when it listens."""
        self._thread.start()
        self._started.result(HANG_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    @property
    def connections(self) -> list[ClientConnection]:
        """The open connections, for a look inside them."""
        return cast("list[ClientConnection]", list(self.server.connections))

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a function on the server's loop and return what it returns."""

        async def run() -> ResultT:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(HANG_SECONDS)

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Return when a condition on the server's state holds; it is asked on the loop."""

        async def run() -> None:
            async with asyncio.timeout(HANG_SECONDS):
                while not is_reached():  # noqa: ASYNC110 - any state, so there is no event
                    await asyncio.sleep(0.002)

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(HANG_SECONDS + 1)

    def run(self, make: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run a coroutine function on the server's loop and return its result."""

        async def run() -> ResultT:
            return await make()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(HANG_SECONDS)

    def stop(self) -> None:
        """Stop cleanly; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(HANG_SECONDS)
            assert not self._thread.is_alive(), "the server did not stop"

    def abandon(self) -> None:
        """Stop after a failure of the disk; the stop need not be a clean one."""
        self._stops_cleanly = False
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        running = await self._start()
        self.running = running
        self.server, self.address = running.server, running.address
        self._started.set_result(None)
        await self._ending.wait()
        is_clean = await running.stop()
        assert is_clean or not self._stops_cleanly, "the last checkpoint could not be written"


@contextmanager
def two_clients(
    storage_path: Path,
    *arguments: Any,  # noqa: ANN401 - as `ThreadedServer` takes them
    **settings: Any,  # noqa: ANN401
) -> Iterator[tuple[ThreadedServer, AmqpClient, AmqpClient]]:
    """Run a server and give it with two clients, each with channel 1 open."""
    with (
        ThreadedServer(storage_path, *arguments, **settings) as server,
        connect(server.address) as first,
        connect(server.address) as second,
    ):
        first.open_channel()
        second.open_channel()
        yield server, first, second
