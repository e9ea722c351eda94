"""A commit is carried out in steps; between any two of them other clients see all of it or nothing.

Every slice is over after one step here, and a test stops a commit before each step in turn.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from amqp_server.broker.transactions.commit import Commit
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.cutting import connection_of, cut_everywhere, read
from tests.limits import HANG_SECONDS
from tests.stopwatch import Stopwatch
from tests.threaded_server import ThreadedServer

QUEUES = ["q0", "q1", "q2"]
BODIES = [b"one", b"two"]
TURNS = 30
"""Turns in which all clients have had their slices, whatever their lines had used before."""


@pytest.fixture(autouse=True)
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_everywhere(monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path / "data", stopwatch=Stopwatch()) as server:
        yield server


class Pause:
    """Stops the next commit before one of its steps.

    Attributes:
        is_reached: Whether the commit had so many steps.
    """

    def __init__(self, server: ThreadedServer) -> None:
        self.is_reached = False
        self._server = server
        self._before = -1
        self._stopped = threading.Event()
        self._carry_out = Commit.carry_out

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pause, turn = self, self._server.server.broker.turn

        def carry_out(commit: Commit) -> Iterator[None]:
            for number, _ in enumerate(pause._carry_out(commit)):
                if number == pause._before:
                    pause.is_reached = True
                    pause._stopped.set()
                    while pause._before >= 0 and turn.cuts_jobs:
                        yield
                yield
            pause._stopped.set()

        monkeypatch.setattr(Commit, "carry_out", carry_out)

    def before(self, step: int) -> None:
        """Stop the next commit before a step."""
        self._before, self.is_reached = step, False
        self._stopped.clear()

    def wait(self) -> None:
        """Return when the commit has stopped, or ended."""
        assert self._stopped.wait(HANG_SECONDS)

    def let_others_act(self) -> None:
        """Return when everything that the server has read was handled, or waits for the commit."""
        turn = self._server.server.broker.turn
        until = turn.number + TURNS
        self._server.wait_until(lambda: turn.number >= until or not self.is_reached)

    def end(self) -> None:
        """Let the commit go on."""
        self._before = -1


@pytest.fixture
def pause(server: ThreadedServer, monkeypatch: pytest.MonkeyPatch) -> Pause:
    pause = Pause(server)
    pause.install(monkeypatch)
    return pause


@pytest.fixture
def clients(server: ThreadedServer) -> Iterator[tuple[AmqpClient, AmqpClient]]:
    """Return one that commits, and one that does something else."""
    with connect(server.address) as committer, connect(server.address) as other:
        committer.open_channel()
        committer.call(Tx.Select(), Tx.SelectOk)
        other.open_channel(confirms=True)
        other.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
        yield committer, other


def declare(client: AmqpClient, *, durable: bool = True) -> None:
    for name in QUEUES:
        client.declare(name, durable=durable)
        client.call(Queue.Bind(queue=name, exchange="all"), Queue.BindOk)


def begin_commit(client: AmqpClient) -> None:
    for body in BODIES:
        # Each with a frame of its own, so that each is a publish of its own.
        client.publish(body, body.decode(), "all", properties=PERSISTENT)
    client.send(Tx.Commit())


def places(pause: Pause, commit: Callable[[], None]) -> Iterator[int]:
    """Begin one commit after the other, each stopped one step later; the last one has no such step.

    The caller ends the commit.
    """
    for step in range(1000):
        pause.before(step)
        commit()
        pause.wait()
        yield step
        if not pause.is_reached:
            assert step > len(QUEUES) * len(BODIES)
            return
    pytest.fail("the commit does not end")


def confirmed(client: AmqpClient, tag: int) -> None:
    """Return when all publishes up to this tag are confirmed."""
    while client.expect(Basic.Ack).delivery_tag != tag:
        pass


def drained(client: AmqpClient, queue: str) -> list[bytes]:
    bodies = []
    while (message := client.get(queue)) is not None:
        bodies.append(message.body)
    return bodies


@pytest.mark.parametrize("durable", [True, False])
def test_another_client_counts_gets_and_consumes_all_or_nothing(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    pause: Pause,
    durable: bool,
) -> None:
    committer, other = clients
    declare(other, durable=durable)
    passives = b"".join(frame.marshal(Queue.Declare(queue=q, passive=True), 1) for q in QUEUES)
    get = frame.marshal(Basic.Get(queue=QUEUES[-1], no_ack=True), 1)
    for _ in places(pause, lambda: begin_commit(committer)):
        server.call(lambda: read(server, other, passives + get))
        pause.let_others_act()
        pause.end()
        counts = {other.expect(Queue.DeclareOk).message_count for _ in QUEUES}
        assert counts == {len(BODIES)}
        assert other.expect(Basic.GetOk).message_count == len(BODIES) - 1
        for _part in ("header", "body"):
            other.receive()
        committer.expect(Tx.CommitOk)
        for name in QUEUES:
            other.call(Queue.Purge(queue=name), Queue.PurgeOk)


def test_a_consumer_that_was_there_gets_nothing_before_the_end(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause
) -> None:
    """What it had got from one queue was not in another one yet."""
    committer, other = clients
    declare(other)
    other.consume(QUEUES[0])
    flow = frame.marshal(Channel.Flow(active=True), 1)
    for step in places(pause, lambda: begin_commit(committer)):
        pause.let_others_act()
        if pause.is_reached and server.call(
            lambda: len(server.server.broker.storage.queues_in_commit)
        ):
            server.call(lambda: read(server, other, flow))
            # No delivery came before the answer.
            assert isinstance(other.receive()[1], Channel.FlowOk), step
        pause.end()
        assert [other.expect_delivery().body for _ in BODIES] == BODIES
        committer.expect(Tx.CommitOk)


# Publishes of another client: exchange, routing key and body of each.
ONE_MESSAGE = [("", QUEUES[0], b"direct")]
FAN_OUT = [("all", "", b"fanned out")]
NEIGHBOURS = [("", QUEUES[0], b"first"), ("", QUEUES[0], b"second")]
ONE_FRAME_EACH = [("", name, b"for " + name.encode()) for name in QUEUES]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(
    "publishes", [ONE_MESSAGE, FAN_OUT, NEIGHBOURS, ONE_FRAME_EACH, ONE_FRAME_EACH + FAN_OUT]
)
@pytest.mark.parametrize("queues_at_once", [1, 64])
def test_a_publish_of_another_client_gets_a_place_before_or_after_the_whole(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    pause: Pause,
    monkeypatch: pytest.MonkeyPatch,
    durable: bool,
    publishes: list[tuple[str, str, bytes]],
    queues_at_once: int,
) -> None:
    monkeypatch.setattr("amqp_server.broker.publishing.publishing.STEP_QUEUES", queues_at_once)
    committer, other = clients
    declare(other, durable=durable)
    octets = b"".join(
        other.publish_octets(Basic.Publish(exchange=exchange, routing_key=key), body, PERSISTENT)
        for exchange, key, body in publishes
    )
    for step in places(pause, lambda: begin_commit(committer)):
        server.call(lambda: read(server, other, octets))
        pause.let_others_act()
        pause.end()
        committer.expect(Tx.CommitOk)
        confirmed(other, (step + 1) * len(publishes))
        for name in QUEUES:
            found = drained(other, name)
            at = found.index(BODIES[0])
            assert found[at : at + len(BODIES)] == BODIES, step
            own = [body for exchange, key, body in publishes if exchange or key == name]
            assert [body for body in found if body not in BODIES] == own, step


def test_deliveries_that_a_commit_makes_possible_come_after_commit_ok(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause
) -> None:
    committer, other = clients
    declare(other)
    other.declare("side", durable=True)
    for number in range(40):
        other.publish(b"%d" % number, "side")
        other.expect_confirmed()
    committer.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
    committer.consume("side", no_ack=False)

    def commit() -> None:
        committer.send(Basic.Ack(delivery_tag=committer.expect_delivery().tag))
        begin_commit(committer)

    for _ in places(pause, commit):
        pause.let_others_act()
        pause.end()
        committer.expect(Tx.CommitOk)


READERS: dict[str, dict[str, object]] = {
    "classic": {"x-browse": True},
    "stream": {"x-stream-offset": "first"},
}


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_of_the_log_sees_nothing_before_the_end(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause, kind: str
) -> None:
    committer, other = clients
    name = QUEUES[0]
    other.declare(name, durable=kind == "stream", arguments={"x-queue-type": kind})
    other.call(Queue.Bind(queue=name, exchange="all"), Queue.BindOk)
    other.call(Basic.Qos(prefetch_count=1000), Basic.QosOk)
    other.consume(name, no_ack=False, arguments=READERS[kind])
    flow = frame.marshal(Channel.Flow(active=True), 1)
    queue = server.server.broker.vhosts["/"].queues[name]
    reached = 0
    for step in range(12):
        pause.before(step)
        begin_commit(committer)
        pause.wait()
        if pause.is_reached and server.call(lambda: queue.is_in_commit):
            reached += 1
            if kind == "stream":
                # On the disk, so that only the commit hides it.
                server.run(queue.store.make_durable)
            pause.let_others_act()
            server.call(lambda: read(server, other, flow))
            assert isinstance(other.receive()[1], Channel.FlowOk), step
        pause.end()
        assert [other.expect_delivery().body for _ in BODIES] == BODIES
        committer.expect(Tx.CommitOk)
    assert reached > 2


def test_a_purge_takes_all_of_it_or_nothing(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause
) -> None:
    committer, other = clients
    declare(other)
    purge = frame.marshal(Queue.Purge(queue=QUEUES[0]), 1)
    for step in places(pause, lambda: begin_commit(committer)):
        server.call(lambda: read(server, other, purge))
        pause.let_others_act()
        pause.end()
        purged = other.expect(Queue.PurgeOk).message_count
        committer.expect(Tx.CommitOk)
        left = drained(other, QUEUES[0])
        assert (purged, left) in ((len(BODIES), []), (0, BODIES)), step


def test_a_deletion_sees_all_of_it_and_the_name_is_free_after_it(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause
) -> None:
    committer, other = clients
    name = QUEUES[-1]
    declare(other)
    again = [
        Queue.Delete(queue=name),
        Queue.Declare(queue=name, durable=True),
        Queue.Bind(queue=name, exchange="all"),
    ]
    octets = b"".join(frame.marshal(method, 1) for method in again)
    for step in places(pause, lambda: begin_commit(committer)):
        server.call(lambda: read(server, other, octets))
        pause.let_others_act()
        pause.end()
        assert other.expect(Queue.DeleteOk).message_count == len(BODIES), step
        assert other.expect(Queue.DeclareOk).message_count == 0
        other.expect(Queue.BindOk)
        committer.expect(Tx.CommitOk)
        assert drained(other, name) == []
        assert drained(other, QUEUES[0]) == BODIES


def test_a_commit_is_whole_though_its_client_is_lost(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause
) -> None:
    _, other = clients
    declare(other)
    for tag in range(1, 5):
        other.publish(b"to be acked", QUEUES[0])
        confirmed(other, tag)
    taken: list[AmqpClient] = []

    def commit() -> None:
        committer = connect(server.address)
        committer.__enter__()
        committer.open_channel()
        committer.call(Tx.Select(), Tx.SelectOk)
        committer.consume(QUEUES[0], no_ack=False)
        begin_commit(committer)
        taken.append(committer)

    for step in places(pause, commit):
        connection = connection_of(server, taken[-1])
        server.call(lambda c=connection: c.abandon("lost"))  # type: ignore[misc]
        pause.let_others_act()
        pause.end()
        taken[-1].socket.close()
        server.wait_until(lambda: len(list(server.connections)) == 2)
        found = [body for body in drained(other, QUEUES[0]) if body != b"to be acked"]
        assert found == BODIES, step
        for name in QUEUES[1:]:
            assert drained(other, name) == BODIES, step


def test_messages_that_a_commit_requeues_come_back_together(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], pause: Pause
) -> None:
    committer, other = clients
    other.declare("source", durable=True)
    bodies = [b"%d" % number for number in range(6)]

    def commit() -> None:
        for body in bodies:
            other.publish(body, "source")
            other.expect_confirmed()
        tags = []
        for _ in bodies:
            message = committer.get("source", no_ack=False)
            assert message is not None
            tags.append(message.tag)
        # Each in a run of its own.
        for tag in tags[::2]:
            committer.send(Basic.Nack(delivery_tag=tag, requeue=True))
        for tag in tags[1::2]:
            committer.send(Basic.Ack(delivery_tag=tag))
        committer.send(Tx.Commit())

    passive = frame.marshal(Queue.Declare(queue="source", passive=True), 1)
    for step in range(len(bodies)):
        pause.before(step)
        commit()
        pause.wait()
        assert pause.is_reached
        server.call(lambda: read(server, other, passive))
        pause.let_others_act()
        pause.end()
        assert other.expect(Queue.DeclareOk).message_count == 3
        committer.expect(Tx.CommitOk)
        assert drained(other, "source") == bodies[::2]


def test_a_virtual_host_may_be_deleted_at_any_step(
    server: ThreadedServer, pause: Pause, tmp_path: Path
) -> None:
    changes = server.server.vhost_changes
    for step in range(0, 40, 3):
        server.run(lambda: changes.create("v"))
        with connect(server.address, vhost="v") as committer:
            committer.open_channel()
            committer.call(
                Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk
            )
            declare(committer)
            committer.call(Tx.Select(), Tx.SelectOk)
            pause.before(step)
            begin_commit(committer)
            pause.wait()
            deleted = threading.Thread(target=lambda: server.run(lambda: changes.delete("v")))
            deleted.start()
            if pause.is_reached:
                server.wait_until(lambda: "v" not in server.server.broker.vhosts)
            pause.end()
            deleted.join(HANG_SECONDS)
            server.wait_until(lambda: not server.server.broker.turn.jobs)
            assert not server.call(lambda: server.server.broker.storage.queues_in_commit)
        assert server.call(lambda: server.server.broker.transaction_budget.held_bytes) == 0
    server.stop()
    with ThreadedServer(tmp_path / "data") as again:
        assert set(again.server.broker.vhosts) == {"/"}


def contents(path: Path) -> list[list[bytes]]:
    """Start a server on a data directory; return what is in each queue."""
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel()
        return [drained(client, name) for name in QUEUES]


@pytest.mark.parametrize("step", [0, 2, 5, 8, 11, 13])
def test_a_stop_at_any_step_keeps_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
        declare(client)
        client.call(Tx.Select(), Tx.SelectOk)
        pause = Pause(server)
        pause.install(monkeypatch)
        pause.before(step)
        begin_commit(client)
        pause.wait()
        # The stop need not wait until the client agrees to its end.
        client.socket.close()
        server.stop()
    monkeypatch.undo()
    assert contents(tmp_path) == [BODIES] * len(QUEUES)


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_crash_at_any_step_keeps_all_of_it(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    pause: Pause,
    tmp_path: Path,
    with_checkpoint: bool,
) -> None:
    """A round of checkpoints between two steps must not remove what the rest depends on."""
    committer, other = clients
    declare(other)
    for tag, name in enumerate(QUEUES, 1):
        other.publish(b"before", name)
        confirmed(other, tag)
    for step in range(0, 16, 5 if with_checkpoint else 3):
        pause.before(step)
        begin_commit(committer)
        pause.wait()
        if with_checkpoint:
            server.run(server.server.checkpointer.write_round)
            server.run(server.server.checkpointer.write_round)
        crashed = tmp_path / f"crashed-{step}"
        # What a process leaves that is killed now.
        with suppress(shutil.Error):
            server.call(lambda to=crashed: shutil.copytree(tmp_path / "data", to))  # type: ignore[misc]
        pause.end()
        committer.expect(Tx.CommitOk)
        found = contents(crashed)
        assert found == [[b"before", *BODIES]] * len(QUEUES), step
        for name in QUEUES:
            other.call(Queue.Purge(queue=name), Queue.PurgeOk)
            tag += 1
            other.publish(b"before", name)
            confirmed(other, tag)
