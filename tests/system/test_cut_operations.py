"""Long operations are cut into steps: other clients are served between two of them.

Every slice is over after one step here, so that each operation is cut at every place.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue, Tx

from amqp_server.broker.channel import Channel as BrokerChannel
from amqp_server.broker.counters.publish_pair import PublishPair
from amqp_server.broker.publishing import publishing
from amqp_server.broker.publishing.confirms import Barrier, PublisherConfirms
from amqp_server.broker.publishing.publish_batch import may_refuse
from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.broker.turn import TaskQueue
from amqp_server.protocol.methods import Method
from tests.amqp_client import AmqpClient, connect
from tests.cutting import connection_of, cut_everywhere, read, together
from tests.stopwatch import Stopwatch
from tests.system.watched import LOW_MEMORY, Watched
from tests.threaded_server import ThreadedServer

QUEUES = 50
MESSAGES = 60


@pytest.fixture(autouse=True)
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_everywhere(monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path, stopwatch=Stopwatch()) as server:
        yield server


@pytest.fixture
def clients(server: ThreadedServer) -> Iterator[tuple[AmqpClient, AmqpClient]]:
    """Return a client that asks for much, and one that asks for little."""
    with ExitStack() as stack:
        greedy, modest = (stack.enter_context(connect(server.address)) for _ in range(2))
        for client in (greedy, modest):
            client.open_channel(confirms=True)
        yield greedy, modest


def fan_out(client: AmqpClient, *, durable: bool = True) -> list[str]:
    """Bind many queues to one exchange; return their names in the order of routing."""
    client.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
    names = [f"q{number}" for number in range(QUEUES)]
    for name in names:
        client.declare(name, durable=durable)
        client.call(Queue.Bind(queue=name, exchange="all"), Queue.BindOk)
    return names


def publish_octets(client: AmqpClient, body: bytes = b"to all") -> bytes:
    return client.publish_octets(
        Basic.Publish(exchange="all"), body, Basic.Properties(delivery_mode=2)
    )


def passive(name: str) -> bytes:
    return frame.marshal(Queue.Declare(queue=name, passive=True), 1)


def levels(client: AmqpClient, queue: str = "levels") -> None:
    """Fill a queue with two priorities by turns: delivered, they are as many runs."""
    client.declare(queue, durable=True, arguments={"x-max-priority": 1})
    for number in range(MESSAGES):
        client.publish(
            b"%d" % number, queue, properties=Basic.Properties(priority=number % 2, delivery_mode=2)
        )
        client.expect_confirmed()


IN_ORDER = [b"%d" % number for number in [*range(1, MESSAGES, 2), *range(0, MESSAGES, 2)]]


def take_all(client: AmqpClient, queue: str = "levels") -> list[tuple[bytes, bool]]:
    client.consume(queue, no_ack=False)
    return [
        (message.body, message.redelivered)
        for message in (client.expect_delivery() for _ in range(MESSAGES))
    ]


def test_a_client_is_served_before_another_ones_message_has_reached_all_queues(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    greedy, modest = clients
    last = fan_out(greedy)[-1]
    together(server, (greedy, publish_octets(greedy)), (modest, passive(last)))

    assert modest.expect(Queue.DeclareOk).message_count == 0
    greedy.expect(Basic.Ack)
    assert modest.ready_count(last) == 1


@pytest.mark.parametrize("learned", [b"k.x", b""], ids=["known route", "route to be searched"])
def test_routing_keys_that_never_came_are_looked_up_between_other_requests(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], learned: bytes
) -> None:
    greedy, modest = clients
    greedy.call(Exchange.Declare(exchange="keys", exchange_type="topic"), Exchange.DeclareOk)
    greedy.declare("q", durable=True)
    greedy.call(Queue.Bind(queue="q", exchange="keys", routing_key="k.#"), Queue.BindOk)
    if learned:
        greedy.publish(b"first", learned.decode(), exchange="keys")
        greedy.expect_confirmed()
    count = greedy.ready_count("q")
    bodies = [b"%d" % number for number in range(3 * publishing.STEP_KEYS)]
    octets = b"".join(
        greedy.publish_octets(
            Basic.Publish(exchange="keys", routing_key=f"k.{body.decode()}"),
            body,
            Basic.Properties(delivery_mode=2),
        )
        for body in bodies
    )

    together(server, (greedy, octets), (modest, passive("q")))

    assert modest.expect(Queue.DeclareOk).message_count == count
    while greedy.expect(Basic.Ack).delivery_tag != count + len(bodies):
        pass
    taken = [modest.get("q") for _ in range(count + len(bodies))]
    assert [each.body for each in taken if each][count:] == bodies


def test_messages_keep_their_order_in_all_queues(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    greedy, modest = clients
    names = fan_out(greedy)
    bodies = [b"%d" % number for number in range(5)]
    together(
        server,
        (greedy, b"".join(publish_octets(greedy, body) for body in bodies)),
        (modest, publish_octets(modest, b"other")),
    )
    while greedy.expect(Basic.Ack).delivery_tag != len(bodies):
        pass
    modest.expect(Basic.Ack)

    for name in names:
        taken = [modest.get(name) for _ in range(6)]
        assert [each.body for each in taken if each and each.body != b"other"] == bodies
        assert sum(each is not None for each in taken) == 6


def alternating(client: AmqpClient, count: int, delivery_mode: int) -> bytes:
    """Return publishes by turns to two exchanges; all queues but the first are in both."""
    names = fan_out(client)
    client.call(Exchange.Declare(exchange="most", exchange_type="fanout"), Exchange.DeclareOk)
    for name in names[1:]:
        client.call(Queue.Bind(queue=name, exchange="most"), Queue.BindOk)
    return b"".join(
        client.publish_octets(
            Basic.Publish(exchange=("all", "most")[number % 2]),
            b"%d" % number,
            Basic.Properties(delivery_mode=delivery_mode),
        )
        for number in range(count)
    )


def test_publishes_that_alternate_between_many_queues_wait_for_each_queue_once(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    greedy, modest = clients
    octets = alternating(greedy, MESSAGES, delivery_mode=2)
    counts: list[int] = []
    add = PublisherConfirms.add

    def noted(
        confirms: PublisherConfirms,
        count: int,
        barriers: list[Barrier],
        *,
        refused: bool = False,
        counters: PublishPair | None = None,
        shares: Sequence[tuple[PublishPair, int]] = (),
    ) -> None:
        counts.append(len(barriers))
        add(confirms, count, barriers, refused=refused, counters=counters, shares=shares)

    monkeypatch.setattr(PublisherConfirms, "add", noted)
    together(server, (greedy, octets))
    while greedy.expect(Basic.Ack).delivery_tag != MESSAGES:
        pass

    assert sum(counts) <= QUEUES
    taken = [modest.get("q1") for _ in range(MESSAGES)]
    assert [each.body for each in taken if each] == [b"%d" % n for n in range(MESSAGES)]
    assert modest.ready_count("q0") == MESSAGES // 2


@pytest.mark.parametrize("count", [1, 3])
def test_what_was_scanned_counts_as_memory_until_it_is_handled(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], count: int
) -> None:
    greedy, _ = clients
    fan_out(greedy)
    octets = publish_octets(greedy, bytes(10_000)) * count
    connection = connection_of(server, greedy)
    before = server.call(lambda: connection.held_bytes)

    def held_bytes() -> int:
        read(server, greedy, octets)
        return connection.held_bytes

    assert server.call(held_bytes) - before >= len(octets)
    while greedy.expect(Basic.Ack).delivery_tag != count:
        pass
    server.wait_until(lambda: connection.held_bytes == 0)


def test_what_was_parked_counts_as_memory_until_it_is_handled(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        fan_out(client)
        watched.see(LOW_MEMORY)
        client.send_raw(publish_octets(client, bytes(10_000)))
        client.expect(Connection.Blocked, 0)
        connection = connection_of(watched.server, client)
        session = connection._session
        assert session is not None
        parked = session.parked
        watched.server.wait_until(lambda: parked.held_bytes > 10_000)

        def lift_alarm() -> int:
            parked.lift_alarm(session)
            return connection.held_bytes

        assert watched.server.call(lift_alarm) > 10_000
        client.expect(Connection.Unblocked, 0)
        client.expect(Basic.Ack)
        watched.server.wait_until(lambda: connection.held_bytes == 0)


@pytest.mark.parametrize("barriers_max", [0, QUEUES * MESSAGES])
def test_a_log_that_fails_in_the_middle_of_a_batch_refuses_its_transient_messages_too(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
    barriers_max: int,
) -> None:
    greedy, modest = clients
    octets = alternating(greedy, 2, delivery_mode=1)
    queue = server.server.broker.vhosts["/"].queues["q0"]

    def fails_afterwards(queues: Iterable[BrokerQueue], *, has_groups: bool) -> bool:
        result = may_refuse(queues, has_groups=has_groups)
        queue.is_failed = True
        return result

    monkeypatch.setattr(publishing, "BARRIERS_MAX", barriers_max)
    monkeypatch.setattr(publishing, "may_refuse", fails_afterwards)
    together(server, (greedy, octets))

    refused = greedy.expect(Basic.Nack)
    assert refused.delivery_tag == (1 if barriers_max else 2)
    assert server.call(lambda: queue.ready_count) == 0
    assert modest.ready_count("q1") == 2


@pytest.mark.parametrize("at", [0, QUEUES - 1])
def test_a_queue_that_is_deleted_in_the_middle_of_a_publish_gets_nothing(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], at: int
) -> None:
    greedy, modest = clients
    names = fan_out(greedy)
    delete = frame.marshal(Queue.Delete(queue=names[at]), 1)
    together(server, (greedy, publish_octets(greedy)), (modest, delete))

    assert modest.expect(Queue.DeleteOk).message_count in {0, 1}
    greedy.expect(Basic.Ack)
    del names[at]
    assert [modest.ready_count(name) for name in names] == [1] * len(names)


def test_a_publish_reaches_all_queues_though_its_connection_is_lost(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    greedy, modest = clients
    names = fan_out(greedy)
    greedy.send_raw(publish_octets(greedy))
    greedy.__exit__(None, None, None)

    queues = server.server.broker.vhosts["/"].queues
    server.wait_until(lambda: all(queues[name].ready_count == 1 for name in names))
    assert modest.ready_count(names[-1]) == 1


def test_a_stop_in_the_middle_of_a_publish_loses_no_confirmed_message(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        names = fan_out(client)
        octets = publish_octets(client)
        server.call(lambda: client.send_raw(octets))
        # Nothing marks a moment in the middle: whatever has begun must end.
        server.wait_until(
            lambda: server.server.broker.vhosts["/"].queues[names[0]].store.end_offset == 1
        )
        server.stop()
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert [client.ready_count(name) for name in names] == [1] * QUEUES


@pytest.mark.parametrize(
    "how", ["nack", "recover", "channel", "close", "lost", "error", "rollback"]
)
def test_messages_that_return_in_steps_are_delivered_in_their_order(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], how: str
) -> None:
    holder, other = clients
    levels(other)
    channel = 2
    holder.open_channel(channel)
    if how == "rollback":
        holder.call(Tx.Select(), Tx.SelectOk, channel)
    holder.consume("levels", no_ack=False, channel=channel)
    tags = [holder.expect_delivery(channel).tag for _ in range(MESSAGES)]
    # The other client waits already when the messages return.
    other.consume("levels", no_ack=False)
    match how:
        case "nack":
            holder.send(Basic.Cancel(consumer_tag="", nowait=True), channel)
            holder.send(Basic.Nack(delivery_tag=tags[-1], multiple=True, requeue=True), channel)
            holder.send(Channel.Close(reply_code=0, class_id=0, method_id=0), channel)
        case "recover":
            holder.send(Basic.Recover(requeue=True), channel)
            holder.send(Channel.Close(reply_code=0, class_id=0, method_id=0), channel)
        case "channel":
            holder.send(Channel.Close(reply_code=0, class_id=0, method_id=0), channel)
        case "rollback":
            holder.send(Basic.Nack(delivery_tag=tags[-1], multiple=True, requeue=True), channel)
            holder.send(Channel.Close(reply_code=0, class_id=0, method_id=0), channel)
        case "close":
            holder.close()
        case "lost":
            holder.__exit__(None, None, None)
        case "error":
            holder.send(Queue.Declare(queue="missing", passive=True), channel)
    taken = [other.expect_delivery() for _ in range(MESSAGES)]

    if how in {"nack", "recover"}:
        # Until its channel closes, the holder may get some of them again.
        assert sorted(each.body for each in taken) == sorted(IN_ORDER)
    else:
        assert [each.body for each in taken] == IN_ORDER
    assert all(each.redelivered for each in taken)
    assert other.ready_count("levels") == 0


def test_a_get_waits_until_all_messages_have_returned(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    levels(other)
    holder.consume("levels", no_ack=False)
    tags = [holder.expect_delivery().tag for _ in range(MESSAGES)]
    cancelled = holder.call(Basic.Cancel(consumer_tag=consumer_tag(server)), Basic.CancelOk)
    assert cancelled.consumer_tag
    nack = frame.marshal(Basic.Nack(delivery_tag=tags[-1], multiple=True, requeue=True), 1)
    get = frame.marshal(Basic.Get(queue="levels", no_ack=True), 1)
    together(server, (holder, nack), (other, get + passive("levels")))

    assert other.expect(Basic.GetOk).message_count == MESSAGES - 1
    for _ in ("header", "body"):
        other.receive()
    assert other.expect(Queue.DeclareOk).message_count == MESSAGES - 1


def consumer_tag(server: ThreadedServer) -> str:
    """Return the tag of the only consumer of the queue."""
    (consumer,) = server.server.broker.vhosts["/"].queues["levels"].consumers
    return consumer.tag


def test_a_queue_that_is_deleted_while_messages_return_is_gone(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    levels(other)
    holder.consume("levels", no_ack=False)
    tags = [holder.expect_delivery().tag for _ in range(MESSAGES)]
    nack = frame.marshal(Basic.Nack(delivery_tag=tags[-1], multiple=True, requeue=True), 1)
    delete = frame.marshal(Queue.Delete(queue="levels"), 1)
    declare = frame.marshal(Queue.Declare(queue="levels", durable=True), 1)
    together(server, (holder, nack), (other, delete + declare))

    other.expect(Queue.DeleteOk)
    assert other.expect(Queue.DeclareOk).message_count == 0
    assert holder.expect(Basic.Cancel).consumer_tag


def test_a_stop_while_messages_return_marks_all_of_them_redelivered(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        levels(client)
        take_all(client)
        server.call(lambda: None)
        client.__exit__(None, None, None)
        server.wait_until(lambda: not server.server.connections)
        server.stop()
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert take_all(client) == [(body, True) for body in IN_ORDER]


def test_many_single_acks_settle_exactly_their_messages(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    levels(other)
    holder.consume("levels", no_ack=False)
    tags = [holder.expect_delivery().tag for _ in range(MESSAGES)]
    acks = b"".join(frame.marshal(Basic.Ack(delivery_tag=tag), 1) for tag in tags[::3])
    together(server, (holder, acks), (other, passive("levels")))
    assert other.expect(Queue.DeclareOk).message_count == 0
    holder.close()

    left = {body for at, body in enumerate(IN_ORDER) if at % 3}
    assert {other.get("levels").body for _ in left} == left  # type: ignore[union-attr]
    assert other.get("levels") is None


def close_socket(_server: ThreadedServer, client: AmqpClient, octets: bytes) -> None:
    client.send_raw(octets)
    client.socket.close()


def reset_socket(server: ThreadedServer, client: AmqpClient, octets: bytes) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close_socket(server, client, octets)


def lose_as_read(server: ThreadedServer, client: AmqpClient, octets: bytes) -> None:
    def read_and_lose() -> None:
        read(server, client, octets)
        connection_of(server, client).abandon("lost")

    server.call(read_and_lose)


@pytest.mark.parametrize("end", [close_socket, reset_socket, lose_as_read])
@pytest.mark.parametrize(
    ("stride", "channels"),
    [(1, 1), (2, 1), (1, 2)],
    ids=["in order", "every other one first", "two channels"],
)
def test_single_acks_right_before_the_end_of_the_connection_count(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    end: Callable[[ThreadedServer, AmqpClient, bytes], None],
    stride: int,
    channels: int,
) -> None:
    """RabbitMQ 3.10 delivers some of these messages again."""
    holder, other = clients
    holder.open_channel(2)
    other.declare("q")
    tags: list[tuple[int, int]] = []
    for channel in range(1, channels + 1):
        holder.consume("q", channel=channel)
    for number in range(201):
        other.publish(b"%d" % number, "q")
        other.expect_confirmed()
        channel, method = holder.receive()
        assert isinstance(method, Basic.Deliver)
        assert holder.message_of(method, channel).body == b"%d" % number
        tags.append((method.delivery_tag or 0, channel))
    # All but the last one: when that is back, all has come back that was to come.
    acked = [each for first in range(stride) for each in tags[first:-1:stride]]
    assert len(acked) == 200
    end(server, holder, b"".join(frame.marshal(Basic.Ack(tag), at) for tag, at in acked))

    other.consume("q")
    message = other.expect_delivery()
    assert (message.body, message.redelivered) == (b"200", True)
    assert other.ready_count("q") == 0


def test_a_purge_takes_what_was_ready_and_nothing_later(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    greedy, modest = clients
    levels(modest)
    purge = frame.marshal(Queue.Purge(queue="levels"), 1)
    late = modest.publish_octets(
        Basic.Publish(routing_key="levels"), b"late", Basic.Properties(delivery_mode=2)
    )
    together(server, (greedy, purge), (modest, late + passive("levels")))

    assert greedy.expect(Queue.PurgeOk).message_count == MESSAGES
    assert {type(modest.receive()[1]) for _ in range(2)} == {Basic.Ack, Queue.DeclareOk}
    left = [modest.get("levels") for _ in range(2)]
    assert [each.body for each in left if each] == [b"late"]


def test_exclusive_queues_are_gone_before_their_client_hears_of_the_end_of_its_connection(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    owner, other = clients
    for number in range(QUEUES):
        owner.declare(f"own{number}", exclusive=True)
    owner.close()

    for number in range(QUEUES):
        # Another client may use the names at once.
        other.declare(f"own{number}", exclusive=True)


CLOSE_CHANNEL = frame.marshal(Channel.Close(reply_code=0, class_id=0, method_id=0), 1)
NO_SUCH_QUEUE = passive("missing")


def consume_many(client: AmqpClient, owner: AmqpClient) -> list[str]:
    names = [f"c{number}" for number in range(20)]
    for name in names:
        owner.declare(name)
        client.consume(name)
    return names


def consumed(server: ThreadedServer) -> list[str]:
    """Return the queues that have a consumer, once nothing is under way any more."""
    server.wait_until(lambda: not server.server.broker.turn.jobs)
    queues = server.server.broker.vhosts["/"].queues
    return [name for name, queue in queues.items() if len(queue.consumers)]


def test_a_queue_may_be_deleted_while_a_channel_ends_its_consumers(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    names = consume_many(holder, other)
    delete = frame.marshal(Queue.Delete(queue=names[15]), 1)
    together(server, (holder, CLOSE_CHANNEL), (other, delete))

    other.expect(Queue.DeleteOk)
    while not isinstance(holder.receive()[1], Channel.CloseOk):
        pass
    assert consumed(server) == []


def test_a_queue_may_be_deleted_while_a_lost_connection_ends_its_consumers(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    names = consume_many(holder, other)
    delete = frame.marshal(Queue.Delete(queue=names[15]), 1)

    def lose_and_delete() -> None:
        holder.__exit__(None, None, None)
        other.send_raw(delete)

    server.call(lose_and_delete)
    other.expect(Queue.DeleteOk)
    server.wait_until(lambda: len(list(server.connections)) == 1)
    assert consumed(server) == []


def test_an_error_and_then_the_loss_of_the_connection_release_everything_once(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    owner, other = clients
    consume_many(owner, other)
    for number in range(20):
        owner.declare(f"own{number}", exclusive=True)
        owner.consume(f"own{number}")
    wrong = frame.marshal(Exchange.Declare(exchange="x", exchange_type="nonsense"), 1)

    def err_and_leave() -> None:
        owner.send_raw(wrong)
        owner.__exit__(None, None, None)

    server.call(err_and_leave)
    server.wait_until(lambda: len(list(server.connections)) == 1)
    assert consumed(server) == []
    assert not [name for name in server.server.broker.vhosts["/"].queues if name.startswith("own")]


def test_a_close_of_the_client_that_crosses_ours_is_answered_after_it(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    """The client would use the number again, and the server would still wait for a close-ok."""
    holder, other = clients
    levels(other)
    holder.consume("levels", no_ack=False)
    for _ in range(MESSAGES):
        holder.expect_delivery()
    holder.send_raw(NO_SUCH_QUEUE + CLOSE_CHANNEL)

    assert [type(holder.receive()[1]) for _ in range(2)] == [Channel.Close, Channel.CloseOk]


def test_the_end_of_a_connection_waits_for_its_channels_messages(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    levels(other)
    holder.consume("levels", no_ack=False)
    for _ in range(MESSAGES):
        holder.expect_delivery()
    holder.send_raw(NO_SUCH_QUEUE + frame.marshal(Connection.Close(200, "", 0, 0), 0))
    while not isinstance(holder.receive()[1], Connection.CloseOk):
        pass

    queue = server.server.broker.vhosts["/"].queues["levels"]
    assert server.call(lambda: len(queue.ready)) == MESSAGES


def test_consumers_that_wait_for_the_channels_limit_are_woken_by_acks_in_steps(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    levels(other)
    other.declare("side", durable=True)
    holder.call(Basic.Qos(prefetch_count=10, global_=True), Basic.QosOk)
    holder.consume("levels", no_ack=False)
    tags = [holder.expect_delivery().tag for _ in range(10)]
    holder.consume("side", no_ack=False)
    other.call(Queue.Purge(queue="levels"), Queue.PurgeOk)
    other.publish(b"to the other consumer", "side")
    other.expect_confirmed()
    holder.send(Basic.Ack(delivery_tag=tags[-1], multiple=True))

    assert holder.expect_delivery().body == b"to the other consumer"


def test_a_recover_ends_though_a_stream_could_deliver_more(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    other.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(100):
        other.publish(b"%d" % number, "s")
    other.expect_confirmed()
    holder.call(Basic.Qos(prefetch_count=2), Basic.QosOk)
    holder.consume("s", no_ack=False, arguments={"x-stream-offset": "first"})
    for _ in range(2):
        holder.expect_delivery()
    holder.send(Basic.Recover(requeue=True))
    delivered = 0
    while not isinstance(value := holder.receive()[1], Basic.RecoverOk):
        delivered += isinstance(value, Basic.Deliver)

    assert delivered == 0


def test_a_length_limit_holds_after_many_messages_have_returned(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    holder, other = clients
    other.declare("short", durable=True, arguments={"x-max-length": 10})
    holder.consume("short", no_ack=False)
    for number in range(MESSAGES):
        other.publish(b"%d" % number, "short")
        holder.expect_delivery()
    cancelled = frame.marshal(Basic.Cancel(consumer_tag="", nowait=True), 1)
    holder.send_raw(cancelled + CLOSE_CHANNEL)
    while not isinstance(holder.receive()[1], Channel.CloseOk):
        pass
    other.expect_confirmed()

    assert other.ready_count("short") == 10
    left = [other.get("short") for _ in range(10)]
    assert [each.body for each in left if each] == [b"%d" % n for n in range(MESSAGES)][-10:]


def test_what_a_lost_client_had_sent_leaves_nothing_in_a_deleted_virtual_host(
    server: ThreadedServer, tmp_path: Path
) -> None:
    """A queue that was declared after the deletion was there after the next start."""
    server.run(lambda: server.server.vhost_changes.create("v"))
    with connect(server.address, vhost="v") as client:
        client.open_channel()
        fan_out(client)
        declare = frame.marshal(Queue.Declare(queue="ghost", durable=True, nowait=True), 1)
        octets = publish_octets(client) * 50 + declare

        def read_and_lose() -> None:
            read(server, client, octets)
            connection_of(server, client).abandon("lost")

        server.call(read_and_lose)
        server.run(lambda: server.server.vhost_changes.delete("v"))
        server.wait_until(lambda: not server.server.broker.turn.jobs)
    server.run(lambda: server.server.vhost_changes.create("v"))
    assert not server.server.broker.vhosts["v"].queues
    server.stop()
    with ThreadedServer(tmp_path) as again:
        assert not again.server.broker.vhosts["v"].queues


def test_a_purge_that_finds_nothing_waits_for_the_one_that_is_under_way(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash would have brought back what the other one had purged."""
    greedy, modest = clients
    levels(modest)
    purge = frame.marshal(Queue.Purge(queue="levels"), 1)
    broker = server.server.broker
    seen: list[str] = []
    end_work, send = BrokerQueue.end_work, BrokerChannel.send
    write_checkpoint = broker.write_checkpoint

    def purge_again(queue: BrokerQueue) -> None:
        end_work(queue)
        if not seen:
            seen.append("purged")
            read(server, modest, purge)

    async def note_checkpoint() -> object:
        done = await write_checkpoint()
        seen.append("checkpoint")
        return done

    def note_reply(channel: BrokerChannel, method: Method) -> None:
        seen.append(type(method).__name__)
        send(channel, method)

    monkeypatch.setattr(BrokerQueue, "end_work", purge_again)
    monkeypatch.setattr(BrokerChannel, "send", note_reply)
    monkeypatch.setattr(broker, "write_checkpoint", note_checkpoint)
    together(server, (greedy, purge))

    assert greedy.expect(Queue.PurgeOk).message_count == MESSAGES
    assert modest.expect(Queue.PurgeOk).message_count == 0
    assert seen == ["purged", "checkpoint", "QueuePurgeOk", "QueuePurgeOk"]


