"""Faults on demand: every fault is a method of `Faults`.

`FaultHost` is the broker, as its faults use it: they act on its event loop, from any thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager, suppress
from random import randrange
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from amqp_server.testing.errors import (
    BrokerStateError,
    FaultError,
    NoSuchConnectionError,
    NoSuchQueueError,
)
from amqp_server.testing.faults.armed_fault import ArmedFault, cut_inside, reset
from amqp_server.testing.faults.chaos import MESSAGES_MEAN, Chaos
from amqp_server.testing.faults.confirms import HeldConfirms, NackedConfirms
from amqp_server.testing.faults.faulty_connection import FaultyConnection
from amqp_server.testing.faults.queue_faults import hold_first, pause, redeliver, refuse_publishes
from amqp_server.testing.faults.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Turn
    from amqp_server.server import Server
    from amqp_server.testing.faults.fault_points import FaultPoints
    from amqp_server.testing.faults.frames import Frame

    ResultT = TypeVar("ResultT")


SEEDS: Final = 1_000_000
"""Number of seeds from which a new one is chosen."""
SHOWN_NAMES: Final = 20
"""Names that an error shows."""
RECOVERY_SECONDS_MAX: Final = 10.0
"""Seconds in which queues must work again after a full disk."""
RECOVERY_LOOK_SECONDS: Final = 0.002
"""Seconds between two attempts."""


class FaultHost(Protocol):
    """A broker of a test."""

    def submit(self, make: Callable[[Server], Coroutine[Any, Any, ResultT]]) -> Future[ResultT]:
        """Call a coroutine function with the server that runs, on the broker's loop.

        Raises:
            BrokerStateError: The broker does not run.
        """


class Faults:
    """Lets things go wrong, on demand.

    Each method returns when it has happened. Context managers last until the end of their block.
    Any thread may call them, but not the event loop of the broker.

    Args:
        host: Broker.
        points: Where faults get into it.
        scope: Connections and queues that are meant.
    """

    def __init__(self, host: FaultHost, points: FaultPoints, scope: Scope | None = None) -> None:
        self._host = host
        self._points = points
        self._scope = scope or Scope()

    def only(self, vhost: str) -> Faults:
        """Return the faults of one virtual host."""
        return Faults(self._host, self._points, Scope(vhost))

    # Connections

    def close_connections(
        self, name: str = "", *, queue: str = "", reason: str = "closed by a fault of the test"
    ) -> int:
        """Close connections as an operator does: clients get 320 CONNECTION_FORCED.

        Args:
            name: Only connections that have given themselves this name.
            queue: Only connections that consume from this queue.
            reason: Text that clients get.

        Returns:
            How many they are.

        Raises:
            NoSuchConnectionError: No open connection matches.
            NoSuchQueueError: There is no such queue.
        """
        return self._each_connection(
            name, queue, lambda each: deque(each.force_close(reason), maxlen=0)
        )

    def reset_connections(self, name: str = "", *, queue: str = "") -> int:
        """Reset TCP connections: clients get an error of the network, and no reason.

        Args:
            name: Only connections that have given themselves this name.
            queue: Only connections that consume from this queue.

        Returns:
            How many they are.

        Raises:
            NoSuchConnectionError: No open connection matches.
            NoSuchQueueError: There is no such queue.
        """
        return self._each_connection(name, queue, lambda each: each.reset())

    def cut_next_delivery(self, queue: str) -> ArmedFault:
        """End the connection of a consumer in the middle of the frame of its next delivery.

        Raises:
            NoSuchQueueError: There is no such queue.
        """

        def arm(server: Server) -> ArmedFault:
            self._queues(server, queue)
            return ArmedFault(
                lambda connection, frame: (
                    frame.is_delivery
                    and self._scope.covers(connection.vhost)
                    and (found := connection.queue_of(frame)) is not None
                    and found.name == queue
                ),
                cut_inside,
                self._points.filters,
            )

        return self._call(arm)

    def cut_next_confirm(self) -> ArmedFault:
        """End the connection of a publisher in the middle of the frame of its next confirm."""
        return self._at_next_confirm(cut_inside)

    def lose_next_confirm(self) -> ArmedFault:
        """Store the next publish, but reset its connection instead of confirming it."""
        return self._at_next_confirm(reset)

    # Publishers

    @contextmanager
    def refuse_logins(self) -> Iterator[None]:
        """Answer logins with 403 ACCESS_REFUSED; open connections stay.

        A client names its virtual host after the login. So the faults of one virtual host refuse
        connection.open.
        """
        refusals, scope = self._points.refusals, self._scope
        self._call(lambda _: refusals.append(scope))
        try:
            yield
        finally:
            refusals.remove(scope)

    @contextmanager
    def block_publishers(self, resource: Literal["memory", "disk"] = "memory") -> Iterator[None]:
        """Raise an alarm of the whole broker: clients that publish get connection.blocked.

        Args:
            resource: What is low.

        Raises:
            ValueError: There is no alarm for it.
        """
        if resource not in ("memory", "disk"):
            raise ValueError(f"resource is 'memory' or 'disk', not {resource!r}")
        low = self._points.sensor.low
        low.append(resource)
        try:
            self._host.submit(_check_alarms).result()
            yield
        finally:
            low.remove(resource)
            self._run_if_running(_check_alarms)

    @contextmanager
    def refuse_publishes(self, queue: str) -> Iterator[None]:
        """Refuse what is published to a queue: basic.nack, and the message is not there.

        As in a full queue with `x-overflow=reject-publish`. It ends with a restart.

        Raises:
            NoSuchQueueError: There is no such queue.
        """
        with self._in_queue(queue, refuse_publishes):
            yield

    @contextmanager
    def nack_confirms(self) -> Iterator[None]:
        """Store what is published, but answer with basic.nack."""
        filters, nacked = self._points.filters, NackedConfirms(self._scope)
        self._call(lambda _: filters.append(nacked))
        try:
            yield
        finally:
            filters.remove(nacked)

    @contextmanager
    def hold_confirms(self) -> Iterator[None]:
        """Store what is published, and confirm it at the end of the block."""
        filters, held = self._points.filters, HeldConfirms(self._scope)
        self._call(lambda _: filters.append(held))

        async def release(_server: Server) -> None:
            # Synchronously: a later confirm must not be sent before these.
            filters.remove(held)
            held.release()

        try:
            yield
        finally:
            if not self._run_if_running(release):
                filters.remove(held)

    # Consumers

    def redeliver(self, queue: str) -> int:
        """Deliver again, flagged, what consumers of a queue have not acknowledged.

        As if their connections were lost, but they stay open: what the consumers answer to the
        first delivery has no effect. Until then it counts for their prefetch limit.

        Returns:
            How many messages that are.

        Raises:
            NoSuchQueueError: There is no such queue.
        """
        return self._call(
            lambda server: sum(
                redeliver(each, self._connections(server)) for each in self._queues(server, queue)
            )
        )

    @contextmanager
    def hold_first(self, queue: str, count: int = 1) -> Iterator[None]:
        """Deliver out of order: hold the first ready messages as if another consumer had them.

        At the end of the block they are requeued in front, flagged as redelivered. A restart
        requeues them too.

        Args:
            queue: Name of the queue.
            count: How many messages.

        Raises:
            NoSuchQueueError: There is no such queue.
            FaultError: It has fewer ready messages, or is a stream.
        """
        with self._in_queue(queue, lambda each, _turn: hold_first(each, count)):
            yield

    @contextmanager
    def pause_deliveries(self, queue: str) -> Iterator[None]:
        """Deliver nothing to the consumers of a queue, which grows; basic.get works.

        It ends with a restart.

        Raises:
            NoSuchQueueError: There is no such queue.
            FaultError: It is a stream.
        """
        with self._in_queue(queue, pause):
            yield

    # The disk

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Let every write of the whole broker fail with ENOSPC.

        At the end of the block all queues work again.

        Raises:
            FaultError: A queue does not work again.
        """
        space = self._points.space
        self._call(lambda _: space.fill())
        try:
            yield
        finally:
            space.free()
            self._run_if_running(_use_disk)

    # All of them

    @contextmanager
    def chaos(
        self, seed: int | None = None, *, messages_mean: int = MESSAGES_MEAN
    ) -> Iterator[Chaos]:
        """Let connections end, and confirms become nacks, at random; print the seed.

        Each fault comes at a certain delivery or confirm of a certain connection, so that the same
        seed with the same client gives the same faults.

        Args:
            seed: Seed to repeat; None for a new one.
            messages_mean: Deliveries or confirms of one connection between two faults, on average.
        """
        seed = randrange(SEEDS) if seed is None else seed  # noqa: S311 - no secret
        filters, chaos = self._points.filters, Chaos(seed, self._scope, messages_mean)

        def begin(server: Server) -> None:
            chaos.begin(self._connections(server))
            filters.append(chaos)

        self._call(begin)
        print(f"chaos seed={seed}")  # noqa: T201 - pytest shows it if the test fails
        try:
            yield chaos
        finally:
            filters.remove(chaos)

    # Steps

    def _call(self, step: Callable[[Server], ResultT]) -> ResultT:
        """Call a function with the server that runs, on its event loop."""

        async def called(server: Server) -> ResultT:
            return step(server)

        return self._host.submit(called).result()

    def _run_if_running(self, step: Callable[[Server], Coroutine[Any, Any, object]]) -> bool:
        """Run a coroutine with the server that runs; return False if there is none."""
        try:
            running = self._host.submit(step)
        except BrokerStateError:
            return False
        running.result()
        return True

    def _connections(self, server: Server) -> list[FaultyConnection]:
        """Return the open connections that are meant, the oldest first."""
        return [
            each
            for each in server.connections
            if isinstance(each, FaultyConnection)
            and each.is_open
            and self._scope.covers(each.vhost)
        ]

    def _queues(self, server: Server, name: str) -> list[Queue]:
        """Return the queues with a name: one in each virtual host that has it."""
        vhosts = server.broker.vhosts.values()
        found = [
            vhost.queues[name]
            for vhost in vhosts
            if self._scope.covers(vhost.name) and name in vhost.queues
        ]
        if not found:
            names = [
                each for vhost in vhosts if self._scope.covers(vhost.name) for each in vhost.queues
            ]
            raise NoSuchQueueError(
                f"no queue '{name}'{self._scope.text}: there are {_listed(names)}"
            )
        return found

    def _each_connection(
        self, name: str, queue: str, strike: Callable[[FaultyConnection], object]
    ) -> int:
        def strike_all(server: Server) -> int:
            connections = self._connections(server)
            found = [each for each in connections if name in ("", each.client_name, each.name)]
            if queue:
                queues = self._queues(server, queue)
                found = [each for each in found if any(one in queues for one in each.consumed())]
            if not found:
                consuming = f" that consumes from queue '{queue}'" if queue else ""
                named = f" '{name}'" if name else ""
                names = [each.client_name or each.name for each in connections]
                raise NoSuchConnectionError(
                    f"no connection{named}{consuming}{self._scope.text}: there are {_listed(names)}"
                )
            for each in found:
                strike(each)
            return len(found)

        return self._call(strike_all)

    @contextmanager
    def _in_queue(
        self, name: str, begin: Callable[[Queue, Turn], Callable[[], None]]
    ) -> Iterator[None]:
        """Change the queues with a name for the length of the block."""
        begun: list[Server] = []
        ends: list[Callable[[], None]] = []

        def begin_all(server: Server) -> None:
            begun.append(server)
            queues = self._queues(server, name)
            # Those that have begun end, also if another one cannot.
            ends.extend(begin(queue, server.broker.turn) for queue in queues)

        async def end_all(running: Server) -> None:
            # Another server has other queues.
            if running in begun:
                for end in ends:
                    end()

        try:
            self._call(begin_all)
            yield
        finally:
            self._run_if_running(end_all)

    def _at_next_confirm(self, strike: Callable[[FaultyConnection, Frame], None]) -> ArmedFault:
        covers, filters = self._scope.covers, self._points.filters
        return self._call(
            lambda _: ArmedFault(
                lambda connection, frame: frame.is_confirm and covers(connection.vhost),
                strike,
                filters,
            )
        )


