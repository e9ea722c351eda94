"""What channels, exchanges and queues did with each other agrees with what clients did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, AnyPublish, connect
from tests.management.mirror.conftest import Observed

Found = dict[tuple[str, ...], dict[str, int]]


@pytest.fixture
def client(observed: Observed) -> Iterator[AmqpClient]:
    with connect(observed.server.address) as client:
        client.open_channel()
        yield client


async def pairs(observed: Observed, kind: str) -> Found:
    """Return the counters of all pairs of a kind, without names of channels and virtual hosts."""
    await observed.mirror.refresh()
    found: Found = {}
    for pair in observed.mirror.pairs[kind]:
        names = tuple(end[1] for end in pair.ends if isinstance(end, tuple))
        assert names not in found, "there is one channel"
        found[names] = pair.stats
    return found


async def sums(observed: Observed) -> dict[str, int]:
    await observed.mirror.refresh()
    found: dict[str, int] = observed.mirror.vhosts["/"].fields["message_stats"]
    return found


def bind(client: AmqpClient, queue: str, exchange: str, key: str = "k") -> None:
    bound = Queue.Bind(queue=queue, exchange=exchange, routing_key=key)
    client.call(bound, Queue.BindOk)


async def test_publishes_count_by_exchange_and_by_queue(
    observed: Observed, client: AmqpClient
) -> None:
    for queue in ("a", "b"):
        client.declare(queue, durable=False)
        bind(client, queue, "amq.fanout")
    client.call(Confirm.Select(), Confirm.SelectOk)
    for exchange, key in (("", "a"), ("amq.fanout", "x"), ("", "a"), ("amq.direct", "nowhere")):
        client.publish(b"m", key, exchange=exchange)
        client.expect(Basic.Ack)
    assert await pairs(observed, "publishes") == {
        ("",): {"publish": 2, "confirm": 2},
        ("amq.fanout",): {"publish": 1, "confirm": 1},
        ("amq.direct",): {"publish": 1, "confirm": 1, "drop_unroutable": 1},
    }
    assert await pairs(observed, "incoming") == {
        ("", "a"): {"publish": 2},
        ("amq.fanout", "a"): {"publish": 1},
        ("amq.fanout", "b"): {"publish": 1},
    }
    fanout = observed.mirror.exchanges["/", "amq.fanout"].fields["message_stats"]
    assert fanout == {"publish_in": 1, "publish_out": 2, "confirm": 1}


async def test_neighbours_of_several_exchanges_count_for_their_own(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", durable=False)
    bind(client, "q", "amq.direct")
    client.call(Confirm.Select(), Confirm.SelectOk)
    methods = [AnyPublish(0, "", "q"), AnyPublish(0, "amq.direct", "k")] * 10
    octets = [client.publish_octets(method, b"m", Basic.Properties()) for method in methods]
    client.send_raw(b"".join(octets))
    while client.expect(Basic.Ack).delivery_tag != len(methods):
        pass
    assert await pairs(observed, "publishes") == {
        ("",): {"publish": 10, "confirm": 10},
        ("amq.direct",): {"publish": 10, "confirm": 10},
    }
    assert await pairs(observed, "incoming") == {
        ("", "q"): {"publish": 10},
        ("amq.direct", "q"): {"publish": 10},
    }


async def test_an_exchange_between_counts_for_the_one_that_was_named(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", durable=False)
    bind(client, "q", "amq.fanout")
    between = Exchange.Bind(source="amq.direct", destination="amq.fanout", routing_key="k")
    client.call(between, Exchange.BindOk)
    client.publish(b"m", "k", exchange="amq.direct")
    client.call(Queue.Declare(queue="q", passive=True), Queue.DeclareOk)
    assert await pairs(observed, "incoming") == {("amq.direct", "q"): {"publish": 1}}
    assert await pairs(observed, "publishes") == {("amq.direct",): {"publish": 1}}


async def test_dead_letters_are_nobodys_publishes(observed: Observed, client: AmqpClient) -> None:
    client.declare("dead", durable=False)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("q", durable=False, arguments=arguments)
    client.publish(b"m", "q")
    got = client.get("q", no_ack=False)
    assert got is not None
    client.send(Basic.Reject(delivery_tag=got.tag, requeue=False))
    while not client.ready_count("dead"):
        pass
    assert await pairs(observed, "incoming") == {("", "q"): {"publish": 1}}
    assert await pairs(observed, "deliveries") == {("q",): {"get": 1, "deliver_get": 1}}


async def test_a_commit_counts_publishes_and_acks(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    client.publish(b"m", "q")
    client.call(Tx.Select(), Tx.SelectOk)
    got = client.get("q", no_ack=False)
    assert got is not None
    client.send(Basic.Ack(delivery_tag=got.tag))
    client.publish(b"m", "q")
    assert await pairs(observed, "publishes") == {("",): {"publish": 1}}
    client.call(Tx.Commit(), Tx.CommitOk)
    assert await pairs(observed, "publishes") == {("",): {"publish": 2}}
    assert await pairs(observed, "incoming") == {("", "q"): {"publish": 2}}
    assert await pairs(observed, "deliveries") == {("q",): {"get": 1, "deliver_get": 1, "ack": 1}}


async def test_sums_keep_what_pairs_have_counted_that_are_gone(
    observed: Observed, client: AmqpClient
) -> None:
    client.call(Exchange.Declare(exchange="x", exchange_type="fanout"), Exchange.DeclareOk)
    client.declare("q", durable=False)
    client.declare("kept", durable=False)
    for queue in ("q", "kept"):
        bind(client, queue, "x")
    for _ in range(3):
        client.publish(b"m", "", exchange="x")
    for no_ack in (True, False):
        assert client.get("q", no_ack=no_ack) is not None
    before = await sums(observed)
    client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
    assert await pairs(observed, "incoming") == {("x", "kept"): {"publish": 3}}
    assert await pairs(observed, "deliveries") == {}
    assert observed.mirror.exchanges["/", "x"].fields["message_stats"]["publish_out"] == 6
    client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
    assert await pairs(observed, "publishes") == await pairs(observed, "incoming") == {}
    (channel,) = observed.mirror.channels.values()
    assert channel.fields["message_stats"]["publish"] == 3
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    assert await sums(observed) == before
    assert before == {"publish": 3, "get": 1, "get_no_ack": 1, "deliver_get": 2}
