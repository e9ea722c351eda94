"""What a clean stop promises, whatever was under way when it began."""

import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from offsets import QueueCheckpoint, WrittenRound
from tests.amqp_client import connect
from tests.threaded_server import SECONDS_MAX, ThreadedServer

BESIDE_SECONDS = 0.5
"""How long a round waits for another one that must not come."""


def test_the_last_checkpoint_is_not_written_beside_another(tmp_path: Path) -> None:
    """Stopping gave up waiting for a round, but its thread went on writing to the same file."""
    with ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0.01) as server:
        store = server.server._checkpoints
        write_round = store.write_round
        entered, beside = threading.Event(), threading.Event()

        def write_slowly(
            states: Sequence[QueueCheckpoint], removed: Sequence[UUID] = (), clean: bool = False
        ) -> WrittenRound:
            if entered.is_set():
                beside.set()
            elif not clean:
                entered.set()
                overlapped.append(beside.wait(BESIDE_SECONDS))
            return write_round(states, removed, clean)

        overlapped: list[bool] = []
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            client.publish(b"settled", "q")
            client.expect_confirmed()
            server.call(lambda: setattr(store, "write_round", write_slowly))
            assert client.get("q") is not None
            assert entered.wait(SECONDS_MAX)
        server.stop()
        assert overlapped == [False]

    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert client.get("q") is None