async def _check_alarms(server: Server) -> None:
    """Measure, and notify all connections at once."""
    await server.alarms.look()
    for connection in server.connections:
        connection.on_alarms_changed()


async def _use_disk(server: Server) -> None:
    """Let the queues work again whose logs have failed.

    Raises:
        FaultError: Some do not.
    """
    queues = list(server.broker.queues())
    with suppress(TimeoutError):
        async with asyncio.timeout(RECOVERY_SECONDS_MAX):
            for queue in queues:
                # What is being written now may have met the full disk.
                if queue.is_journaled:
                    await queue.store.make_durable()
            while any(queue.is_failed or queue.store.is_failed for queue in queues):
                # A store whose earlier attempts failed is retried in a later check only.
                server.broker.storage.failed_stores.retry()
                await asyncio.sleep(RECOVERY_LOOK_SECONDS)
            return
    failed = [queue.name for queue in queues if queue.is_failed]
    raise FaultError(f"the disk has room again, but queues do not work: {_listed(failed)}")


def _listed(names: list[str]) -> str:
    """Return names for an error."""
    if not names:
        return "none"
    shown = ", ".join(f"'{name}'" for name in sorted(names)[:SHOWN_NAMES])
    return f"{shown} and more" if len(names) > SHOWN_NAMES else shown
