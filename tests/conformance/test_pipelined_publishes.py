"""A client sends publishes with different routing keys in one write."""

from collections.abc import Sequence

from pamqp.commands import Basic, Exchange, Queue, Tx

from tests.amqp_client import PERSISTENT, AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import drain
from tests.conformance.errors import expect_connection_error
from tests.conformance.queues import await_ready_count
from tests.conformance.routing import bind_queue

COUNT = 60
Target = tuple[str, str]
"""Exchange and routing key."""


def publish_all(
    client: AmqpClient,
    targets: Sequence[Target],
    *,
    properties: Sequence[Basic.Properties] = (Basic.Properties(),),
    mandatory: bool = False,
) -> None:
    """Send a message to each target in one write; its body is its number."""
    octets = [
        client.publish_octets(
            Basic.Publish(0, exchange, key, mandatory),
            b"%d" % number,
            properties[number % len(properties)],
        )
        for number, (exchange, key) in enumerate(targets)
    ]
    client.published[1] += len(octets)
    client.send_raw(b"".join(octets))


def numbered(numbers: Sequence[int]) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_every_queue_has_its_messages_in_the_order_of_the_publishes(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    odd, third, every, exchange = (new_name() for _ in range(4))
    client.call(Exchange.Declare(exchange=exchange, exchange_type="topic"), Exchange.DeclareOk)
    for queue, pattern in ((odd, "odd.*"), (third, "*.third"), (every, "#")):
        client.declare(queue)
        bind_queue(client, queue, exchange, pattern)
    keys = [
        f"{'odd' if at % 2 else 'even'}.{'third' if at % 3 == 0 else 'other'}"
        for at in range(COUNT)
    ]
    properties = (PERSISTENT, Basic.Properties())
    publish_all(client, [(exchange, key) for key in keys], properties=properties)
    client.expect_confirmed()
    assert client.ready_count(every) == COUNT
    assert drain(client, every) == numbered(range(COUNT))
    assert drain(client, odd) == numbered(range(1, COUNT, 2))
    assert drain(client, third) == numbered(range(0, COUNT, 3))


def test_all_are_confirmed_although_one_key_has_no_queue(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    queues = [new_name() for _ in range(4)]
    for at, queue in enumerate(queues[:3]):
        client.declare(queue, durable=at < 2)
    publish_all(client, [("", queues[at % 4]) for at in range(COUNT)], properties=(PERSISTENT,))
    client.expect_confirmed()
    for at in range(3):
        assert drain(client, queues[at]) == numbered(range(at, COUNT, 4))


def test_only_the_messages_of_a_full_queue_are_refused(connect: Connect, new_name: NewName) -> None:
    client = connect(confirms=True)
    small, large = new_name(), new_name()
    client.declare(small, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    client.declare(large)
    publish_all(client, [("", small), ("", large)] * 4)
    refused: dict[int, bool] = {}
    while len(refused) < 8:
        answer = client.receive()[1]
        assert isinstance(answer, Basic.Ack | Basic.Nack)
        assert answer.delivery_tag
        first = 1 if answer.multiple else answer.delivery_tag
        for tag in range(first, answer.delivery_tag + 1):
            refused.setdefault(tag, isinstance(answer, Basic.Nack))
    assert [tag for tag in sorted(refused) if refused[tag]] == [5, 7]
    assert drain(client, small) == numbered([0, 2])
    assert drain(client, large) == numbered([1, 3, 5, 7])


def test_mandatory_messages_without_a_queue_come_back_and_the_others_arrive(
    client: AmqpClient, name: str
) -> None:
    client.declare(name)
    keys = [name, f"{name}-nowhere", name, f"{name}-gone"]
    publish_all(client, [("", key) for key in keys], mandatory=True)
    assert [client.expect_return().body for _ in range(2)] == [b"1", b"3"]
    await_ready_count(client, name, 2)
    assert drain(client, name) == numbered([0, 2])


def test_messages_before_a_missing_exchange_are_taken_and_those_behind_it_are_not(
    client: AmqpClient, new_name: NewName
) -> None:
    first, second, missing = new_name(), new_name(), new_name()
    client.declare(first)
    client.declare(second)
    client.call(Exchange.Declare(exchange=missing), Exchange.DeclareOk)
    client.call(Exchange.Delete(exchange=missing), Exchange.DeleteOk)
    publish_all(client, [("", first), ("", second), (missing, first), ("", second)])
    client.expect_channel_close(404)
    client.open_channel()
    await_ready_count(client, first, 1)
    await_ready_count(client, second, 1)


def test_an_unbinding_holds_for_the_next_publishes(connect: Connect, new_name: NewName) -> None:
    client = connect(confirms=True)
    first, second, exchange = new_name(), new_name(), new_name()
    client.call(Exchange.Declare(exchange=exchange, exchange_type="topic"), Exchange.DeclareOk)
    for queue, pattern in ((first, "a.*"), (second, "#")):
        client.declare(queue)
        bind_queue(client, queue, exchange, pattern)
    targets = [(exchange, key) for key in ("a.1", "a.2", "b.1")]
    publish_all(client, targets)
    client.expect_confirmed()
    unbind = Queue.Unbind(queue=first, exchange=exchange, routing_key="a.*")
    client.call(unbind, Queue.UnbindOk)
    publish_all(client, targets)
    client.expect_confirmed()
    assert drain(client, second) == numbered([0, 1, 2, 0, 1, 2])
    assert drain(client, first) == numbered([0, 1])


def test_a_transaction_holds_them_back_until_its_commit(
    client: AmqpClient, new_name: NewName
) -> None:
    queues = [new_name(), new_name()]
    for queue in queues:
        client.declare(queue)
    client.call(Tx.Select(), Tx.SelectOk)
    publish_all(client, [("", queues[at % 2]) for at in range(COUNT)])
    assert client.ready_count(queues[1]) == 0
    client.call(Tx.Commit(), Tx.CommitOk)
    for at, queue in enumerate(queues):
        assert drain(client, queue) == numbered(range(at, COUNT, 2))


def test_on_a_channel_that_is_not_open_they_close_the_connection(connect: Connect) -> None:
    client = connect(channels=0)
    publish_all(client, [("", "q0"), ("", "q1"), ("", "q0")])
    text = "CHANNEL_ERROR - expected 'channel.open'"
    expect_connection_error(client, 504, text, Basic.Publish)