def test_dead_letters_reach_all_queues_though_others_are_served_in_between(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient], tmp_path: Path
) -> None:
    greedy, modest = clients
    names = fan_out(greedy)
    for name in ("source", "other source"):
        greedy.declare(name, durable=True, arguments={"x-dead-letter-exchange": "all"})
        for number in range(3):
            greedy.publish(b"%s %d" % (name.encode(), number), name)
        greedy.expect_confirmed()
    taken = [modest.get(name, no_ack=False) for name in ("source", "other source") * 3]
    tags = [each.tag for each in taken if each]
    delete = frame.marshal(Queue.Delete(queue=names.pop()), 1)
    nack = frame.marshal(Basic.Nack(delivery_tag=max(tags), multiple=True, requeue=False), 1)
    together(server, (modest, nack), (greedy, delete))
    greedy.expect(Queue.DeleteOk)
    queues = server.server.broker.vhosts["/"].queues
    server.wait_until(lambda: all(queues[name].ready_count == 6 for name in names))
    server.stop()
    with ThreadedServer(tmp_path) as again, connect(again.address) as client:
        client.open_channel()
        assert client.ready_count("source") == 0
        for name in names:
            bodies = [each.body for each in (client.get(name) for _ in range(6)) if each]
            for source in (b"source", b"other source"):
                own = [body for body in bodies if body.startswith(source + b" ")]
                assert own == [b"%s %d" % (source, number) for number in range(3)]


