"""Deletions are cut into steps: what is deleted is gone at once, its bindings follow.

Every slice is over after one step here, and a step removes one binding, so that each deletion is
cut at every place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from amqp_server.base import time_slice
from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker import broker as broker_module
from amqp_server.broker import deletion as deletion_module
from amqp_server.broker import virtual_host
from amqp_server.broker.binding import BindingIdentity
from amqp_server.broker.inner_client import inner_channel
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.connections.handlers import replies
from amqp_server.connections.handlers.exchange import delete as delete_exchange
from amqp_server.protocol.large_delivery import Octets
from amqp_server.protocol.methods import ExchangeDelete, ExchangeDeleteOk
from amqp_server.protocol.tables import encode_table
from metadata.write_rounds import WriteRounds
from tests.amqp_client import AmqpClient, connect
from tests.cutting import connection_of, read
from tests.stopwatch import Stopwatch
from tests.threaded_server import ThreadedServer

MANY = 12
PLAIN = Basic.Properties()


def call(client: AmqpClient, method: Frame) -> None:
    """Send a method, and check that the next frame is its answer."""
    client.send(method)
    assert client.receive()[1].name == f"{method.name}Ok"


def octets(*methods: Frame) -> bytes:
    return b"".join(frame.marshal(method, 1) for method in methods)


def bind_many(client: AmqpClient, queue: str, exchange: str = "x") -> None:
    binds = [
        Queue.Bind(queue=queue, exchange=exchange, routing_key=f"k{number}")
        for number in range(MANY)
    ]
    client.send_raw(octets(*binds))
    for _ in binds:
        client.expect(Queue.BindOk)


def bind_exchanges(client: AmqpClient, destination: str) -> None:
    binds = [
        Exchange.Bind(destination=destination, source="x", routing_key=f"k{number}")
        for number in range(MANY)
    ]
    client.send_raw(octets(*binds))
    for _ in binds:
        client.expect(Exchange.BindOk)


def a_queue(**settings: Any) -> Callable[[AmqpClient], None]:  # noqa: ANN401 - as pamqp takes them
    def make(client: AmqpClient) -> None:
        call(client, Queue.Declare(queue="gone", **settings))
        bind_many(client, "gone")

    return make


def an_auto_delete_queue(client: AmqpClient) -> None:
    a_queue(durable=True, auto_delete=True)(client)
    call(client, Basic.Consume(queue="gone", consumer_tag="c"))


def a_source(client: AmqpClient) -> None:
    call(client, Exchange.Declare(exchange="gone", durable=True))
    bind_many(client, "kept", "gone")


def a_target(client: AmqpClient) -> None:
    call(client, Exchange.Declare(exchange="gone", exchange_type="fanout", durable=True))
    call(client, Queue.Bind(queue="kept", exchange="gone"))
    bind_exchanges(client, "gone")


def an_auto_delete_exchange(client: AmqpClient) -> None:
    method = Exchange.Declare(
        exchange="gone", exchange_type="fanout", durable=True, auto_delete=True
    )
    call(client, method)
    call(client, Queue.Bind(queue="kept", exchange="gone"))
    bind_exchanges(client, "gone")


def by(method: Frame, channel: int = 1) -> Callable[[ThreadedServer, AmqpClient], None]:
    def begin(server: ThreadedServer, client: AmqpClient) -> None:
        read_first(server, client, frame.marshal(method, channel))

    return begin


def by_expiry(server: ThreadedServer, _client: AmqpClient) -> None:
    timer = server.server.broker.vhosts["/"].queues["gone"].expiry_timer
    assert timer is not None
    timer._end = 0.0
    timer.run_turn()


@dataclass(frozen=True)
class Operation:
    """A deletion of the queue or exchange `gone`, or of its virtual host.

    Attributes:
        name: For pytest.
        make: Makes what is deleted.
        begin: Begins the deletion; called on the loop.
        is_exchange: Whether it is an exchange.
    """

    name: str
    make: Callable[[AmqpClient], None]
    begin: Callable[[ThreadedServer, AmqpClient], None]
    is_exchange: bool = False


DELETE = by(Queue.Delete(queue="gone"))
CLOSE = Connection.Close(200, "", 0, 0)
OPERATIONS = (
    Operation("durable queue", a_queue(durable=True), DELETE),
    Operation("transient queue", a_queue(), DELETE),
    Operation("auto-delete queue", an_auto_delete_queue, by(Basic.Cancel(consumer_tag="c"))),
    Operation("expired queue", a_queue(durable=True, arguments={"x-expires": 10**7}), by_expiry),
    Operation("exclusive queue", a_queue(exclusive=True), by(CLOSE, 0)),
    Operation("source", a_source, by(Exchange.Delete(exchange="gone")), is_exchange=True),
    Operation("target", a_target, by(Exchange.Delete(exchange="gone")), is_exchange=True),
    Operation(
        "auto-delete exchange",
        an_auto_delete_exchange,
        by(Queue.Unbind(queue="kept", exchange="gone")),
        is_exchange=True,
    ),
)


@pytest.fixture
def one_binding_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    for module in (deletion_module, broker_module):
        monkeypatch.setattr(module, "STEP_OBJECTS", 1)


cut = pytest.mark.usefixtures("one_binding_a_step")
each_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=[each.name for each in OPERATIONS]
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path / "data", stopwatch=Stopwatch()) as server:
        yield server


@pytest.fixture
def greedy(server: ThreadedServer) -> Iterator[AmqpClient]:
    """Return the client that deletes, with an exchange and a queue that are kept."""
    with connect(server.address) as client:
        client.open_channel()
        spare: Any = {"alternate-exchange": "spare"}
        call(client, Exchange.Declare(exchange="spare", exchange_type="fanout", durable=True))
        call(client, Exchange.Declare(exchange="x", durable=True, arguments=spare))
        call(client, Queue.Declare(queue="kept", durable=True))
        yield client


@pytest.fixture
def modest(server: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        yield client


def begin(
    server: ThreadedServer, operation: Operation, client: AmqpClient, *others: tuple[Any, ...]
) -> None:
    """Begin a deletion and let the server read what others send, before it does anything else.

    Args:
        server: The server.
        operation: Deletion to begin; it must not end in its first step.
        client: Client that deletes.
        others: Functions to call then, with their arguments.
    """

    def run() -> None:
        operation.begin(server, client)
        assert is_deleting(server), "it was not cut"
        for function, *arguments in others:
            function(*arguments)

    server.call(run)


def read_first(server: ThreadedServer, client: AmqpClient, octets: bytes) -> None:
    """Let the server read what a client sends, and handle it before the next step of a deletion.

    The client has used none of the loop's time.
    """
    session = connection_of(server, client)._session
    assert session is not None
    session.task_queue.clock_seconds = server.server.broker.turn._reading_seconds = 0.0
    read(server, client, octets)


def vhost_of(server: ThreadedServer) -> VirtualHost:
    return server.server.broker.vhosts["/"]


def is_deleting(server: ThreadedServer) -> bool:
    deletions = vhost_of(server).deletions
    return bool(deletions.queues or deletions.exchanges)


def until_deleted(server: ThreadedServer) -> None:
    """Return when nothing of a deletion is under way, in memory or on the disk."""
    server.wait_until(
        lambda: (
            not is_deleting(server)
            and not server.server.metadata._rounds._unfinished
            and not server.server.tasks
        )
    )


def documents(server: ThreadedServer, kind: str) -> list[str]:
    path = server.server.config.storage_path / "metadata" / kind / "%2f"
    return sorted(each.stem for each in path.glob("*"))


def expect_nothing_left(server: ThreadedServer, *, bindings: int = 0) -> None:
    """Check that nothing of `gone` is in memory or on the disk, but so many bindings are."""
    vhost = vhost_of(server)
    assert "gone" not in vhost.queues
    assert "gone" not in vhost.exchanges
    assert vhost.binding_count == bindings
    assert sum(len(each.bindings) for each in vhost.exchanges.values()) == bindings
    assert len(vhost._bindings_to) <= bindings
    assert vhost.graph._after == vhost.graph._before == {}
    assert len(documents(server, "bindings")) == bindings
    assert documents(server, "queues") == ["kept"]
    assert documents(server, "exchanges") == ["spare", "x"]
    assert not list(server.server.config.storage_path.glob("logs/%2f/gone/*"))
    rounds = server.server.metadata._rounds
    assert not rounds._referrers
    assert not rounds._vhost_counts


@cut
@each_operation
def test_a_deletion_that_a_checkpoint_cuts_leaves_nothing(
    server: ThreadedServer, greedy: AmqpClient, operation: Operation, tmp_path: Path
) -> None:
    operation.make(greedy)
    begin(server, operation, greedy)
    server.run(server.server.checkpointer.write_now)
    until_deleted(server)
    expect_nothing_left(server)
    greedy.socket.close()
    server.stop()
    with ThreadedServer(tmp_path / "data") as again:
        expect_nothing_left(again)


@cut
@each_operation
def test_a_stop_takes_all_steps_of_a_deletion(
    server: ThreadedServer, greedy: AmqpClient, operation: Operation, tmp_path: Path
) -> None:
    operation.make(greedy)
    begin(server, operation, greedy, (server._ending.set,))
    # Otherwise the stop waits for its close-ok.
    greedy.socket.close()
    server.stop()
    with ThreadedServer(tmp_path / "data") as again:
        expect_nothing_left(again)


@cut
@each_operation
def test_a_message_finds_no_way_to_what_is_being_deleted(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient, operation: Operation
) -> None:
    operation.make(greedy)
    name = "" if operation.is_exchange else "gone"
    publish = modest.publish_octets(
        Basic.Publish(exchange="x", routing_key="k7", mandatory=True), b"1", PLAIN
    ) + modest.publish_octets(Basic.Publish(routing_key=name, mandatory=True), b"2", PLAIN)
    begin(server, operation, greedy, (read_first, server, modest, publish))

    for body in (b"1", b"2"):
        assert modest.expect_return().body == body
        modest.expect(Basic.Ack)
    until_deleted(server)
    assert modest.ready_count("kept") == 0


KEYS: dict[str, str] = {
    "direct": "k",
    "fanout": "",
    "topic": "k",
    "headers": "",
    "x-random": "",
    "x-consistent-hash": "1",
}


@cut
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_other_queues_get_every_message_while_a_queue_of_many_bindings_is_deleted(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient, kind: str
) -> None:
    call(greedy, Exchange.Declare(exchange="e", exchange_type=kind))
    call(greedy, Queue.Declare(queue="gone"))
    for queue in ("gone", "kept"):
        bind_many(greedy, queue, "e")
    rounds: list[bytes] = []
    for number in range(3 * MANY):
        method = Basic.Publish(exchange="e", routing_key=f"k{number % MANY}", mandatory=True)
        rounds.append(modest.publish_octets(method, b"%d" % number, PLAIN))
    # Some before, which make the routes known; some between two steps; some whenever they come.
    modest.send_raw(b"".join(rounds[:MANY]))
    while modest._confirms[1].last_tag < MANY:
        assert isinstance(modest.receive()[1], Basic.Ack)
    between = b"".join(rounds[MANY : 2 * MANY])
    begin(server, OPERATIONS[1], greedy, (read_first, server, modest, between))
    modest.send_raw(b"".join(rounds[2 * MANY :]))
    while modest._confirms[1].last_tag < len(rounds):
        # No return comes: each has a way.
        assert isinstance(modest.receive()[1], Basic.Ack)

    greedy.expect(Queue.DeleteOk)
    until_deleted(server)
    got = [greedy.get("kept") for _ in range(len(rounds) + 1)]
    assert [each and each.body for each in got] == [b"%d" % at for at in range(3 * MANY)] + [None]


@cut
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("is_known", [False, True], ids=["new route", "remembered route"])
def test_the_alternate_exchange_gets_what_only_a_deleted_queue_would(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient, kind: str, is_known: bool
) -> None:
    call(
        greedy,
        Exchange.Declare(
            exchange="e", exchange_type=kind, arguments={"alternate-exchange": "spare"}
        ),
    )
    call(greedy, Queue.Bind(queue="kept", exchange="spare"))
    a_queue(durable=True)(greedy)
    for number in range(MANY):
        method = Queue.Bind(
            queue="gone", exchange="e", routing_key=KEYS[kind], arguments={"n": number}
        )
        call(greedy, method)
    publish = Basic.Publish(exchange="e", routing_key=KEYS[kind])
    message = modest.publish_octets(publish, b"", Basic.Properties(headers={"n": 1}))
    if is_known:
        modest.send_raw(message)
        modest.expect(Basic.Ack)
    begin(server, OPERATIONS[0], greedy, (read_first, server, modest, message))

    modest.expect(Basic.Ack)
    assert modest.ready_count("kept") == 1


@cut
@pytest.mark.parametrize("kind", ["x-random", "x-consistent-hash"])
def test_an_exchange_that_chooses_one_destination_chooses_none_that_is_deleted(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient, kind: str
) -> None:
    call(greedy, Exchange.Declare(exchange="e", exchange_type=kind))
    call(greedy, Queue.Declare(queue="gone"))
    for queue in ("gone", "kept"):
        call(greedy, Queue.Bind(queue=queue, exchange="e", routing_key="1"))
    bind_many(greedy, "gone")
    messages = [
        modest.publish_octets(
            Basic.Publish(exchange="e", routing_key=f"{number}", mandatory=True), b"", PLAIN
        )
        for number in range(20)
    ]
    modest.send_raw(messages[0])
    modest.expect(Basic.Ack)
    call(greedy, Queue.Purge(queue="kept"))
    begin(server, OPERATIONS[1], greedy, (read_first, server, modest, b"".join(messages)))

    greedy.expect(Queue.DeleteOk)
    while modest._confirms[1].last_tag < 21:
        assert isinstance(modest.receive()[1], Basic.Ack)
    assert modest.ready_count("kept") == 20


def declare_again(operation: Operation) -> bytes:
    """Return methods that make `gone` again, with one binding that it had before."""
    if operation.is_exchange:
        return octets(
            Exchange.Declare(exchange="gone", exchange_type="fanout", durable=True),
            Exchange.Bind(destination="gone", source="x", routing_key="k7"),
            Queue.Bind(queue="kept", exchange="gone", routing_key="k7"),
        )
    return octets(
        Queue.Declare(queue="gone", durable=True),
        Queue.Bind(queue="gone", exchange="x", routing_key="k7"),
    )


@cut
@each_operation
def test_another_client_may_use_the_name_and_inherits_no_binding(
    server: ThreadedServer,
    greedy: AmqpClient,
    modest: AmqpClient,
    operation: Operation,
    tmp_path: Path,
) -> None:
    operation.make(greedy)
    begin(server, operation, greedy, (read_first, server, modest, declare_again(operation)))

    expected = (
        [Exchange.DeclareOk, Exchange.BindOk, Queue.BindOk]
        if operation.is_exchange
        else [Queue.DeclareOk, Queue.BindOk]
    )
    assert [type(modest.receive()[1]) for _ in expected] == expected
    bindings = len(expected) - 1
    target = "kept" if operation.is_exchange else "gone"

    def check(client: AmqpClient, running: ThreadedServer) -> None:
        before = client.ready_count(target)
        for key in ("k6", "k7"):
            client.publish(b"", key, "x", mandatory=key == "k7")
            client.expect_confirmed()
        assert client.ready_count(target) == before + 1
        assert vhost_of(running).binding_count == bindings
        assert len(documents(running, "bindings")) == bindings

    check(modest, server)
    until_deleted(server)
    check(modest, server)
    for client in (greedy, modest):
        client.socket.close()
    server.stop()
    with ThreadedServer(tmp_path / "data") as again, connect(again.address) as client:
        client.open_channel(confirms=True)
        check(client, again)


@cut
@pytest.mark.parametrize(
    "operation",
    [each for each in OPERATIONS if each.name not in ("expired queue", "exclusive queue")],
    ids=lambda each: each.name,
)
def test_what_a_client_sends_behind_its_deletion_finds_nothing_of_it(
    server: ThreadedServer, greedy: AmqpClient, operation: Operation, tmp_path: Path
) -> None:
    operation.make(greedy)
    begin(server, operation, greedy, (greedy.send_raw, declare_again(operation)))

    expected = 4 if operation.is_exchange else 3
    answers = [type(greedy.receive()[1]) for _ in range(expected)]
    assert answers[1:3] == (
        [Exchange.DeclareOk, Exchange.BindOk]
        if operation.is_exchange
        else [Queue.DeclareOk, Queue.BindOk]
    )
    until_deleted(server)
    assert len(documents(server, "bindings")) == expected - 2


@cut
def test_a_declare_that_waited_repeats_its_checks(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient
) -> None:
    """Both wait for the deletion, and the first of them makes the queue."""
    a_queue(durable=True)(greedy)
    with connect(server.address) as third:
        third.open_channel()
        begin(
            server,
            OPERATIONS[0],
            greedy,
            (read_first, server, modest, octets(Queue.Declare(queue="gone", exclusive=True))),
            (read_first, server, third, octets(Queue.Declare(queue="gone", exclusive=True))),
        )
        answers = {type(each.receive()[1]) for each in (modest, third)}

    assert answers == {Queue.DeclareOk, Channel.Close}


@cut
def test_an_exchange_is_unused_when_only_a_deleted_queue_was_bound_to_it(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient
) -> None:
    a_queue(durable=True)(greedy)
    delete = octets(Exchange.Delete(exchange="x", if_unused=True))
    begin(server, OPERATIONS[0], greedy, (read_first, server, modest, delete))

    modest.expect(Exchange.DeleteOk)


def bindings_at_each_write(server: ThreadedServer, client: AmqpClient) -> list[list[str]]:
    """Return a list that gets the names of the bindings on the disk at each write to a client."""
    left: list[list[str]] = []
    connection = next(
        each
        for each in server.connections
        if each.name.startswith(":".join(map(str, client.socket.getsockname())))
    )
    session = connection._session
    assert session is not None, "the client has logged in"
    write = session.write

    def noted(octets: Octets) -> None:
        left.append(documents(server, "bindings"))
        write(octets)

    session.write = noted
    return left


@cut
def test_an_exchange_is_unused_however_many_deletions_are_under_way(
    server: ThreadedServer, greedy: AmqpClient
) -> None:
    names = [f"q{number}" for number in range(1100)]
    for name in names:
        greedy.send(Queue.Declare(queue=name, nowait=True))
        for key in ("k1", "k2"):
            greedy.send(Queue.Bind(queue=name, exchange="x", routing_key=key, nowait=True))
    assert greedy.ready_count("kept") == 0
    broker = server.server.broker
    vhost = vhost_of(server)

    channel = inner_channel("test", vhost, broker)

    async def run() -> None:
        for name in names:
            broker.delete_unused(vhost.queues[name])
        assert len(vhost.deletions.queues) == len(names)
        # Nobody else takes a step.
        steps = delete_exchange(channel, ExchangeDelete(exchange="x", if_unused=True))
        assert isinstance(steps, Generator)
        answers: list[Any] = []

        def take() -> Generator[None, None, None]:
            answers.append((yield from steps))

        for _ in take():
            pass
        assert await answers[0] == ExchangeDeleteOk()

    server.run(run)
    assert "x" not in vhost.exchanges


@cut
@pytest.mark.parametrize("passive", [False, True])
def test_an_exchange_that_was_declared_does_not_go_with_a_queue_that_was_deleted_before(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient, passive: bool
) -> None:
    declare = Exchange.Declare(exchange="e", auto_delete=True)
    call(greedy, declare)
    call(greedy, Queue.Declare(queue="gone"))
    bind_many(greedy, "gone", "e")
    again = Exchange.Declare(exchange="e", auto_delete=True, passive=passive)
    begin(server, OPERATIONS[1], greedy, (read_first, server, modest, octets(again)))

    if passive:
        assert modest.expect(Channel.Close).reply_code == 404
        return
    modest.expect(Exchange.DeclareOk)
    until_deleted(server)
    call(modest, Queue.Bind(queue="kept", exchange="e"))
    assert len(vhost_of(server).exchanges["e"].bindings) == 1


@cut
def test_a_delete_of_what_is_being_deleted_is_answered_when_that_is_durable(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient
) -> None:
    a_queue(durable=True)(greedy)
    delete = octets(Queue.Delete(queue="gone"))
    left = bindings_at_each_write(server, modest)
    begin(server, OPERATIONS[0], greedy, (read_first, server, modest, delete))

    modest.expect(Queue.DeleteOk)
    assert left == [[]]


def one_exchange(client: AmqpClient) -> None:
    call(client, Exchange.Declare(exchange="gone", exchange_type="fanout", durable=True))
    call(client, Exchange.Bind(destination="gone", source="x", routing_key="k7"))


UNBIND_QUEUE = Queue.Unbind(queue="gone", exchange="x", routing_key="k7")
UNBIND_EXCHANGE = Exchange.Unbind(destination="gone", source="x", routing_key="k7")
UNBIND_LAST = Queue.Unbind(queue="kept", exchange="gone")
UNBINDS: dict[str, tuple[Callable[[AmqpClient], None], Frame, Queue.Unbind | Exchange.Unbind]] = {
    "exchange.unbind twice": (one_exchange, UNBIND_EXCHANGE, UNBIND_EXCHANGE),
    "queue.unbind twice": (a_queue(durable=True), UNBIND_QUEUE, UNBIND_QUEUE),
    "queue deleted": (a_queue(durable=True), Queue.Delete(queue="gone"), UNBIND_QUEUE),
    "source deleted": (a_queue(durable=True), Exchange.Delete(exchange="x"), UNBIND_QUEUE),
    "destination deleted": (a_target, Exchange.Delete(exchange="gone"), UNBIND_EXCHANGE),
    "source of exchange deleted": (one_exchange, Exchange.Delete(exchange="x"), UNBIND_EXCHANGE),
    "source left unused": (an_auto_delete_exchange, UNBIND_LAST, UNBIND_LAST),
    "destination left unused": (an_auto_delete_exchange, UNBIND_LAST, UNBIND_EXCHANGE),
}
"""What makes bindings, what removes some of them, and the unbind of one of those."""


@pytest.mark.parametrize("in_steps", [False, True], ids=["at once", "in steps"])
@pytest.mark.parametrize("case", UNBINDS)
def test_an_unbind_of_what_is_being_unbound_is_answered_when_that_is_durable(
    server: ThreadedServer,
    greedy: AmqpClient,
    modest: AmqpClient,
    case: str,
    in_steps: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, remove, unbind = UNBINDS[case]
    make(greedy)
    if in_steps:
        monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(deletion_module, "STEP_OBJECTS", 1)
    left = bindings_at_each_write(server, modest)
    if isinstance(unbind, Queue.Unbind):
        ends = unbind.exchange, "queue", unbind.queue
    else:
        ends = unbind.source, "exchange", unbind.destination
    document = BindingIdentity(*ends, unbind.routing_key, encode_table({})).document_name
    assert document in documents(server, "bindings")

    def run() -> None:
        read_first(server, greedy, octets(remove))
        read_first(server, modest, octets(unbind))

    server.call(run)
    assert modest.receive()[1].name == f"{unbind.name}Ok"
    assert greedy.receive()[1].name == f"{remove.name}Ok"
    (names,) = left
    assert document not in names


@cut
def test_a_virtual_host_is_deleted_in_steps_and_leaves_nothing(
    server: ThreadedServer, modest: AmqpClient, tmp_path: Path
) -> None:
    """Its name is gone at once; a stop in the middle takes all steps."""
    changes = server.server.vhost_changes
    server.run(lambda: changes.create("v"))
    with connect(server.address, vhost="v") as client:
        client.open_channel()
        call(client, Exchange.Declare(exchange="x", durable=True))
        for number in range(3):
            call(client, Queue.Declare(queue=f"q{number}", durable=True))
            bind_many(client, f"q{number}")
        call(client, Exchange.Declare(exchange="delayed", exchange_type="fanout", durable=True))
        bind_exchanges(client, "delayed")
        vhost = server.server.broker.vhosts["v"]
        seen: list[tuple[bool, int]] = []
        unlink_some = VirtualHost.unlink_some

        def noted(host: VirtualHost, *arguments: Any) -> Any:  # noqa: ANN401
            seen.append(("v" in server.server.broker.vhosts, host.binding_count))
            return unlink_some(host, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(VirtualHost, "unlink_some", noted)
            server.run(lambda: changes.delete("v"))
        client.expect_connection_close(320)

    counts = [count for _, count in seen]
    assert not any(is_there for is_there, _ in seen)
    assert counts == sorted(counts, reverse=True)
    assert set(counts) == set(range(4 * MANY + 1))
    assert vhost.binding_count == 0
    assert not vhost.queues
    assert not list((tmp_path / "data" / "metadata").glob("*/v/*"))
    server.wait_until(lambda: not server.server.tasks)
    server.run(lambda: changes.create("v"))
    with connect(server.address, vhost="v") as client:
        client.open_channel()
        call(client, Queue.Declare(queue="q0", durable=True))
        assert client.ready_count("q0") == 0


@cut
def test_a_stop_takes_all_steps_of_the_deletion_of_a_virtual_host(
    server: ThreadedServer, tmp_path: Path
) -> None:
    changes = server.server.vhost_changes
    server.run(lambda: changes.create("v"))
    with connect(server.address, vhost="v") as client:
        client.open_channel()
        call(client, Exchange.Declare(exchange="x", durable=True))
        call(client, Queue.Declare(queue="q", durable=True))
        bind_many(client, "q")
    disconnect = server.server.connections.disconnect

    def stop(name: str) -> Iterator[None]:
        server._ending.set()
        return disconnect(name)

    changes._disconnect = stop
    server.run(lambda: changes.delete("v"))
    server.stop()
    assert not list((tmp_path / "data" / "metadata").glob("*/v/*"))
    with ThreadedServer(tmp_path / "data") as again:
        assert list(again.server.broker.vhosts) == ["/"]


@each_operation
def test_no_unit_removes_more_than_its_bound(
    server: ThreadedServer,
    greedy: AmqpClient,
    operation: Operation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time is looked at after each unit."""
    monkeypatch.setattr("tests.system.test_cut_deletions.MANY", 100)
    operation.make(greedy)
    count_unlinked = VirtualHost._count_unlinked
    units = [0]

    def count(*arguments: Any) -> None:  # noqa: ANN401
        units[-1] += 1
        count_unlinked(*arguments)

    def next_unit(_: TimeSlice) -> bool:
        units.append(0)
        return True

    monkeypatch.setattr(VirtualHost, "_count_unlinked", count)
    monkeypatch.setattr(TimeSlice, "is_over", property(next_unit))
    begin(server, operation, greedy)
    until_deleted(server)

    assert sum(units) >= 100
    assert max(units) <= deletion_module.STEP_OBJECTS <= 256
    expect_nothing_left(server)


