"""A broker in the process of the tests, on a thread of its own.

It is a guest there. It changes nothing that belongs to the process: no signal handler, no limit, no
setting of the interpreter, no logging. After `close` no thread, socket or file of it is left.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from amqp_server.base.config import Limits, ServerConfig
from amqp_server.broker.vhost_changes import NoSuchVhostError, VhostExistsError
from amqp_server.start_and_stop import start
from amqp_server.testing.clock import TurnedClock
from amqp_server.testing.errors import BrokerStateError
from amqp_server.testing.faults.chaos import MESSAGES_MEAN
from amqp_server.testing.faults.fault_points import FaultPoints, kill
from amqp_server.testing.faults.faults import Faults
from amqp_server.testing.faults.saved_checkpoint import SavedCheckpoint
from amqp_server.testing.loop_thread import LoopThread
from amqp_server.testing.publish_record import PublishRecord
from amqp_server.testing.reserved_port import ReservedPort
from amqp_server.testing.temporary_directory import (
    TemporaryDirectory,
    disk_directory,
    memory_directory,
)
from amqp_server.testing.urls import amqp_url
from amqp_server.testing.virtual_host import VirtualHost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from types import TracebackType

    from amqp_server.server import Server
    from amqp_server.start_and_stop import RunningServer
    from amqp_server.testing.broker_view import BrokerView
    from amqp_server.testing.faults.chaos import Chaos
    from amqp_server.testing.message import Message
    from amqp_server.testing.queue_view import QueueView

    ResultT = TypeVar("ResultT")

DEFAULT_VHOST: Final = "/"
CLOSING_SECONDS_MAX: Final = 0.05
"""Seconds that clients have to answer connection.close at a stop.

