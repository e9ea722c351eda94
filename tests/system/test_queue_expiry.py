"""x-expires and the end of the server: the time starts again, and no queue is half deleted."""

import time
from pathlib import Path

import pytest
from pamqp.commands import Queue

from tests.amqp_client import PERSISTENT, ConnectionLostError, connect
from tests.conftest import StartServer
from tests.threaded_server import ThreadedServer

SOON_MS = 300


@pytest.mark.crash
def test_after_a_restart_the_time_starts_again(start_server: StartServer) -> None:
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
    server.wait_for_message("queue expired queue='q' vhost='/'")
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