def test_a_count_does_not_wait_until_all_consumers_have_got_their_messages(
    server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    greedy, modest = clients
    greedy.open_channel(2)
    greedy.declare("q")
    for number in range(10):
        greedy.call(
            Basic.Consume(queue="q", consumer_tag=f"c{number}", no_ack=True), Basic.ConsumeOk
        )
    octets = b"".join(
        greedy.publish_octets(
            Basic.Publish(routing_key="q"), b"%d" % number, Basic.Properties(), channel=2
        )
        for number in range(MESSAGES)
    )
    together(server, (greedy, octets), (modest, passive("q")))

    assert (modest.expect(Queue.DeclareOk).message_count or 0) in range(1, MESSAGES)
    bodies = [greedy.expect_delivery().body for _ in range(MESSAGES)]
    assert sorted(bodies) == sorted(b"%d" % number for number in range(MESSAGES))


def test_a_consumer_gets_what_was_ready_before_its_cancellation(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All messages are in the queue before the cancellation is handled.
    monkeypatch.setattr("amqp_server.broker.publishing.publishing.STEP_LOOKS", 512)
    greedy, modest = clients
    greedy.open_channel(2)
    greedy.declare("levels", arguments={"x-max-priority": 1})
    greedy.call(Basic.Consume(queue="levels", consumer_tag="c", no_ack=True), Basic.ConsumeOk)
    publishes = b"".join(
        greedy.publish_octets(
            Basic.Publish(routing_key="levels"),
            b"%d" % number,
            Basic.Properties(priority=number % 2),
            channel=2,
        )
        for number in range(MESSAGES)
    )
    cancel = frame.marshal(Basic.Cancel(consumer_tag="c"), 1)
    together(server, (greedy, publishes + cancel), (modest, passive("levels")))

    assert (modest.expect(Queue.DeclareOk).message_count or 0) in range(1, MESSAGES)
    bodies = [greedy.expect_delivery().body for _ in range(MESSAGES)]
    assert sorted(bodies) == sorted(b"%d" % number for number in range(MESSAGES))
    greedy.expect(Basic.CancelOk)
    assert modest.ready_count("levels") == 0


@pytest.mark.parametrize(
    "arguments",
    [{"x-max-priority": 1}, {"x-message-ttl": 3_600_000}, {"x-max-length-bytes": 1 << 20}],
    ids=["priority", "lifetime", "size"],
)
def test_a_queue_that_looks_at_each_message_gets_many_of_them_in_steps(
    arguments: dict[str, int], server: ThreadedServer, clients: tuple[AmqpClient, AmqpClient]
) -> None:
    greedy, modest = clients
    greedy.declare("q", arguments=arguments)
    bodies = [b"%d" % number for number in range(MESSAGES)]
    octets = b"".join(
        greedy.publish_octets(Basic.Publish(routing_key="q"), body, Basic.Properties())
        for body in bodies
    )
    together(server, (greedy, octets), (modest, passive("q")))

    assert (modest.expect(Queue.DeclareOk).message_count or 0) < MESSAGES
    while greedy.expect(Basic.Ack).delivery_tag != MESSAGES:
        pass
    taken = [modest.get("q") for _ in bodies]
    assert [each.body for each in taken if each] == bodies


def test_neighbours_for_queues_that_look_at_each_message_go_in_steps(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Few queues, so that only what they look at makes steps of the publishes.
    monkeypatch.setattr("amqp_server.broker.publishing.publish_batch.STEP_QUEUES", 64)
    monkeypatch.setattr("amqp_server.broker.publishing.publishing.STEP_QUEUES", 64)
    greedy, modest = clients
    names = ["even", "odd"]
    for name in names:
        greedy.declare(name, arguments={"x-max-priority": 1})
        greedy.publish(b"known", name, properties=Basic.Properties())
        greedy.expect_confirmed()
    octets = b"".join(
        greedy.publish_octets(
            Basic.Publish(routing_key=names[number % 2]), b"%d" % number, Basic.Properties()
        )
        for number in range(MESSAGES)
    )
    together(server, (greedy, octets), (modest, passive("odd")))

    assert modest.expect(Queue.DeclareOk).message_count == 1
    while greedy.expect(Basic.Ack).delivery_tag != len(names) + MESSAGES:
        pass
    for first, name in enumerate(names):
        taken = [modest.get(name) for _ in range(1 + MESSAGES // 2)]
        wanted = [b"known", *(b"%d" % number for number in range(first, MESSAGES, 2))]
        assert [each.body for each in taken if each] == wanted


def test_the_channels_of_a_client_that_reads_again_are_woken_in_steps(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    greedy, _ = clients
    for number in range(2, 6):
        greedy.open_channel(number)
    woken = list[int]()
    monkeypatch.setattr(
        BrokerChannel, "wake_consumers", lambda channel: woken.append(channel.number)
    )
    session = connection_of(server, greedy)._session
    assert session is not None

    def wake() -> list[int]:
        session.wake_consumers()
        return list(woken)

    assert server.call(wake) == [1]
    server.wait_until(lambda: len(woken) == 5)
    assert woken == [1, 2, 3, 4, 5]


def test_a_queue_is_woken_once_for_all_consumers_of_a_channel(
    server: ThreadedServer,
    clients: tuple[AmqpClient, AmqpClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    greedy, _ = clients
    for name in ("q", "r"):
        greedy.declare(name)
        for number in range(20):
            greedy.call(Basic.Consume(queue=name, consumer_tag=f"{name}{number}"), Basic.ConsumeOk)
    woken = list[str]()
    wake = BrokerQueue.wake

    def counted(queue: BrokerQueue, *task_queue: TaskQueue) -> None:
        woken.append(queue.name)
        wake(queue, *task_queue)

    monkeypatch.setattr(BrokerQueue, "wake", counted)

    greedy.call(Basic.Qos(prefetch_count=9, global_=True), Basic.QosOk)

    assert woken == ["q", "r"]
