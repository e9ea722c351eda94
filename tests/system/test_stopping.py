"""What a clean stop does, whatever the server is doing when it begins."""

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from pamqp.commands import Basic, Channel

from amqp_server import start_and_stop
from appendlog import FileSystem
from offsets import QueueCheckpoint, WrittenRound
from offsets.group_checkpoint import GroupState
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

BESIDE_SECONDS = 0.5
"""How long a round waits for another one that must not come."""


def test_the_last_checkpoint_is_not_written_beside_another(tmp_path: Path) -> None:
    """Stopping gave up waiting for a round, but its thread went on writing to the same file."""
    with ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0.01) as server:
        store = server.server.checkpoints
        write_round = store.write_round
        entered, beside = threading.Event(), threading.Event()

        def write_slowly(
            states: Sequence[QueueCheckpoint],
            removed: Sequence[UUID] = (),
            clean: bool = False,
            groups: Sequence[GroupState] = (),
            removed_groups: Sequence[tuple[UUID, str]] = (),
        ) -> WrittenRound:
            if entered.is_set():
                beside.set()
            elif not clean:
                entered.set()
                overlapped.append(beside.wait(BESIDE_SECONDS))
            return write_round(states, removed, clean, groups, removed_groups)

        overlapped: list[bool] = []
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            client.publish(b"settled", "q")
            client.expect_confirmed()
            server.call(lambda: setattr(store, "write_round", write_slowly))
            assert client.get("q") is not None
            assert entered.wait(HANG_SECONDS)
        server.stop()
        assert overlapped == [False]

    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert client.get("q") is None


class UnreadableFileSystem(FileSystem):
    """Every read fails with EIO while `is_broken`."""

    is_broken = False

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read, if it is possible."""
        self._check()
        return super().pread(descriptor, size, position)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Read, if it is possible."""
        self._check()
        return super().read_into(descriptor, buffer, position)

    def _check(self) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_unreadable_dead_letters_do_not_prevent_a_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of a deleted queue were waited for, for ever."""
    monkeypatch.setattr(start_and_stop, "SHUTDOWN_SECONDS_MAX", 0.4)
    filesystem = UnreadableFileSystem()
    with ThreadedServer(tmp_path, filesystem, ring_size=1024) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("dead")
            dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            client.declare("q", auto_delete=True, arguments=dead_letters)
            for number in range(3000):
                client.publish(b"%d" % number, "q")
            client.expect_confirmed()
            client.open_channel(2)
            client.consume("q", channel=2)
            last = [client.expect_delivery(channel=2) for _ in range(3000)][-1]
            filesystem.is_broken = True
            client.send(Basic.Nack(last.tag, multiple=True, requeue=False), 2)
            client.send(Channel.Close(200, "done", 0, 0), 2)
            server.wait_until(lambda: bool(server.server.broker._draining))
        server.stop()
    assert "dead letters of a deleted queue dropped queue=q" in caplog.text