@cut
def test_an_exclusive_queue_of_a_client_that_has_gone_counts_as_deleted(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient
) -> None:
    """Those that wait for their turn were locked for all others, who could not know how long."""
    names = [f"own{number}" for number in range(MANY)]
    with connect(server.address) as owner:
        owner.open_channel()
        for name in names:
            call(owner, Queue.Declare(queue=name, exclusive=True))
            bind_many(owner, name)
        methods = octets(*(Queue.Declare(queue=name, passive=True) for name in names[:1]))
        others = octets(*(Queue.Declare(queue=name, exclusive=True) for name in names))

        def close_and_declare() -> None:
            read_first(server, owner, frame.marshal(CLOSE, 0))
            read_first(server, modest, others)
            read_first(server, greedy, methods)

        server.call(close_and_declare)
        assert [modest.expect(Queue.DeclareOk).queue for _ in names] == names
        # It is the new one, of another client, or none.
        assert greedy.expect(Channel.Close).reply_code in {404, 405}
    server.wait_until(lambda: not server.server.broker.turn.jobs)
    assert vhost_of(server).binding_count == 0
    assert vhost_of(server).queues.keys() == {"kept", *names}


@cut
def test_consumers_end_in_steps_and_once(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient
) -> None:
    """One is cancelled by its client while the deletion ends the others."""
    call(greedy, Queue.Declare(queue="gone"))
    tags = [f"c{number}" for number in range(MANY)]
    for tag in tags:
        call(modest, Basic.Consume(queue="gone", consumer_tag=tag))
    cancel = octets(Basic.Cancel(consumer_tag=tags[-1]))
    begin(server, OPERATIONS[1], greedy, (read_first, server, modest, cancel))

    greedy.expect(Queue.DeleteOk)
    answers = [modest.receive()[1] for _ in tags]
    cancelled = [each.consumer_tag for each in answers if isinstance(each, Basic.Cancel)]
    assert cancelled == tags[:-1]
    assert [type(each) for each in answers if not isinstance(each, Basic.Cancel)] == [
        Basic.CancelOk
    ]
    session = connection_of(server, modest)._session
    assert session is not None
    assert not session.channels[1].consumers


