"""What the clients of a stream and of its groups do while the disk fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pamqp import body, header
from pamqp.commands import Basic, Queue

from amqp_server.base.errors import StartupError
from offsets.errors import OffsetsError
from tests.faults.checker import Warnings, check_nothing_is_missing
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.faults.history import Span
from tests.faults.inline_server import InlineClient, InlineServer
from tests.faults.stream_history import Acked, Place, Records, StreamHistory

STREAM = "stream"
DECLARE: Any = Queue.Declare(
    queue=STREAM,
    durable=True,
    arguments={"x-queue-type": "stream", "x-max-length-bytes": 9000},
)
CONFIRMS, READING = 2, 3


class Delivery(NamedTuple):
    """A message that a consumer was given."""

    tag: int
    offset: int
    body: bytes


def consume(client: InlineClient, server: InlineServer, group: str = "") -> list[Delivery]:
    """Begin to consume from the first message, or where a group is; return all that comes."""
    client.received.clear()
    client.open_channel(READING)
    client.call(Basic.Qos(prefetch_count=1000), READING)
    arguments: dict[str, Any] = {"x-stream-offset": "first"}
    if group:
        arguments["x-consumer-group"] = group
    client.send(Basic.Consume(queue=STREAM, arguments=arguments), channel=READING)
    server.settle()
    frames = [value for channel, value in client.received if channel == READING]
    client.received.clear()
    heads = [value for value in frames if isinstance(value, header.ContentHeader)]
    bodies = [value.value for value in frames if isinstance(value, body.ContentBody)]
    tags = [value.delivery_tag or 0 for value in frames if isinstance(value, Basic.Deliver)]
    taken = [
        Delivery(tag, _offset(head), content)
        for tag, head, content in zip(tags, heads, bodies, strict=True)
    ]
    assert [each.offset for each in taken] == sorted({each.offset for each in taken})
    return taken


def _offset(head: header.ContentHeader) -> int:
    offset = (head.properties.headers or {})["x-stream-offset"]
    assert isinstance(offset, int)
    return offset


@dataclass
class StreamScenario:
    """The clients of one stream, and their history.

    Args:
        storage_path: Data directory.
        filesystem: Of the server; its operations are the clock.
        seed: Of the server's loop.
    """

    storage_path: Path
    filesystem: FaultyFileSystem
    seed: int = 0
    history: StreamHistory = field(default_factory=StreamHistory)
    server: InlineServer = field(init=False)
    client: InlineClient = field(init=False)
    is_declared: bool = False
    _number: int = 0

    def now(self) -> int:
        """Return the number of operations so far."""
        return len(self.filesystem.operations)

    def start(self) -> bool:
        """Start the server and declare the stream; return False if it cannot start."""
        self.server = InlineServer(self.storage_path, self.filesystem, self.seed)
        try:
            self.server.__enter__()
        except StartupError:
            return False
        self._connect()
        self.is_declared = isinstance(self.client.call(DECLARE), Queue.DeclareOk)
        self._tidy()
        return True

    def stop(self) -> bool:
        """Stop the server; return whether it was a clean stop."""
        begun = self.now()
        is_clean = self.server.stop()
        if is_clean:
            self.history.checkpointed(begun, self.now())
        return is_clean

    def publish(self, count: int) -> None:
        """Publish, and let the server work."""
        sent: dict[int, Span] = {}
        for _ in range(count):
            self._number += 1
            content = (b"%d " % self._number).ljust(300, b".")
            span = self.history.published[content] = Span(begun=self.now())
            sent[self.client.publish(content, STREAM, channel=CONFIRMS)] = span
            self.server.loop.run_some_turns()
        self.server.settle()
        for tag, span in sent.items():
            # What is published to no queue is confirmed too.
            if self.is_declared and tag in self.client.confirmed_at:
                span.sure = self.client.confirmed_at[tag]
        self._tidy()

    def look(self) -> None:
        """See all that a consumer of the whole stream is given."""
        if self._queue() is not None:
            client = self.server.connect()
            for each in consume(client, self.server):
                self.history.seen[each.offset] = (each.body, self.now())
            self._hang_up(client)

    def work(self, group: str, *places: int, stay: bool = False) -> None:
        """Let a member of a group take all there is, ack some of it, and perhaps be gone.

        Args:
            group: Its name.
            places: Which of the deliveries it acknowledges, in this order.
            stay: Whether it stays, with what it has not acknowledged.
        """
        if self._queue() is None:
            return
        client = self.server.connect()
        taken = consume(client, self.server, group)
        acked = [taken[place] for place in places if place < len(taken)]
        for each in acked:
            self.history.place(group).acked[each.offset] = Acked(self.now())
        client.send(*(Basic.Ack(each.tag) for each in acked), channel=READING)
        self.server.settle()
        if not stay:
            self._hang_up(client)

    def seek(self, group: str, offset: int) -> None:
        """Move a group by hand; a round of checkpoints has to follow."""
        queue = self._queue()
        if queue is not None and group in queue.groups:
            begun = self.now()
            if not queue.settlement.ack_floor <= offset <= queue.visible_end:
                return
            queue.groups.seek(queue, group, offset, force=True)
            self.history.groups.setdefault(group, []).append(Place(offset, begun))

    def forget(self, group: str) -> None:
        """Delete a group; a round of checkpoints has to follow."""
        queue = self._queue()
        if queue is not None and group in queue.groups:
            begun = self.now()
            queue.groups.delete(group, force=True)
            self.history.groups.setdefault(group, []).append(Place(0, begun))

    def checkpoint(self) -> None:
        """Let a round of checkpoints be written, which may shorten the stream."""
        begun = self.now()
        try:
            self.server.checkpoint()
        except OffsetsError:
            return
        finally:
            queue = self._queue()
            if queue is not None:
                self.history.starts.append((begun, queue.settlement.ack_floor))
        self.history.checkpointed(begun, self.now())

    def _queue(self) -> Any:  # noqa: ANN401 - a queue of the broker, or None
        return self.server.server.broker.vhosts["/"].queues.get(STREAM)

    def _connect(self) -> None:
        self.client = self.server.connect()
        self.client.clock = self.now
        self.client.open_channel(CONFIRMS, confirms=True)

    def _tidy(self) -> None:
        if self.client.closed is not None:
            self._hang_up(self.client)
            self._connect()
        self.client.received.clear()

    def _hang_up(self, client: InlineClient) -> None:
        client.hang_up()
        self.server.settle()


def play(scenario: StreamScenario) -> bool:
    """Play the whole scenario; return whether the server stopped cleanly at its end."""
    if not scenario.start():
        return False
    scenario.publish(12)
    scenario.look()
    scenario.work("orderly", 0, 1, 2)
    scenario.work("wild", 7, 2, 0, 5)
    scenario.checkpoint()
    scenario.work("wild", 1, 3, stay=True)
    scenario.publish(6)
    scenario.checkpoint()
    scenario.work("brief", 0, 1, 2, 3)
    scenario.checkpoint()
    scenario.look()
    scenario.forget("brief")
    scenario.checkpoint()
    scenario.work("orderly", 0, 1)
    scenario.seek("orderly", 1)
    scenario.checkpoint()
    scenario.work("orderly", 0, 3)
    scenario.publish(8)
    if not (scenario.stop() and scenario.start()):
        return False
    scenario.work("wild", 0, 1, 2, 3, 4)
    scenario.publish(14)
    scenario.look()
    for _ in range(3):
        scenario.checkpoint()
    scenario.work("brief", 2)
    scenario.publish(2)
    scenario.checkpoint()
    scenario.look()
    return scenario.stop()


def check(storage_path: Path, history: StreamHistory, at: int) -> None:
    """Start on what a crash in operation `at` left, and check all that was promised."""
    with Warnings() as warnings, InlineServer(storage_path) as server:
        check_nothing_is_missing(warnings)
        queue = server.server.broker.vhosts["/"].queues.get(STREAM)
        if queue is None:
            sure = [span for span in history.published.values() if span.sure <= at]
            assert not sure, "the stream is lost"
            return
        there = _records(server)
        history.check(there, at)
        for group in ("orderly", "wild", "brief"):
            got = _records(server, group)
            # Retention runs here too: messages that it has removed are delivered to no consumer.
            start = queue.settlement.ack_floor
            kept = {offset: body for offset, body in there.items() if offset >= start}
            history.check_group(group, got, kept, at)


def _records(server: InlineServer, group: str = "") -> Records:
    client = server.connect()
    taken = consume(client, server, group)
    client.hang_up()
    server.settle()
    return {each.offset: each.body for each in taken}
