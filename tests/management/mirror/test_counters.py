"""Each counter agrees with what a real client did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, ConnectionLostError, connect
from tests.management.mirror.conftest import Observed


@pytest.fixture
def client(observed: Observed) -> Iterator[AmqpClient]:
    with connect(observed.server.address) as client:
        client.open_channel()
        yield client


async def stats(observed: Observed, what: str, name: str) -> dict[str, int]:
    """Return the message_stats of a queue or an exchange of virtual host /."""
    await observed.mirror.refresh()
    found: dict[str, int] = getattr(observed.mirror, what)["/", name].fields.get(
        "message_stats", {}
    )
    return found


async def of_all(observed: Observed) -> tuple[dict[str, int], dict[str, int], dict[str, Any]]:
    """Return the message_stats of the only channel and of virtual host /, and the overview."""
    await observed.mirror.refresh()
    (channel,) = observed.mirror.channels.values()
    vhost: dict[str, int] = observed.mirror.vhosts["/"].fields.get("message_stats", {})
    found: dict[str, int] = channel.fields["message_stats"]
    return found, vhost, observed.mirror.overview.fields


async def test_nothing_is_counted_before_it_happens(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    assert await stats(observed, "queues", "q") == {}
    channel, vhost, overview = await of_all(observed)
    assert channel == vhost == overview["message_stats"] == {}
    assert "message_stats" not in observed.mirror.exchanges["/", "amq.direct"].fields


async def test_publishes_and_confirms(observed: Observed, client: AmqpClient) -> None:
    client.declare("q")
    client.publish(b"before", "q")
    client.call(Confirm.Select(), Confirm.SelectOk)
    for _ in range(4):
        client.publish(b"hello", "q")
        client.expect(Basic.Ack)
    assert (await stats(observed, "queues", "q"))["publish"] == 5
    of_exchange = {"publish_in": 5, "publish_out": 5, "confirm": 4}
    assert await stats(observed, "exchanges", "") == of_exchange
    channel, vhost, overview = await of_all(observed)
    assert channel == {"publish": 5, "confirm": 4}
    assert vhost == channel
    assert overview["message_stats"] == channel
    assert overview["publishers"] == 1
    assert overview["publish_confirm"] == 4
    assert overview["routed"] == 5


async def test_messages_that_a_full_queue_refuses(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"taken", "q")
    client.expect(Basic.Ack)
    for _ in range(3):
        client.publish(b"refused", "q")
        client.expect(Basic.Nack)
    assert await stats(observed, "queues", "q") == {
        "publish": 1,
        "publish_refused": 3,
        "disk_writes": 1,
    }


async def test_messages_that_a_full_queue_refuses_in_a_commit(
    observed: Observed, client: AmqpClient
) -> None:
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.call(Tx.Select(), Tx.SelectOk)
    for _ in range(2):
        client.publish(b"refused", "q")
    client.send(Tx.Commit())
    client.expect(Channel.Close)
    assert await stats(observed, "queues", "q") == {"publish_refused": 2}


async def test_a_fan_out_counts_each_copy(observed: Observed, client: AmqpClient) -> None:
    for name in ("a", "b", "c"):
        client.declare(name, durable=False)
        client.call(Queue.Bind(queue=name, exchange="amq.fanout"), Queue.BindOk)
    for _ in range(2):
        client.publish(b"hello", "", "amq.fanout")
    client.ready_count("c")
    assert await stats(observed, "exchanges", "amq.fanout") == {"publish_in": 2, "publish_out": 6}
    for name in ("a", "b", "c"):
        assert (await stats(observed, "queues", name))["publish"] == 2
    _, _, overview = await of_all(observed)
    assert overview["message_stats"]["publish"] == 2
    assert overview["routed"] == 6


async def test_neighbours_with_their_own_keys(observed: Observed, client: AmqpClient) -> None:
    for name in ("a", "b"):
        client.declare(name, durable=False)
        client.call(
            Queue.Bind(queue=name, exchange="amq.topic", routing_key=f"{name}.#"), Queue.BindOk
        )
    octets = b"".join(
        client.publish_octets(
            Basic.Publish(exchange="amq.topic", routing_key=f"{key}.{number}"),
            b"hello",
            Basic.Properties(),
        )
        for number in range(50)
        for key in ("a", "b", "none")
    )
    client.send_raw(octets)
    client.ready_count("a")
    assert await stats(observed, "exchanges", "amq.topic") == {
        "publish_in": 150,
        "publish_out": 100,
        "drop_unroutable": 50,
    }
    channel, _, _ = await of_all(observed)
    assert channel == {"publish": 150, "drop_unroutable": 50}


async def test_unroutable_messages(observed: Observed, client: AmqpClient) -> None:
    client.publish(b"dropped", "nowhere", "amq.direct")
    for _ in range(2):
        client.publish(b"returned", "nowhere", "amq.direct", mandatory=True)
        client.expect_return()
    assert await stats(observed, "exchanges", "amq.direct") == {
        "publish_in": 3,
        "drop_unroutable": 1,
        "return_unroutable": 2,
    }
    channel, vhost, _ = await of_all(observed)
    assert channel == vhost == {"publish": 3, "drop_unroutable": 1, "return_unroutable": 2}


async def test_gets(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    for _ in range(3):
        client.publish(b"hello", "q")
    assert client.get("q") is not None
    got = client.get("q", no_ack=False)
    assert got is not None
    client.send(Basic.Reject(got.tag, requeue=True))
    got = client.get("q", no_ack=False)
    assert got is not None
    assert got.redelivered
    client.send(Basic.Ack(got.tag))
    assert client.get("q") is not None
    assert client.get("q") is None
    expected = {
        "publish": 3,
        "get": 2,
        "get_no_ack": 2,
        "deliver_get": 4,
        "redeliver": 1,
        "ack": 1,
        "get_empty": 1,
    }
    assert await stats(observed, "queues", "q") == expected
    channel, vhost, overview = await of_all(observed)
    assert channel == vhost == expected
    assert overview["queue_types"]["classic"]["get"] == 2
    assert overview["queue_types"]["quorum"]["get"] == 0


async def test_deliveries_and_acks(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", arguments={"x-queue-type": "quorum"})
    client.consume("q")
    for _ in range(6):
        client.publish(b"hello", "q")
    tags = [client.expect_delivery().tag for _ in range(6)]
    client.send(Basic.Ack(tags[2], multiple=True))
    client.send(Basic.Ack(tags[4]))
    client.send(Basic.Nack(tags[3], requeue=True))
    again = client.expect_delivery()
    assert again.redelivered
    client.send(Basic.Reject(again.tag, requeue=False))
    client.ready_count("q")
    expected = {"publish": 6, "deliver": 7, "deliver_get": 7, "redeliver": 1, "ack": 4}
    found = await stats(observed, "queues", "q")
    assert {name: found[name] for name in expected} == expected
    channel, vhost, overview = await of_all(observed)
    assert channel == vhost == expected
    assert overview["queue_types"]["quorum"]["deliver"] == 7
    assert overview["queue_types"]["quorum"]["ack"] == 4
    assert observed.mirror.queues["/", "q"].fields["messages_unacknowledged"] == 1


async def test_deliveries_without_acks(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    client.consume("q", no_ack=True)
    for _ in range(3):
        client.publish(b"hello", "q")
        client.expect_delivery()
    expected = {"publish": 3, "deliver_no_ack": 3, "deliver_get": 3}
    assert await stats(observed, "queues", "q") == expected
    channel, vhost, _ = await of_all(observed)
    assert channel == vhost == expected


async def test_transactions_count_at_the_commit(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    client.publish(b"first", "q")
    client.call(Tx.Select(), Tx.SelectOk)
    got = client.get("q", no_ack=False)
    assert got is not None
    client.publish(b"hello", "q")
    client.publish(b"lost", "nowhere")
    client.send(Basic.Ack(got.tag))
    client.ready_count("q")
    channel, _, _ = await of_all(observed)
    assert channel == {"publish": 1, "get": 1, "deliver_get": 1}
    (row,) = observed.mirror.channels.values()
    assert row.fields["messages_uncommitted"] == 2
    assert row.fields["acks_uncommitted"] == 1
    client.call(Tx.Commit(), Tx.CommitOk)
    channel, vhost, _ = await of_all(observed)
    assert channel == vhost
    assert channel == {"publish": 3, "get": 1, "deliver_get": 1, "ack": 1, "drop_unroutable": 1}
    (row,) = observed.mirror.channels.values()
    assert row.fields["messages_uncommitted"] == 0
    assert row.fields["acks_uncommitted"] == 0
    client.publish(b"rolled back", "q")
    client.call(Tx.Rollback(), Tx.RollbackOk)
    channel, _, _ = await of_all(observed)
    assert channel["publish"] == 3


async def test_streams(observed: Observed, client: AmqpClient) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    for _ in range(3):
        client.publish(b"hello", "s")
    client.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
    tag = [client.expect_delivery().tag for _ in range(3)][-1]
    client.send(Basic.Ack(tag, multiple=True))
    client.ready_count("s")
    found = await stats(observed, "queues", "s")
    assert found["publish"] == 3
    assert found["deliver"] == 3
    assert found["ack"] == 3
    fields = observed.mirror.queues["/", "s"].fields
    assert fields["type"] == "stream"
    assert fields["consumers"] == 1
    assert fields["messages_ready"] == 3
    _, _, overview = await of_all(observed)
    assert overview["queue_types"]["stream"]["deliver"] == 3


async def test_dead_letters_by_reason(observed: Observed, client: AmqpClient) -> None:
    client.declare("dead", durable=False)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("rejected", durable=False, arguments=arguments)
    client.publish(b"hello", "rejected")
    got = client.get("rejected", no_ack=False)
    assert got is not None
    client.send(Basic.Reject(got.tag, requeue=False))
    client.declare("short", durable=False, arguments={"x-max-length": 1})
    for _ in range(3):
        client.publish(b"hello", "short")
    assert client.ready_count("short") == 1
    observed.server.wait_until(
        lambda: observed.server.server.broker.vhosts["/"].queues["dead"].ready_count == 1
    )
    await observed.mirror.refresh()
    assert observed.mirror.overview.fields["dead_letters"] == {
        "classic": {"disabled": {"maxlen": 2}, "at_most_once": {"rejected": 1}}
    }
    # A dead letter arrives in its queue as any message does.
    assert (await stats(observed, "queues", "dead"))["publish"] == 1


async def test_sizes_of_messages(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    sizes = [0, 100, 101, 1000, 10_000, 10_001, 100_000, 1_000_001]
    for size in sizes:
        client.publish(b"x" * size, "q")
    assert client.ready_count("q") == len(sizes)
    await observed.mirror.refresh()
    found = observed.mirror.overview.fields["message_size_bytes"]
    assert found["bounds"][:5] == [100, 1000, 10_000, 100_000, 1_000_000]
    assert found["counts"] == [2, 2, 1, 2, 0, 1, 0, 0, 0]
    assert found["sum"] == sum(sizes)


async def test_what_comes_and_goes(observed: Observed, client: AmqpClient) -> None:
    client.open_channel(2)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 2)
    for _ in range(2):
        client.declare("q", durable=False)
    client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
    with connect(observed.server.address) as other:
        other.open_channel()
        other.declare("own", durable=False, exclusive=True)
    observed.server.wait_until(lambda: len(observed.server.connections) == 1)
    observed.server.wait_until(lambda: not observed.server.server.broker.vhosts["/"].queues)
    await observed.mirror.refresh()
    assert observed.mirror.overview.fields["churn_rates"] == {
        "connection_created": 2,
        "connection_closed": 1,
        "channel_created": 3,
        "channel_closed": 2,
        "queue_declared": 3,
        "queue_created": 2,
        "queue_deleted": 2,
    }


async def test_logins(observed: Observed, client: AmqpClient) -> None:
    with (
        pytest.raises((AssertionError, ConnectionLostError)),
        connect(observed.server.address, password="wrong"),
    ):
        pass
    await observed.mirror.refresh()
    assert observed.mirror.overview.fields["auth_attempts"] == {
        "auth_attempts": 2,
        "auth_attempts_failed": 1,
        "auth_attempts_succeeded": 1,
    }


async def test_octets_of_connections(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    await observed.mirror.refresh()
    (row,) = observed.mirror.connections.values()
    received, sent = row.fields["recv_oct"], row.fields["send_oct"]
    octets = client.publish_octets(Basic.Publish(routing_key="q"), b"x" * 5000, Basic.Properties())
    client.send_raw(octets)
    got = client.get("q")
    assert got is not None
    await observed.mirror.refresh()
    assert row.fields["recv_oct"] - received > len(octets)
    assert row.fields["recv_oct"] - received < len(octets) + 50
    assert 5000 < row.fields["send_oct"] - sent < 5200
    assert row.fields["recv_cnt"] > 0
    assert row.fields["frame_max"] == client.frame_max
    assert row.fields["auth_mechanism"] == "PLAIN"
    assert row.fields["peer_host"] == "127.0.0.1"
    assert row.fields["port"] == observed.server.address[1]
    vhost = observed.mirror.vhosts["/"]
    assert vhost.fields["recv_oct"] == row.fields["recv_oct"]
    client.close()
    observed.server.wait_until(lambda: not observed.server.connections)
    before = vhost.fields["recv_oct"]
    await observed.mirror.refresh()
    assert vhost.fields["recv_oct"] > before
    assert observed.mirror.overview.fields["recv_oct"] == vhost.fields["recv_oct"]


async def test_what_the_disk_did(observed: Observed, client: AmqpClient) -> None:
    await observed.mirror.refresh()
    before = dict(observed.mirror.node.fields)
    client.declare("q")
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"x" * 5000, "q")
    client.expect(Basic.Ack)
    await observed.mirror.refresh()
    after = observed.mirror.node.fields
    assert after["io_write_bytes"] - before["io_write_bytes"] > 5000
    assert after["io_sync_count"] > before["io_sync_count"]
    assert sum(after["fsync_seconds"]["counts"]) == after["io_sync_count"]
    assert (await stats(observed, "queues", "q"))["disk_writes"] == 1
    fields = observed.mirror.queues["/", "q"].fields
    assert fields["log_bytes"] > 5000
    assert fields["segments"] == 1
    assert fields["recovery_point"] == fields["log_end_offset"] == 1


async def test_a_deleted_virtual_host_still_counts(observed: Observed, client: AmqpClient) -> None:
    client.declare("q", durable=False)
    await observed.client.call("vhosts.add", {"name": "other"})
    with connect(observed.server.address, vhost="other") as other:
        other.open_channel()
        other.declare("q", durable=False)
        other.publish(b"hello", "q")
        assert other.get("q") is not None
    await observed.mirror.refresh()
    assert set(observed.mirror.vhosts) == {"/", "other"}
    await observed.client.call("vhosts.delete", {"name": "other"})
    await observed.mirror.refresh()
    assert set(observed.mirror.vhosts) == {"/"}
    assert set(observed.mirror.queues) == {("/", "q")}
    assert observed.mirror.overview.fields["message_stats"] == {
        "publish": 1,
        "get_no_ack": 1,
        "deliver_get": 1,
    }


async def test_a_deleted_exchange_is_gone(observed: Observed, client: AmqpClient) -> None:
    client.call(Exchange.Declare(exchange="x"), Exchange.DeclareOk)
    client.publish(b"hello", "", "x")
    assert (await stats(observed, "exchanges", "x"))["publish_in"] == 1
    client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
    await observed.mirror.refresh()
    assert ("/", "x") not in observed.mirror.exchanges
    assert observed.mirror.vhosts["/"].fields["message_stats"]["publish"] == 1
