"""x-expires: a queue that nobody uses goes, with its messages and its bindings."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import PERSISTENT, AmqpClient, ConnectionLostError, connect
from tests.conftest import StartServer
from tests.threaded_server import ThreadedServer

SOON_MS = 300
NEVER_MS = 600_000


def is_there(server: ThreadedServer, queue: str) -> bool:
    """Look without using it."""
    return queue in server.server.broker.vhosts["/"].queues


def test_an_unused_queue_goes_and_is_not_dead_before_its_time(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        begun = time.monotonic()
        client.declare("q", arguments={"x-expires": SOON_MS})
        client.publish(b"goes with it", "q")
        client.expect_confirmed()
        server.wait_until(lambda: not is_there(server, "q"))

        assert time.monotonic() - begun >= SOON_MS / 1000
        client.publish(b"nowhere to go", "q", mandatory=True)
        assert client.expect_return().body == b"nowhere to go"
        client.expect(Basic.Ack)
        # The name is free, and means another queue.
        client.declare("q")
        assert client.ready_count("q") == 0


def test_a_consumer_keeps_the_queue_until_it_is_cancelled(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-expires": SOON_MS})
        client.declare("other", arguments={"x-expires": SOON_MS})
        tag = client.call(Basic.Consume(queue="q"), Basic.ConsumeOk).consumer_tag
        server.wait_until(lambda: not is_there(server, "other"))
        assert is_there(server, "q")

        begun = time.monotonic()
        client.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk)
        # Its time begins now: nobody is told that it goes, for there is nobody.
        server.wait_until(lambda: not is_there(server, "q"))
        assert time.monotonic() - begun >= SOON_MS / 1000


def test_a_consumer_that_is_lost_begins_the_time_anew(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q", arguments={"x-expires": SOON_MS})
            client.consume("q")
        server.wait_until(lambda: not is_there(server, "q"))


def redeclare(client: AmqpClient) -> None:
    client.declare("q", arguments={"x-expires": NEVER_MS})


def look(client: AmqpClient) -> None:
    client.ready_count("q")


def get(client: AmqpClient) -> None:
    client.get("q")


def publish(client: AmqpClient) -> None:
    client.publish(b"", "q")
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)


def purge(client: AmqpClient) -> None:
    client.call(Queue.Purge(queue="q"), Queue.PurgeOk)


def bind(client: AmqpClient) -> None:
    client.call(Queue.Bind(queue="q", exchange="amq.fanout"), Queue.BindOk)


@pytest.mark.parametrize(
    ("use", "counts"),
    [
        (redeclare, True),
        (look, True),
        (get, True),
        (publish, False),
        (purge, False),
        (bind, False),
    ],
)
def test_what_counts_as_use(
    tmp_path: Path, use: Callable[[AmqpClient], None], *, counts: bool
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-expires": NEVER_MS})
        renewed: list[str] = []

        def watch() -> None:
            timer = server.server.broker.vhosts["/"].queues["q"].expiry_timer
            assert timer is not None
            timer.renew = lambda: renewed.append("q")  # type: ignore[method-assign]

        server.call(watch)
        use(client)

        assert bool(renewed) == counts


def test_an_acknowledgement_of_a_message_of_an_expired_queue_is_no_mistake(
    tmp_path: Path,
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-expires": SOON_MS})
        client.publish(b"", "q")
        message = client.get("q", no_ack=False)
        assert message is not None
        server.wait_until(lambda: not is_there(server, "q"))

        client.send(Basic.Ack(delivery_tag=message.tag))
        client.declare("still open")


@pytest.mark.crash
def test_after_a_restart_the_time_begins_anew(start_server: StartServer) -> None:
    server = start_server()
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-expires": 2_000})
        client.publish(b"kept", "q", properties=PERSISTENT)
        client.expect_confirmed()
        server.kill()
        with pytest.raises(ConnectionLostError):
            client.receive()
    time.sleep(2.0)  # the time itself is the subject: it is over while the server is down

    begun = time.monotonic()
    with connect(server.restart().address) as client:
        client.open_channel()
        try:
            message = client.get("q")
        except AssertionError:
            # On a slow machine it has gone once more.
            assert time.monotonic() - begun >= 2.0
        else:
            assert message is not None
            assert message.body == b"kept"
    server.wait_for_message("queue expired queue=q vhost=/")
    server.terminate()
    with connect(server.restart().address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", passive=True))
        client.expect_channel_close(404)


def test_a_stop_ends_the_timers_before_it_closes_the_definitions(tmp_path: Path) -> None:
    """A queue that expired in the last moments was half deleted, with an error in the log."""
    with ThreadedServer(tmp_path) as server:
        with connect(server.address) as client:
            client.open_channel()
            for number in range(50):
                client.declare(f"q{number}", arguments={"x-expires": SOON_MS})
        timers = server.call(
            lambda: [
                queue.expiry_timer for queue in server.server.broker.vhosts["/"].queues.values()
            ]
        )
        server.stop()
    for timer in timers:
        assert timer is not None
        assert timer.is_over