A blocking client in the thread that stops the broker cannot answer at all.
"""
_OWN_SETTINGS: Final = frozenset({"storage_path", "log_level", "log_format"})


class Broker:
    """A broker on a free port of this machine, from `with` or `start` to the end or `close`.

    Any thread may use it, one at a time. In asyncio, `async with` does not block the loop while the
    broker starts and stops. Without `close` it ends with the process.

    By default its files are in memory where the system allows that, and never wait for a disk. They
    survive `restart` as those of a server do, and are removed at the end.

    Args:
        durable: Whether the files are on the disk for temporary files, and each sync is real.
        storage_path: Data directory that stays after the end; implies `durable`. None: a temporary
            one.
        clock: Clock that the broker goes by, for a test that wants one that stands still. None: one
            that goes on at real speed.
        settings: Other fields of `amqp_server.base.config.ServerConfig`. By default `port` is a
            free one, no memory or disk alarm blocks publishers, and the broker asks clients for no
            heartbeats, so that a debugger may stop the process.

    Raises:
        TypeError: There is no such setting.
        amqp_server.base.config.ConfigError: A setting has an invalid value.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        storage_path: Path | str | None = None,
        clock: TurnedClock | None = None,
        **settings: Any,  # noqa: ANN401 - as the dataclass has them
    ) -> None:
        known = {field.name for field in fields(ServerConfig)} - _OWN_SETTINGS
        if unknown := sorted(settings.keys() - known):
            raise TypeError(
                f"Broker has no setting '{unknown[0]}': it has durable, storage_path, clock and "
                f"{', '.join(sorted(known))}"
            )
        self._config = ServerConfig(**{**_guest_settings(), **settings})
        self._storage_path = None if storage_path is None else Path(storage_path)
        self._is_durable = durable or storage_path is not None
        self._clock = clock or TurnedClock()
        self._pid = 0
        self._numbers = count(1)
        self._directory: TemporaryDirectory | None = None
        self._reserved: ReservedPort | None = None
        self._thread: LoopThread | None = None
        self._running: RunningServer | None = None
        self._is_closed = False
        self._records: dict[str, PublishRecord] = {}
        self._default = VirtualHost(self, DEFAULT_VHOST)
        self._points = FaultPoints()
        self._faults = Faults(self, self._points)

    # Where it is

    @property
    def host(self) -> str:
        """Address at which the broker listens."""
        return self._config.host

    @property
    def port(self) -> int:
        """TCP port at which the broker listens; stays the same until `close`.

        Raises:
            BrokerStateError: The broker has not started yet, or is closed.
        """
        if self._reserved is None:
            raise self._not_running()
        return self._reserved.port

    @property
    def vhost(self) -> str:
        """Name of the virtual host that `url` names."""
        return DEFAULT_VHOST

    @property
    def url(self) -> str:
        """URL of the virtual host `/`, with the user `guest`.

        Raises:
            BrokerStateError: The broker has not started yet, or is closed.
        """
        return amqp_url(self.host, self.port, self.vhost)

    @property
    def clock(self) -> TurnedClock:
        """The clock of the broker; it goes on at its time after a restart."""
        return self._clock

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._running is not None

    # Virtual hosts

    def new_vhost(self, name: str = "") -> VirtualHost:
        """Create an empty virtual host.

        Args:
            name: Name that no virtual host has; by default `test-1`, `test-2` and so on.

        Raises:
            BrokerStateError: The broker does not run.
            amqp_server.broker.vhost_changes.VhostExistsError: The name is in use.
        """
        if name:
            self.submit(partial(self._create_vhost, name)).result()
            return VirtualHost(self, name)
        while True:
            name = f"test-{next(self._numbers)}"
            # A data directory of an earlier run has some already.
            with suppress(VhostExistsError):
                self.submit(partial(self._create_vhost, name)).result()
                return VirtualHost(self, name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it; does nothing if there is none.

        Raises:
            BrokerStateError: The broker does not run.
        """
        with suppress(NoSuchVhostError):
            self.submit(lambda server: server.vhost_changes.delete(name)).result()
        self._records.pop(name, None)

    # What it holds

    def queue(self, name: str) -> QueueView:
        """Return a view of a queue of the virtual host `/`; see `VirtualHost.queue`."""
        return self._default.queue(name)

    def view(self) -> BrokerView:
        """Return what the virtual host `/` holds; see `VirtualHost.view`."""
        return self._default.view()

    def published(
        self,
        queue: str | None = None,
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
    ) -> list[Message]:
        """Return what was published to the virtual host `/`; see `VirtualHost.published`."""
        return self._default.published(queue, exchange=exchange, routing_key=routing_key)

    def assert_published(
        self,
        queue: str | None = None,
        **expected: Any,  # noqa: ANN401 - as `VirtualHost.assert_published` has them
    ) -> Message:
        """Return a message published to `/` that is as expected.

        See `VirtualHost.assert_published`.
        """
        return self._default.assert_published(queue, **expected)

    def record_of(self, vhost: str) -> PublishRecord:
        """Return the record of what was published to a virtual host. The broker's loop owns it."""
        return self._records.setdefault(vhost, PublishRecord())

    def submit(self, make: Callable[[Server], Coroutine[Any, Any, ResultT]]) -> Future[ResultT]:
        """Call a coroutine function with the server, on the broker's loop.

        Raises:
            BrokerStateError: The broker does not run.
        """
        server = self._server().server
        assert self._thread is not None, "a server that runs has a thread"
        return self._thread.submit(make(server))

    # Faults

    @property
    def faults(self) -> Faults:
        """Faults on demand, in all virtual hosts."""
        return self._faults

    def save_checkpoint(self) -> SavedCheckpoint:
        """Write what is acknowledged now to the files; return a copy for `crash`.

        Raises:
            BrokerStateError: The broker does not run.
        """
        return self.submit(SavedCheckpoint.write).result()

    def crash(self, checkpoint: SavedCheckpoint | None = None) -> None:
        """End as after `kill -9`, and start with the same port and files.

        Connections are reset. Nothing that was only in memory reaches the files. Confirmed
        persistent messages are there, all flagged as redelivered. Messages that were acknowledged
        after the last checkpoint come again.

        Args:
            checkpoint: Forget what was acknowledged later than this, even if it was written since.

        Raises:
            BrokerStateError: The broker does not run.
            ValueError: The checkpoint is that of another broker.
        """
        running = self._server()
        if checkpoint is not None:
            checkpoint.check_belongs_to(running.server)
        self.submit(lambda _: self._crash(running)).result()
        if checkpoint is not None:
            checkpoint.restore()
        self.start()

    def chaos(
        self, seed: int | None = None, *, messages_mean: int = MESSAGES_MEAN
    ) -> AbstractContextManager[Chaos]:
        """Let connections end, and confirms become nacks, at random; see `Faults.chaos`."""
        return self._faults.chaos(seed, messages_mean=messages_mean)

    # Start and stop

    def start(self) -> Self:
        """Start; return when clients can connect.

        After `stop`, the broker starts with the same port and files.

        Raises:
            BrokerStateError: The broker runs already, or is closed.
            amqp_server.base.errors.StartupError: The port or the data directory cannot be used.
        """
        starting = self._begin()
        try:
            starting.result()
        except BaseException:
            # Also when a signal handler raised: a start that still goes on must not win.
            starting.cancel()
            self.close()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly; clients are refused until `start`.

        Raises:
            BrokerStateError: The broker does not run.
        """
        running = self._server()
        self.submit(lambda _: self._stop(running)).result()

    def restart(self) -> None:
        """Stop cleanly, then start with the same port and files.

        Durable queues survive with their persistent messages; connections, and everything else in
        queues, do not.

        Raises:
            BrokerStateError: The broker does not run.
        """
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove everything; a second call does nothing."""
        if self._is_ours() and self._thread is not None:
            self._is_closed = True
            try:
                self._thread.submit(self._end()).result()
            finally:
                self._release()
        self._is_closed = True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        starting = self._begin()
        try:
            await asyncio.wrap_future(starting)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Clients on the caller's loop can only answer connection.close while that loop runs.
        try:
            if self._is_ours() and self._thread is not None:
                await asyncio.wrap_future(self._thread.submit(self._end()))
        finally:
            self.close()

    # Steps

    def _begin(self) -> Future[None]:
        """Get what the server needs, and begin to start it."""
        if self._is_closed:
            raise BrokerStateError("the broker is closed: make a new Broker()")
        if self._running is not None:
            raise BrokerStateError(
                f"the broker runs already at {self.url}: enter `with` or call start() once"
            )
        if self._thread is None:
            self._acquire()
        assert self._thread is not None, "acquired above"
        assert self._directory is not None, "acquired above"
        config = replace(
            self._config,
            port=self.port,
            storage_path=self._storage_path or self._directory.path / "data",
        )
        return self._thread.submit(self._serve(config))

    async def _serve(self, config: ServerConfig) -> None:
        running = await start(
            config,
            self._points.new_files(synced=self._is_durable),
            self._points.sensor,
            self._clock,
            owns_process=False,
            make_connection=self._points.connection,
        )
        # No client has sent anything yet: the loop reads in its next turn.
        for name, vhost in running.server.broker.vhosts.items():
            vhost.publish_watch = self.record_of(name).note
        self._running = running

    def _acquire(self) -> None:
        try:
            self._reserved = ReservedPort(self._config.host, self._config.port)
            parent = disk_directory() if self._is_durable else memory_directory()
            self._directory = TemporaryDirectory(parent)
            self._pid = os.getpid()
            self._thread = LoopThread("amqp-broker")
            self._thread.start()
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        """Give back what `_acquire` got, also if Ctrl-C interrupts it; again, it does nothing."""
        thread, self._thread = self._thread, None
        directory, self._directory = self._directory, None
        reserved, self._reserved = self._reserved, None
        try:
            if thread is not None:
                thread.close()
        finally:
            try:
                if directory is not None:
                    directory.remove()
            finally:
                if reserved is not None:
                    reserved.release()

    async def _end(self) -> None:
        if self._running is not None:
            await self._stop(self._running)

    async def _stop(self, running: RunningServer) -> None:
        self._running = None
        await running.stop()

    async def _crash(self, running: RunningServer) -> None:
        self._running = None
        await kill(running, self._points.files)

    def _server(self) -> RunningServer:
        if self._running is None or not self._is_ours():
            raise self._not_running()
        return self._running

    async def _create_vhost(self, name: str, server: Server) -> None:
        await server.vhost_changes.create(name)
        server.broker.vhosts[name].publish_watch = self.record_of(name).note

    def _is_ours(self) -> bool:
        """Whether this is the process that started the broker, not a fork of it."""
        return self._pid == os.getpid()

    def _not_running(self) -> BrokerStateError:
        if self._is_closed:
            return BrokerStateError("the broker is closed: use it inside its `with` block")
        if self._running is not None:
            return BrokerStateError(
                "the broker runs in the parent of this process: connect to it, but stop it there"
            )
        if self._thread is not None:
            return BrokerStateError("the broker is stopped: call start()")
        return BrokerStateError(
            "the broker has not started: use it inside `with Broker() as broker:`, or call start()"
        )


def _guest_settings() -> dict[str, Any]:
    """Return the settings of a broker that only the tests use."""
    return {
        "port": 0,
        "disk_free_limit_bytes": 0,
        "audit_files": 0,
        # Loopback only, by its address: the warning about proxies is for operators.
        "guest_from_anywhere": True,
        "heartbeat_seconds": 0,
        "limits": Limits(closing_seconds_max=CLOSING_SECONDS_MAX),
    }
