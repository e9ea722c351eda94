"""What expires in each turn keeps no consumer waiting."""

from pathlib import Path

import pytest
from pamqp.commands import Basic

from amqp_server.base.clock import SystemClock
from amqp_server.broker.queue import Queue
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

COUNT = 300
FIRST_MS = 61_000


def test_a_message_that_expires_in_each_turn_does_not_stop_the_deliveries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a turn takes 1 ms, and its slice is over when the queue is about to deliver.

    So it is with a queue that has much to write: the write request lasts as long as the slice.
    """
    now_ms = 1_000
    is_armed = False
    run_turn = Queue.run_turn

    def run_turn_of_a_millisecond(self: Queue) -> None:
        nonlocal now_ms
        if is_armed:
            now_ms += 1
        run_turn(self)

    monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: now_ms)
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 0.0)
    monkeypatch.setattr(Queue, "run_turn", run_turn_of_a_millisecond)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(COUNT):
            lifetime = Basic.Properties(expiration=str(60_000 + number))
            client.publish(b"%d" % number, "q", properties=lifetime)
        client.publish(b"kept", "q")
        client.expect_confirmed()
        assert client.ready_count("q") == COUNT + 1
        now_ms, is_armed = FIRST_MS, True

        client.consume("q")
        bodies: list[bytes] = []
        while not bodies or bodies[-1] != b"kept":
            bodies.append(client.expect_delivery().body)

        assert len(bodies) > COUNT // 2, "nothing was delivered until all had expired"
