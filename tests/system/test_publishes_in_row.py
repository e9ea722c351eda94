"""Publishes with a routing key each, sent in one write: put together, and yet each by itself."""

from collections.abc import Sequence

from pamqp import body, frame, header
from pamqp.commands import Basic, Connection, Exchange, Queue, Tx

from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.servers import RunningServer
from tests.system.watched import FINE, LOW_BOTH, Watched

COUNT = 60


def publish_all(
    client: AmqpClient,
    keys: Sequence[str],
    *,
    exchange: str = "",
    properties: Sequence[Basic.Properties] = (Basic.Properties(),),
    mandatory: bool = False,
) -> None:
    """Send a message for each key in one write; its body is its number."""
    octets = b""
    for number, key in enumerate(keys):
        content = str(number).encode()
        octets += frame.marshal(
            Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory), 1
        )
        shape = header.ContentHeader(0, len(content), properties[number % len(properties)])
        octets += frame.marshal(shape, 1) + frame.marshal(body.ContentBody(content), 1)
    client.send_raw(octets)


def numbers(client: AmqpClient, queue: str) -> list[int]:
    """Take all messages of a queue."""
    found: list[int] = []
    while (message := client.get(queue)) is not None:
        found.append(int(message.body))
    return found


def bind(client: AmqpClient, queue: str, exchange: str, key: str) -> None:
    """Declare a durable queue and bind it."""
    client.declare(queue, durable=True)
    client.call(Queue.Bind(queue=queue, exchange=exchange, routing_key=key), Queue.BindOk)


def test_every_queue_has_its_messages_in_the_order_of_the_publishes(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        bind(client, "odd", "amq.topic", "odd.*")
        bind(client, "all", "amq.topic", "#")
        bind(client, "third", "amq.topic", "*.third")
        keys = [
            f"{'odd' if at % 2 else 'even'}.{'third' if at % 3 == 0 else 'other'}"
            for at in range(COUNT)
        ]

        publish_all(client, keys, exchange="amq.topic", properties=(PERSISTENT, Basic.Properties()))

        assert client.ready_count("all") == COUNT
        assert numbers(client, "all") == list(range(COUNT))
        assert numbers(client, "odd") == list(range(1, COUNT, 2))
        assert numbers(client, "third") == list(range(0, COUNT, 3))


def test_all_are_confirmed_whichever_queues_they_go_to(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for at in range(3):
            client.declare(f"q{at}", durable=at < 2)
        keys = [f"q{at % 4}" for at in range(COUNT)]

        publish_all(client, keys, properties=(PERSISTENT,))

        confirmed = 0
        while confirmed < COUNT:
            confirmed = client.expect(Basic.Ack).delivery_tag or 0
        for at in range(3):
            assert numbers(client, f"q{at}") == list(range(at, COUNT, 4))


def test_only_what_a_full_queue_refuses_is_refused(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
        client.declare("small", arguments=arguments)
        client.declare("large")

        publish_all(client, ["small", "large"] * 4)

        acked, nacked = set[int](), set[int]()
        answered = 0
        while answered < 8:
            answer = client.receive()[1]
            assert isinstance(answer, Basic.Ack | Basic.Nack)
            tag = answer.delivery_tag or 0
            tags = acked if isinstance(answer, Basic.Ack) else nacked
            tags.update(range(answered + 1 if answer.multiple else tag, tag + 1))
            answered = tag
        assert nacked == {5, 7}
        assert acked == {1, 2, 3, 4, 6, 8}
        assert numbers(client, "small") == [0, 2]
        assert numbers(client, "large") == [1, 3, 5, 7]


def test_what_has_no_queue_comes_back_and_the_others_arrive(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("here")

        publish_all(client, ["here", "nowhere", "here", "gone"], mandatory=True)

        assert [client.expect_return().body for _ in range(2)] == [b"1", b"3"]
        assert numbers(client, "here") == [0, 2]


def test_what_came_before_a_missing_exchange_is_taken_in(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q0")
        client.declare("q1")
        client.call(Exchange.Declare(exchange="short-lived"), Exchange.DeclareOk)
        client.call(Exchange.Delete(exchange="short-lived"), Exchange.DeleteOk)
        octets = b""
        for exchange, key in (("", "q0"), ("", "q1"), ("short-lived", "q0"), ("", "q1")):
            octets += frame.marshal(Basic.Publish(exchange=exchange, routing_key=key), 1)
            octets += frame.marshal(header.ContentHeader(0, 0, Basic.Properties()), 1)
        client.send_raw(octets)

        client.expect_channel_close(404)
        client.open_channel(2)
        assert client.ready_count("q0", 2) == 1
        assert client.ready_count("q1", 2) == 1


def test_a_binding_that_goes_is_heeded_by_the_next_publish(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        bind(client, "a", "amq.topic", "a.*")
        bind(client, "b", "amq.topic", "#")
        publish_all(client, ["a.1", "a.2", "b.1"], exchange="amq.topic")
        client.call(
            Queue.Unbind(queue="a", exchange="amq.topic", routing_key="a.*"), Queue.UnbindOk
        )

        publish_all(client, ["a.1", "a.2", "b.1"], exchange="amq.topic")

        assert numbers(client, "b") == [0, 1, 2, 0, 1, 2]
        assert numbers(client, "a") == [0, 1]


def test_an_alarm_parks_all_of_them_in_their_order(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q0")
        client.declare("q1")
        watched.see(LOW_BOTH)
        publish_all(client, [f"q{at % 2}" for at in range(COUNT)])
        client.expect(Connection.Blocked, 0)
        client.open_channel(2)
        assert client.ready_count("q0", 2) == 0

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)

        assert numbers(client, "q0") == list(range(0, COUNT, 2))
        assert numbers(client, "q1") == list(range(1, COUNT, 2))


def test_a_transaction_holds_them_back_until_it_commits(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q0")
        client.declare("q1")
        client.call(Tx.Select(), Tx.SelectOk)
        publish_all(client, [f"q{at % 2}" for at in range(COUNT)])
        assert client.ready_count("q1") == 0

        client.call(Tx.Commit(), Tx.CommitOk)

        assert numbers(client, "q0") == list(range(0, COUNT, 2))
        assert numbers(client, "q1") == list(range(1, COUNT, 2))


def test_on_a_channel_that_is_not_open_they_end_the_connection(server: RunningServer) -> None:
    with connect(server.address) as client:
        publish_all(client, ["q0", "q1", "q0"])

        close = client.expect_connection_close(504)
        assert (close.class_id, close.method_id) == (60, 40)