@cut
def test_the_consumers_of_the_channel_that_deletes_end_in_steps_and_are_told_after_the_reply(
    server: ThreadedServer, greedy: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "STEP_NOTICES", 1)
    call(greedy, Queue.Declare(queue="gone"))
    tags = [f"c{number}" for number in range(MANY)]
    for tag in tags:
        call(greedy, Basic.Consume(queue="gone", consumer_tag=tag))
    begin(server, OPERATIONS[1], greedy)

    greedy.expect(Queue.DeleteOk)
    assert [greedy.expect(Basic.Cancel).consumer_tag for _ in tags] == tags


def test_a_queue_that_leaves_many_exchanges_unused_takes_them_along_in_steps(
    server: ThreadedServer, greedy: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 100
    call(greedy, Queue.Declare(queue="gone", durable=True))
    for number in range(count):
        name = f"e{number}"
        greedy.send(Exchange.Declare(exchange=name, durable=True, auto_delete=True))
        greedy.send(Queue.Bind(queue="gone", exchange=name))
    for _ in range(2 * count):
        greedy.receive()
    release = WriteRounds.release
    units = [0]

    def count_released(*arguments: Any) -> None:  # noqa: ANN401
        units[-1] += 1
        release(*arguments)

    def next_unit(_: TimeSlice) -> bool:
        units.append(0)
        return True

    monkeypatch.setattr(WriteRounds, "release", count_released)
    monkeypatch.setattr(TimeSlice, "is_over", property(next_unit))
    begin(server, OPERATIONS[0], greedy)

    greedy.expect(Queue.DeleteOk)
    assert sum(units) == count + 1
    assert max(units) <= deletion_module.STEP_OBJECTS
    assert vhost_of(server).exchanges.keys() >= {"x", "spare"}
    until_deleted(server)
    expect_nothing_left(server)


@cut
def test_no_delayed_message_comes_early_because_its_exchange_is_deleted(
    server: ThreadedServer, greedy: AmqpClient, modest: AmqpClient
) -> None:
    """Neither those before the deletion, nor those of the same run behind it."""
    arguments: Any = {"x-delayed-type": "fanout"}
    method = Exchange.Declare(
        exchange="gone", exchange_type="x-delayed-message", arguments=arguments
    )
    call(greedy, method)
    bind_many(greedy, "kept", "gone")
    count = 20
    message = modest.publish_octets(
        Basic.Publish(exchange="gone"), b"", Basic.Properties(headers={"x-delay": 3_600_000})
    )

    def run() -> None:
        read_first(server, modest, message * count)
        read(server, greedy, frame.marshal(Exchange.Delete(exchange="gone"), 1))

    server.call(run)
    while modest._confirms[1].last_tag < count:
        assert isinstance(modest.receive()[1], Basic.Ack)
    greedy.expect(Exchange.DeleteOk)
    until_deleted(server)
    assert modest.ready_count("kept") == 0


def returned_until(client: AmqpClient, tag: int) -> int:
    """Return how many messages come back before all up to `tag` are confirmed."""
    count = 0
    while client._confirms[1].last_tag < tag:
        count += isinstance(client.receive()[1], Basic.Return)
    return count


@cut
@pytest.mark.parametrize("orphans_max", [1, 1000], ids=["many queues", "few queues"])
def test_no_message_finds_an_exclusive_queue_of_a_client_that_has_gone(
    server: ThreadedServer,
    greedy: AmqpClient,
    modest: AmqpClient,
    monkeypatch: pytest.MonkeyPatch,
    orphans_max: int,
) -> None:
    """A mandatory message, like a request whose answer nobody can get, comes back."""
    monkeypatch.setattr(virtual_host, "ORPHANS_MAX", orphans_max)
    hashed = Exchange.Declare(exchange="h", exchange_type="x-consistent-hash")
    call(greedy, hashed)
    call(greedy, Queue.Bind(queue="kept", exchange="h", routing_key="1"))
    names = [f"own{number}" for number in range(MANY)]
    publishes = [
        *(Basic.Publish(routing_key=name, mandatory=True) for name in names),
        *(Basic.Publish(exchange="x", routing_key=f"k{at}", mandatory=True) for at in range(MANY)),
    ]
    messages = b"".join(modest.publish_octets(each, b"", PLAIN) for each in publishes)
    hashes = b"".join(
        modest.publish_octets(Basic.Publish(exchange="h", routing_key=str(at)), b"", PLAIN)
        for at in range(20)
    )
    with connect(server.address) as owner:
        owner.open_channel()
        for name in names:
            call(owner, Queue.Declare(queue=name, exclusive=True))
            bind_many(owner, name)
            call(owner, Queue.Bind(queue=name, exchange="h", routing_key="1"))
        for times in (1, 2):
            # The routes of frames that come again are remembered.
            modest.send_raw(messages)
            assert returned_until(modest, times * len(publishes)) == 0

        def close_and_publish() -> None:
            read_first(server, owner, frame.marshal(CLOSE, 0))
            read_first(server, modest, messages + hashes)

        server.call(close_and_publish)
        assert returned_until(modest, 3 * len(publishes) + 20) == len(publishes)
    until_deleted(server)
    assert modest.ready_count("kept") == 20
