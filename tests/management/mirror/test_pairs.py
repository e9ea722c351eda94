"""What channels, exchanges and queues did with each other agrees with what clients did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from amqp_server.broker import queue as broker_queue
from amqp_server.broker.counters import reported_pairs
from amqp_server.control.client import ask
from amqp_server.control.queue_client import QueueClient
from amqp_server.management.mirror import Mirror
from tests.amqp_client import PERSISTENT, AmqpClient, AnyPublish, connect
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


async def published(observed: Observed) -> dict[str, int]:
    """Return what was published to each exchange, by the sums of the exchanges."""
    await observed.mirror.refresh()
    return {
        name: row.fields["message_stats"]["publish_in"]
        for (_, name), row in observed.mirror.exchanges.items()
        if "publish_in" in row.fields.get("message_stats", {})
    }


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


async def test_returned_messages_count_for_their_exchange(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", durable=False)
    client.call(Confirm.Select(), Confirm.SelectOk)
    for key in ("q", "nowhere", "q", "nowhere"):
        method = AnyPublish(0, "", key, mandatory=True)
        client.send_raw(client.publish_octets(method, b"m", Basic.Properties()))
        if key == "nowhere":
            assert client.expect_return().body == b"m"
        client.expect(Basic.Ack)
    assert await pairs(observed, "publishes") == {
        ("",): {"publish": 4, "confirm": 4, "return_unroutable": 2}
    }
    assert await pairs(observed, "incoming") == {("", "q"): {"publish": 2}}


async def test_requeued_messages_count_again_as_redelivered(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", durable=False)
    client.publish(b"m", "q")
    for _ in range(2):
        got = client.get("q", no_ack=False)
        assert got is not None
        client.send(Basic.Reject(delivery_tag=got.tag, requeue=True))
    assert client.get("q", no_ack=True) is not None
    assert client.get("q", no_ack=True) is None
    assert await pairs(observed, "deliveries") == {
        ("q",): {"get": 2, "get_no_ack": 1, "deliver_get": 3, "redeliver": 2, "get_empty": 1}
    }
    assert await pairs(observed, "incoming") == {("", "q"): {"publish": 1}}


async def test_each_reader_of_a_stream_counts(observed: Observed, client: AmqpClient) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    client.call(Confirm.Select(), Confirm.SelectOk)
    for _ in range(3):
        client.publish(b"m", "s", properties=PERSISTENT)
        client.expect(Basic.Ack)
    client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
    for group in ({}, {"x-consumer-group": "g"}):
        arguments: Any = {"x-stream-offset": "first", **group}
        begin = Basic.Consume(queue="s", consumer_tag="reader", arguments=arguments)
        client.call(begin, Basic.ConsumeOk)
        tags = [client.expect_delivery().tag for _ in range(3)]
        client.send(Basic.Ack(delivery_tag=tags[-1], multiple=True))
        client.call(Basic.Cancel(consumer_tag="reader"), Basic.CancelOk)
    assert await pairs(observed, "deliveries") == {
        ("s",): {"deliver": 6, "deliver_get": 6, "ack": 6}
    }
    assert await pairs(observed, "incoming") == {("", "s"): {"publish": 3}}


async def test_a_browser_counts_for_its_channel_alone(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", durable=False)
    client.publish(b"m", "q")
    client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
    client.consume("q", arguments={"x-browse": True})
    client.send(Basic.Ack(delivery_tag=client.expect_delivery().tag))
    client.ready_count("q")
    assert await pairs(observed, "deliveries") == {}
    (channel,) = observed.mirror.channels.values()
    assert channel.fields["message_stats"] == {
        "publish": 1,
        "deliver": 1,
        "deliver_get": 1,
        "ack": 1,
    }
    assert await sums(observed) == {"publish": 1}


async def test_a_queue_counts_few_exchanges_apart_and_loses_nothing(
    observed: Observed, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_queue, "INCOMING_MAX", 2)
    client.declare("q", durable=False)
    names = ["x0", "x1", "x2"]
    for name in names:
        declare = Exchange.Declare(exchange=name, exchange_type="fanout")
        client.call(declare, Exchange.DeclareOk)
        bind(client, "q", name)
    for name in names + names[::-1]:
        client.publish(b"m", "", exchange=name)
        client.ready_count("q")
        incoming = await pairs(observed, "incoming")
        assert len(incoming) <= 2
        assert (name, "q") in incoming
    found = observed.mirror.exchanges
    for name in names:
        stats = found["/", name].fields["message_stats"]
        assert (stats["publish_in"], stats["publish_out"]) == (2, 2)


async def test_pairs_beyond_the_bound_count_in_the_sums_until_there_is_room(
    observed: Observed, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported_pairs, "PAIRS_MAX", 3)
    names = ["x0", "x1", "x2", "x3", "x4"]
    for name in names:
        declare = Exchange.Declare(exchange=name, exchange_type="fanout")
        client.call(declare, Exchange.DeclareOk)
        client.publish(b"m", "", exchange=name)
    client.declare("q", durable=False)
    shown = {name for (name,) in await pairs(observed, "publishes")}
    assert len(shown) == 3
    assert await published(observed) == dict.fromkeys(names, 1)
    for name in shown:
        client.call(Exchange.Delete(exchange=name), Exchange.DeleteOk)
    left = set(names) - shown
    assert {name for (name,) in await pairs(observed, "publishes")} == left
    assert (await sums(observed))["publish"] == len(names)


async def test_a_queue_that_is_declared_again_begins_anew(
    observed: Observed, client: AmqpClient
) -> None:
    for count in (3, 1):
        client.declare("q", durable=False)
        for _ in range(count):
            client.publish(b"m", "q")
            assert client.get("q") is not None
        assert await pairs(observed, "incoming") == {("", "q"): {"publish": count}}
        assert await pairs(observed, "deliveries") == {
            ("q",): {"get_no_ack": count, "deliver_get": count}
        }
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
    # Nobody looks between the end of one and the beginning of the next.
    client.declare("q", durable=False)
    client.publish(b"m", "q")
    client.ready_count("q")
    assert await pairs(observed, "incoming") == {("", "q"): {"publish": 1}}
    assert await pairs(observed, "deliveries") == {}
    assert await pairs(observed, "publishes") == {("",): {"publish": 5}}


async def test_a_reader_that_comes_later_sees_nothing_of_an_exchange_before(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", durable=False)
    declare = Exchange.Declare(exchange="x", exchange_type="fanout")
    client.call(declare, Exchange.DeclareOk)
    bind(client, "q", "x")
    client.publish(b"m", "", exchange="x")
    assert await pairs(observed, "incoming") == {("x", "q"): {"publish": 1}}
    client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
    await observed.mirror.refresh()
    client.call(declare, Exchange.DeclareOk)
    late = Mirror(observed.client, observed.time)
    await late.refresh()
    assert [pair.ends for pair in late.pairs["incoming"]] == []
    assert await pairs(observed, "incoming") == {}


async def test_a_deleted_virtual_host_takes_its_pairs_along(
    observed: Observed, client: AmqpClient
) -> None:
    ask(observed.path, "vhosts.add", name="team")
    ask(
        observed.path,
        "permissions.set",
        user="guest",
        vhost="team",
        configure=".*",
        write=".*",
        read=".*",
    )
    with connect(observed.server.address, vhost="team") as other:
        other.open_channel()
        other.declare("q", durable=False)
        other.publish(b"m", "q")
        assert other.get("q") is not None
        assert await pairs(observed, "incoming") == {("", "q"): {"publish": 1}}
        ask(observed.path, "vhosts.delete", name="team")
        other.expect_connection_close(320)
    for kind in ("incoming", "publishes", "deliveries"):
        assert await pairs(observed, kind) == {}
    totals = observed.mirror.overview.fields["message_stats"]
    assert {name: totals[name] for name in ("publish", "get_no_ack")} == {
        "publish": 1,
        "get_no_ack": 1,
    }


async def test_moved_and_replayed_messages_are_nobodys_publishes(
    observed: Observed, client: AmqpClient
) -> None:
    client.call(Confirm.Select(), Confirm.SelectOk)
    for queue in ("q", "to"):
        client.declare(queue)
    client.publish(b"m", "q", properties=PERSISTENT)
    client.expect(Basic.Ack)
    ask(observed.path, "queues.move", vhost="/", queue="q", to="to")
    QueueClient(observed.path).replay("q", start="first")
    assert (client.ready_count("q"), client.ready_count("to")) == (1, 1)
    assert await pairs(observed, "incoming") == {("", "q"): {"publish": 1}}
    assert await pairs(observed, "publishes") == {("",): {"publish": 1, "confirm": 1}}
    assert await pairs(observed, "deliveries") == {}
