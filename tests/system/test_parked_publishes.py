"""The publishes of a blocked connection wait: none is lost, and their order stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Confirm, Connection, Queue, Tx

from tests.amqp_client import PERSISTENT, connect
from tests.system.watched import (
    FINE,
    LIMITS,
    LOW_BOTH,
    LOW_DISK,
    LOW_MEMORY,
    MIB,
    SetSensor,
    Watched,
    take_all,
)
from tests.threaded_server import ThreadedServer


def test_a_blocked_connection_continues_to_consume_on_the_same_channel(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(3):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        watched.see(LOW_DISK)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)

        client.consume("q", prefetch=1)
        for number in range(3):
            delivery = client.expect_delivery()
            assert delivery.body == b"%d" % number
            client.send(Basic.Ack(delivery.tag))
        assert client.get("q") is None

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)


def test_methods_behind_a_parked_publish_wait_on_its_channel(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q", durable=False)
        watched.see(LOW_MEMORY)
        client.publish(b"unconfirmed", "q")
        client.send(Confirm.Select())
        client.published[1] = 0
        client.publish(b"confirmed", "q")
        client.send(Queue.Purge(queue="q"))
        client.publish(b"last", "q")
        client.expect(Connection.Blocked, 0)
        # Another channel is not held up by it.
        client.open_channel(2)
        assert client.ready_count("q", 2) == 0

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Confirm.SelectOk)
        # The confirm may come first: a slice may be over behind the publish.
        while not isinstance(answer := client.receive()[1], Queue.PurgeOk):
            assert isinstance(answer, Basic.Ack)
        assert answer.message_count == 2
        client.expect_confirmed()
        message = client.get("q")
        assert message is not None
        assert message.body == b"last"


def test_publishes_in_one_write_wait_and_keep_their_order(watched: Watched) -> None:
    count = 60
    with watched.connect() as client:
        client.open_channel()
        for at in range(2):
            client.declare(f"q{at}")
        watched.see(LOW_BOTH)
        client.send_raw(
            b"".join(
                client.publish_octets(
                    Basic.Publish(routing_key=f"q{at % 2}"), b"%d" % at, Basic.Properties()
                )
                for at in range(count)
            )
        )
        client.expect(Connection.Blocked, 0)
        client.open_channel(2)
        assert client.ready_count("q0", 2) == 0

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)

        for at in range(2):
            assert take_all(client, f"q{at}") == [b"%d" % each for each in range(at, count, 2)]


def test_a_consume_does_not_overtake_a_parked_declare(watched: Watched) -> None:
    """A queue that was declared without an answer was not there for the consumer behind it."""
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"unacked", "q")
        message = client.get("q", no_ack=False)
        assert message is not None
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.send(Queue.Declare(queue="new", nowait=True))
        client.send(Basic.Consume(queue="new"))
        client.expect(Connection.Blocked, 0)
        client.send(Basic.Ack(message.tag))
        queue = watched.server.server.broker.vhosts["/"].queues["q"]
        watched.server.wait_until(lambda: queue.settlement.ack_floor == 1)

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Basic.ConsumeOk)


def test_an_ack_behind_a_parked_tx_select_belongs_to_the_transaction(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"unacked", "q")
        message = client.get("q", no_ack=False)
        assert message is not None
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.send(Tx.Select())
        client.send(Basic.Ack(message.tag))
        client.send(Tx.Rollback())
        client.expect(Connection.Blocked, 0)

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Tx.SelectOk)
        client.expect(Tx.RollbackOk)
        client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        assert client.ready_count("q") == 2


def test_a_transactional_channel_parks_all_methods_in_their_order(watched: Watched) -> None:
    """An acknowledgement belongs to the commit that follows it, not to the one before."""
    with watched.connect() as client:
        client.open_channel()
        client.declare("q", durable=False)
        client.call(Tx.Select(), Tx.SelectOk)
        client.publish(b"first", "q")
        client.call(Tx.Commit(), Tx.CommitOk)
        client.consume("q")
        tag = client.expect_delivery().tag
        watched.see(LOW_MEMORY)
        client.publish(b"second", "q")
        client.send(Tx.Commit())
        client.send(Basic.Ack(tag))
        client.send(Tx.Rollback())
        client.expect(Connection.Blocked, 0)

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Tx.CommitOk)
        # The delivery may come first: a slice may be over behind the commit.
        answer = client.receive()[1]
        if isinstance(answer, Basic.Deliver):
            assert client.message_of(answer).body == b"second"
            client.expect(Tx.RollbackOk)
        else:
            assert isinstance(answer, Tx.RollbackOk)
            assert client.expect_delivery().body == b"second"
        client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
        client.open_channel()
        assert client.ready_count("q") == 2  # the acknowledgement was rolled back


def test_parked_messages_keep_their_order_whatever_their_size(watched: Watched) -> None:
    bodies = [b"small", bytes(300_000), b"", b"small too", bytes(140_000)]
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        for body in bodies:
            client.publish(body, "q")
        client.expect(Connection.Blocked, 0)

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect_confirmed()
        assert take_all(client) == bodies


def test_a_message_that_began_before_the_alarm_can_be_completed(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        octets = client.publish_octets(Basic.Publish(0, "", "q"), bytes(300_000), PERSISTENT)
        client.send_raw(octets[:200_000])
        budget = watched.server.server.broker.assembly_budget
        watched.server.wait_until(lambda: budget.held_bytes > 0)
        watched.see(LOW_DISK)
        client.send_raw(octets[200_000:])
        client.expect(Basic.Ack)
        # An acknowledgement is not taken for a torn message.
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        assert client.get("q") is not None


def test_a_blocked_connection_beyond_its_limit_is_not_read(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        watched.wait_for_pause()
        parked = watched.server.call(
            lambda: max(
                each._session.parked.held_bytes
                for each in watched.server.connections
                if each._session is not None
            )
        )
        assert LIMITS.parked_bytes_per_connection_max < parked < MIB
        client.send(Queue.Declare(queue="unread"))

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Queue.DeclareOk)
        client.expect_confirmed()
        assert client.ready_count("q") == 100


def test_blocked_connections_share_the_limit_of_parked_bytes(tmp_path: Path) -> None:
    """Each had its own room only: thousands of them took what memory was left."""
    limits = replace(LIMITS, parked_bytes_max=40 * 1024)
    sensor = SetSensor()
    with ThreadedServer(tmp_path, limits=limits, sensor=sensor) as server:
        watched = Watched(server, sensor)
        with watched.connect() as large, watched.connect() as small:
            for client in (large, small):
                client.open_channel()
                client.declare("q")
            watched.see(LOW_MEMORY)
            small.publish(b"first", "q")
            small.expect(Connection.Blocked, 0)
            assert not server.call(lambda: any(c._pauses for c in server.connections))
            large.publish(b"large" * 10_000, "q")
            watched.wait_for_pause()
            small.publish(b"last", "q")
            server.wait_until(lambda: all("parked" in c._pauses for c in server.connections))

            watched.see(FINE)
            small.expect(Connection.Unblocked, 0)
            small.call(Channel.Flow(active=True), Channel.FlowOk)
            assert len(take_all(small)) == 3
            assert server.server.context.parked_budget.held_bytes == 0


def test_with_a_full_disk_confirming_publishers_get_nacks(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_DISK)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        tag = 0
        while tag != 100:
            nack = client.expect(Basic.Nack)
            tag = nack.delivery_tag or 0
        client.publish(b"refused at once", "q")
        assert client.expect(Basic.Nack).delivery_tag == 101

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.publish(b"taken", "q")
        assert client.expect(Basic.Ack).delivery_tag == 102
        assert client.ready_count("q") == 1


def test_with_a_full_disk_a_publisher_without_confirms_waits(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_DISK)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        watched.wait_for_pause()

        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        assert client.ready_count("q") == 100


def test_one_read_refuses_the_publishes_of_many_channels(watched: Watched) -> None:
    """Each released its parked methods while it handled another: the stack ran out."""
    with watched.connect() as client:
        client.open_channel()
        numbers = range(2, 1202)
        for number in numbers:
            client.open_channel(number, confirms=True)
        (connection,) = watched.server.connections
        watched.see(LOW_DISK)
        method = Basic.Publish(0, "", "nobody")
        octets = client.publish_octets(method, bytes(70_000), PERSISTENT, 1)
        for number in numbers:
            octets += client.publish_octets(method, b"x", PERSISTENT, number)
        session = connection._session
        assert session is not None
        read = bytearray(octets)

        def receive() -> None:
            # On a busy machine the turn has no time left: the rest is handled in a later one.
            connection.rest = bytes(read[session.receive(read, 0, len(read)) :])

        watched.server.call(receive)
        client.expect(Connection.Blocked, 0)
        for number in numbers:
            assert client.expect(Basic.Nack, number).delivery_tag == 1


def test_a_memory_alarm_beside_a_disk_alarm_keeps_refusing(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        for _ in range(100):
            client.publish(bytes(1000), "q")
        client.expect(Connection.Blocked, 0)
        watched.wait_for_pause()
        watched.see(LOW_BOTH)  # now there is no disk to spill to either
        assert client.expect(Basic.Nack).delivery_tag
        watched.see(LOW_MEMORY)
        watched.see(FINE)


@pytest.mark.parametrize("of_what", ["channel", "connection"])
def test_a_close_waits_for_a_limited_time_and_loses_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, of_what: str
) -> None:
    monkeypatch.setattr("amqp_server.connections.parked_publishes.CLOSE_WAIT_SECONDS", 0.05)
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        if of_what == "channel":
            client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
            client.open_channel()
            client.publish(b"parked again", "q")
            assert watched.ready_count("q") == 1
        else:
            client.close()
            assert watched.ready_count("q") == 1


def test_a_close_behind_a_parked_publish_is_answered_when_the_alarm_ends(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp_server.connections.parked_publishes.CLOSE_WAIT_SECONDS", 60)
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        client.send(Connection.Close(200, "done", 0, 0), 0)
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        client.expect(Connection.CloseOk, 0)
        assert watched.ready_count("q") == 1


def test_parked_messages_survive_a_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp_server.connections.client_timeouts.CLOSE_SECONDS_MAX", 0.1)
    sensor = SetSensor()
    with ThreadedServer(tmp_path / "data", limits=LIMITS, sensor=sensor) as server:
        watched = Watched(server, sensor)
        client = watched.connect()
        client.open_channel(confirms=True)
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        server.stop()
        client.socket.close()
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("q") == 1


def test_a_vhost_that_is_deleted_closes_a_blocked_connection_with_its_own_reason(
    watched: Watched,
) -> None:
    """What waited behind the parked publish opened a channel in a virtual host that was gone."""
    server = watched.server
    server.run(lambda: server.server.vhost_changes.create("v"))
    with connect(watched.address, vhost="v") as client:
        client.open_channel(2)
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.send(Channel.Close(200, "done", 0, 0))
        client.send(Channel.Open())
        # Answered, and so behind all that waits.
        client.call(Channel.Flow(active=True), Channel.FlowOk, 2)
        server.run(lambda: server.server.vhost_changes.delete("v"))
        client.expect(Channel.CloseOk)
        client.expect_connection_close(320)


def test_the_parked_messages_of_a_lost_connection_are_discarded(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
    watched.server.wait_until(lambda: not watched.server.server.connections)
    watched.see(FINE)
    assert watched.ready_count("q") == 0


def test_a_channel_error_discards_the_parked_messages_of_that_channel(watched: Watched) -> None:
    with watched.connect() as client:
        client.open_channel()
        client.declare("q")
        watched.see(LOW_MEMORY)
        client.publish(b"parked", "q")
        client.expect(Connection.Blocked, 0)
        client.send(Basic.Ack(77))
        client.expect_channel_close(406)
        client.open_channel()
        watched.see(FINE)
        client.expect(Connection.Unblocked, 0)
        assert client.ready_count("q") == 0
