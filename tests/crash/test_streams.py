"""After a stop, a kill and a start a stream has each message once, at its offset."""

import pytest
from pamqp.commands import Basic, Queue, Tx

from tests.amqp_client import AmqpClient
from tests.conformance.polling import eventually
from tests.conformance.streams import offset_of
from tests.conftest import StartServer
from tests.crash.messages import channel_to, publish_confirmed, stop_cleanly
from tests.servers import RunningServer

pytestmark = pytest.mark.crash

STREAM = {"x-queue-type": "stream"}


def read(
    client: AmqpClient, start: object, count: int, *, prefetch: int = 1000, channel: int = 2
) -> list[tuple[int, bytes]]:
    """Return offsets and bodies of the next messages from a place on; none is redelivered."""
    client.open_channel(channel)
    arguments = {"x-stream-offset": start}
    client.consume("s", prefetch=prefetch, arguments=arguments, channel=channel)
    taken = []
    for _ in range(count):
        message = client.expect_delivery(channel)
        assert not message.redelivered
        taken.append((offset_of(message), message.body))
        client.send(Basic.Ack(message.tag), channel)
    return taken


def numbered(numbers: range) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in numbers]


@pytest.mark.parametrize("is_clean", [True, False], ids=["stop", "kill"])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_restart_keeps_all_of_a_stream(
    server: RunningServer, is_clean: bool, persistent: bool
) -> None:
    with channel_to(server) as client:
        client.declare("s", arguments=STREAM)
        publish_confirmed(client, "s", range(100), persistent=persistent)
        assert read(client, "first", 60) == numbered(range(60))
        if is_clean:
            stop_cleanly(server, client)
        else:
            server.kill()
    server.restart()
    with channel_to(server) as client:
        assert client.ready_count("s") == 100
        publish_confirmed(client, "s", range(100, 110), persistent=persistent)
        assert read(client, "first", 110) == numbered(range(110))


def test_a_consumer_that_continues_behind_its_last_offset_gets_each_message_once(
    server: RunningServer,
) -> None:
    seen: list[tuple[int, bytes]] = []
    with channel_to(server) as client:
        client.declare("s", arguments=STREAM)
    for round_number in range(4):
        with channel_to(server) as client:
            first = 50 * round_number
            publish_confirmed(client, "s", range(first, first + 50))
            # Some are delivered and not taken note of: they come again.
            start = seen[-1][0] + 1 if seen else 0
            seen += read(client, start, 20, prefetch=30)
            server.kill() if round_number % 2 else stop_cleanly(server, client)
        server.restart()
    with channel_to(server) as client:
        seen += read(client, seen[-1][0] + 1, 200 - len(seen))
    assert seen == numbered(range(200))


def test_a_stream_has_no_gap_after_a_kill_during_publishes(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.declare("s", arguments=STREAM)
        publish_confirmed(client, "s", range(50))
        for number in range(50, 2_000):
            client.publish(b"%d" % number, "s")
        server.kill()
    server.restart()
    with channel_to(server) as client:
        count = client.ready_count("s")
        assert 50 <= count <= 2_000
        assert read(client, "first", count) == numbered(range(count))


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_a_transaction_in_a_stream_survives(server: RunningServer, delivery_mode: int) -> None:
    properties = Basic.Properties(delivery_mode=delivery_mode)
    with channel_to(server) as client:
        client.declare("s", arguments=STREAM)
        client.open_channel(3)
        client.call(Tx.Select(), Tx.SelectOk, 3)
        for number in range(10):
            client.publish(b"%d" % number, "s", properties=properties, channel=3)
        client.call(Tx.Commit(), Tx.CommitOk, 3)
        server.kill()
    server.restart()
    with channel_to(server) as client:
        assert read(client, "first", 10) == numbered(range(10))


def test_a_deleted_stream_does_not_return(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.declare("s", arguments=STREAM)
        publish_confirmed(client, "s", range(10))
        client.call(Queue.Delete(queue="s"), Queue.DeleteOk)
        server.kill()
    server.restart()
    with channel_to(server) as client:
        client.declare("s", arguments=STREAM)
        publish_confirmed(client, "s", range(3))
        assert read(client, "first", 3) == numbered(range(3))


def test_a_stream_keeps_its_offsets_when_the_server_is_killed_during_retention(
    start_server: StartServer,
) -> None:
    """Rounds come all the time, so that kills meet each step of them."""
    server = start_server("--offset-checkpoint-interval", "20ms")
    arguments = STREAM | {"x-max-length-bytes": 300_000, "x-stream-max-segment-size-bytes": 1}
    count = 0
    for _ in range(6):
        with channel_to(server) as client:
            client.declare("s", arguments=arguments)
            for _ in range(30):
                client.publish(b"%d" % count + bytes(10_000), "s")
                client.expect_confirmed()
                count += 1
            kept = eventually(lambda: client.ready_count("s") <= 48 and client.ready_count("s"))
            client.open_channel(2)
            client.consume("s", prefetch=100, arguments={"x-stream-offset": "first"}, channel=2)
            first = offset_of(client.expect_delivery(2))
            assert first >= count - kept
            seen = first
            while seen < count - 1:
                message = client.expect_delivery(2)
                offset = offset_of(message)
                # Retention may shorten it again: the reader continues behind that.
                assert seen < offset < count
                assert message.body.rstrip(b"\0") == b"%d" % offset
                seen = offset
            server.kill()
        server.restart()
