"""A queue with a full ring whose log cannot be written: later messages wait for a slot."""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pamqp.commands import Basic, Confirm, Exchange, Tx
from pamqp.commands import Queue as QueueMethods

from amqp_server.broker.queue import Queue
from amqp_server.control.client import ControlError, ask
from amqp_server.control.import_client import ImportClient
from amqp_server.control.queue_client import QueueClient
from amqp_server.protocol.properties import Properties
from appendlog import encode_message
from appendlog.files.filesystem import FileSystem
from appendlog.layout.message import PERSISTENT as PERSISTENT_FLAG
from tests.amqp_client import PERSISTENT, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

QUEUE = "held"
RING: dict[str, Any] = {"ring_size": 1024, "ring_bytes": 64 * 1024}
COUNT = 1200
"""Messages that do not fit into the ring; all of them arrive with one read of a socket or two."""


class HeldLogs(FileSystem):
    """A disk that writes nothing into the log of the queue `QUEUE` while it is held.

    Attributes:
        is_free: Cleared while it is held.
        is_full: Whether writes into that log fail when the test releases it.
    """

    def __init__(self) -> None:
        self.is_full = False
        self.is_free = threading.Event()
        self.is_free.set()
        self._held: set[int] = set()

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        """Take note of the files of the queue."""
        descriptor = super().open(path, flags, mode)
        self._held.discard(descriptor)
        # A transient queue's log lies under `spill`.
        if f"/%2f/{QUEUE}/" in str(path) and path.suffix == ".log":
            self._held.add(descriptor)
        return descriptor

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write when it may."""
        if descriptor in self._held:
            assert self.is_free.wait(HANG_SECONDS)
            if self.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwritev(descriptor, buffers, position, sync)


def bodies(count: int) -> list[bytes]:
    """Return the bodies of numbered messages, all of one length."""
    return [b"%06d" % number for number in range(count)]


class HeldQueue:
    """A server, one queue of it whose log can be held, who fills it and who looks at it.

    Attributes:
        publisher: Fills the queue. It is not read while the queue has no room.
        watcher: Another connection.
    """

    def __init__(self, server: ThreadedServer, disk: HeldLogs) -> None:
        self.server = server
        self.disk = disk
        self.path = server.server.config.storage_path
        self.publisher = connect(server.address)
        self.publisher.open_channel()
        self.watcher = connect(server.address)
        self.watcher.open_channel()
        self._threads: list[threading.Thread] = []

    def close(self) -> None:
        """Free the disk and remove the queue."""
        self.disk.is_free.set()
        for thread in self._threads:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()
        self.publisher.socket.close()
        self.watcher.socket.close()
        with connect(self.server.address) as client:
            client.open_channel()
            for name in (QUEUE, "source", "letters"):
                client.call(QueueMethods.Delete(queue=name), QueueMethods.DeleteOk)
            client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)

    def declare(self, *, durable: bool = True, **arguments: Any) -> None:  # noqa: ANN401
        """Declare the queue; an argument `x_y_z` is called `x-y-z`."""
        self.watcher.declare(
            QUEUE,
            durable=durable,
            arguments={name.replace("_", "-"): value for name, value in arguments.items()},
        )

    @property
    def queue(self) -> Queue:
        """The queue inside the server."""
        return self.server.server.broker.vhosts["/"].queues[QUEUE]

    def hold(self) -> None:
        """Let nothing be written to the queue's log."""
        self.disk.is_free.clear()

    def let_go(self) -> None:
        """Let it be written."""
        self.disk.is_free.set()

    def accepted(self) -> int:
        """Return how many messages the queue has taken, when some of them wait for a slot."""
        queue, turn = self.queue, self.server.server.broker.turn
        # What was read before takes its turns, too.
        self.server.wait_until(lambda: queue.store.is_stalled and turn.is_idle)
        end, slots_end = self.server.call(lambda: (queue.store.end_offset, queue.store.cursor))
        assert slots_end < end
        return end

    def stats(self, queue: str = QUEUE) -> Any:  # noqa: ANN401
        """Return what the command `queues.stats` says of a queue."""
        answer = ask(self.path, "queues.stats", vhost="/", queue=queue, after="", limit=1)
        return answer["queues"][0]

    # How messages come in; each is called when the queue is declared and the disk is free

    def commit(self, count: int = COUNT, properties: Basic.Properties = PERSISTENT) -> None:
        """Commit messages in one transaction; return at its commit-ok."""
        self.publisher.call(Tx.Select(), Tx.SelectOk)
        self.hold()
        for body in bodies(count):
            self.publisher.publish(body, QUEUE, properties=properties)
        self.publisher.call(Tx.Commit(), Tx.CommitOk)

    def publish(self, count: int = COUNT, properties: Basic.Properties = PERSISTENT) -> None:
        """Publish messages without confirms."""
        self.hold()
        for body in bodies(count):
            self.publisher.publish(body, QUEUE, properties=properties)

    def publish_with_confirms(self, count: int = COUNT) -> None:
        """Publish messages with confirms, whose confirms are not read yet."""
        self.publisher.call(Confirm.Select(), Confirm.SelectOk)
        self.publish(count)

    def reject(self) -> None:
        """Let messages become dead letters: they go from another queue into this one."""
        arguments: Any = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": QUEUE}
        self.watcher.declare("source", arguments=arguments)
        self._fill_source()
        self.publisher.consume("source")
        for _ in range(COUNT):
            last = self.publisher.expect_delivery()
        self.hold()
        self.publisher.send(Basic.Nack(last.tag, multiple=True, requeue=False))

    def delay(self) -> None:
        """Let messages be released by a delayed exchange."""
        arguments: Any = {"x-delayed-type": "fanout"}
        exchange = Exchange.Declare(
            0, "x", "x-delayed-message", False, True, False, False, False, arguments
        )
        self.publisher.call(exchange, Exchange.DeclareOk)
        bind = QueueMethods.Bind(queue=QUEUE, exchange="x", routing_key="")
        self.publisher.call(bind, QueueMethods.BindOk)
        self.hold()
        properties = Basic.Properties(headers={"x-delay": 1}, delivery_mode=2)
        for body in bodies(COUNT):
            self.publisher.publish(body, "", "x", properties=properties)

    def replay(self) -> None:
        """Replay messages out of another queue into this one."""
        self.watcher.declare("source", arguments={"x-retain-for": 3_600_000})
        self._fill_source()
        self.hold()
        client = QueueClient(self.path)
        self._beside(lambda: client.replay("source", start="first", to=QUEUE, includes_all=True))

    def import_(self) -> None:
        """Import messages."""
        header = Properties(delivery_mode=2).encode()
        messages = [
            encode_message(PERSISTENT_FLAG, b"", QUEUE.encode(), header, body)
            for body in bodies(COUNT)
        ]
        work = ImportClient(self.path).begin(QUEUE, source="elsewhere")
        self.hold()

        def run() -> None:
            with work:
                work.append(messages, 0, COUNT)

        self._beside(run)

    def _fill_source(self) -> None:
        for body in bodies(COUNT):
            self.watcher.publish(body, "source")
        source = self.server.server.broker.vhosts["/"].queues["source"]
        self.server.wait_until(lambda: source.store.recovery_point == COUNT)

    def _beside(self, run: Callable[[], object]) -> None:
        """Run what waits for the queue; a test may delete the queue during that time."""

        def until_refused() -> None:
            with suppress(ControlError):
                run()

        thread = threading.Thread(target=until_refused, daemon=True)
        self._threads.append(thread)
        thread.start()
