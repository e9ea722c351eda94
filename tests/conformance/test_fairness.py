"""Several consumers of one queue share its messages evenly."""

from collections import Counter

from pamqp.commands import Basic, Tx

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.consuming import (
    consume,
    expect_bodies,
    expect_quiet,
    prefetch,
    publish_all,
)
from tests.conformance.marks import differs


def test_equal_consumers_take_turns(connect: Connect, name: str) -> None:
    client, publisher = connect(), connect()
    client.declare(name)
    for tag in "abc":
        consume(client, name, tag)
    order = ""
    for _ in range(9):
        publish_all(publisher, name, [b""])
        order += client.expect_delivery().method.consumer_tag or ""  # type: ignore[union-attr]
    assert order == "abcabcabc"


def test_a_burst_is_shared_evenly(connect: Connect, name: str) -> None:
    client, publisher = connect(), connect()
    client.declare(name)
    for tag in "abc":
        consume(client, name, tag)
    publish_all(publisher, name, [b""] * 300)
    assert receivers(client, 300) == {"a": 100, "b": 100, "c": 100}


def test_consumers_with_a_limit_get_as_much_as_each_other(connect: Connect, name: str) -> None:
    client, publisher = connect(), connect()
    client.declare(name)
    prefetch(client, 5)
    for tag in "abc":
        consume(client, name, tag)
    publish_all(publisher, name, [b""] * 30)
    assert receivers(client, 15) == {"a": 5, "b": 5, "c": 5}
    expect_quiet(client, name)
    client.send(Basic.Ack(0, True))
    assert receivers(client, 15) == {"a": 5, "b": 5, "c": 5}


def test_a_consumer_at_its_limit_is_passed_over(connect: Connect, name: str) -> None:
    client, publisher = connect(), connect()
    client.declare(name)
    prefetch(client, 1)
    consume(client, name, "limited")
    consume(client, name, "free", no_ack=True)
    publish_all(publisher, name, [b""] * 6)
    assert receivers(client, 6) == {"limited": 1, "free": 5}


def test_consumers_of_several_connections_share(connect: Connect, name: str) -> None:
    clients = [connect() for _ in range(4)]
    clients[0].declare(name)
    for client in clients:
        consume(client, name, no_ack=True)
    publish_all(connect(), name, [b""] * 40)
    for client in clients:
        expect_bodies(client, 10)


def receivers(client: AmqpClient, count: int) -> Counter[str]:
    """Return how many of the next deliveries each consumer gets."""
    tags: Counter[str] = Counter()
    for _ in range(count):
        method = client.expect_delivery().method
        assert isinstance(method, Basic.Deliver)
        tags[method.consumer_tag or ""] += 1
    return tags


@differs(
    rabbitmq="one message each in turn",
    reason="work is done by the batch; the shares are equal",
)
def test_a_burst_is_shared_out_in_blocks(connect: Connect, name: str) -> None:
    client, publisher = connect(channels=2), connect()
    client.declare(name)
    consume(client, name, "a", channel=1)
    consume(client, name, "b", channel=2)
    publisher.call(Tx.Select(), Tx.SelectOk)
    for number in range(8):
        publisher.publish(b"%d" % number, name)
    publisher.call(Tx.Commit(), Tx.CommitOk)
    shares = [[client.expect_delivery(channel).body for _ in range(4)] for channel in (1, 2)]
    assert sorted(shares) == [[b"0", b"1", b"2", b"3"], [b"4", b"5", b"6", b"7"]]
