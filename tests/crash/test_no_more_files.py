"""The process can open no more files (EMFILE); the server recovers as from a full disk."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Queue

from amqp_server.base.config import Limits
from amqp_server.base.errors import StartupError
from amqp_server.broker.queue import Queue as BrokerQueue
from appendlog.files.descriptors import SHARED_DESCRIPTORS
from appendlog.files.filesystem import FILE_MODE
from appendlog.flushing import write_threads
from tests.amqp_client import AmqpClient, connect
from tests.crash.messages import drain, publish_confirmed
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

OPERATIONS = 14
"""More than the first messages of a queue open, from the declare on."""


class FewFiles(FaultyFileSystem):
    """Opens no more files while the test holds them all.

    Attributes:
        taken: What cannot be opened: paths with this in them; None is nothing.
        fail_in: How many may be opened until one cannot; None is any number.
        number: Of the error: of this process, or of the machine.
    """

    def __init__(self, root: Path, number: int = errno.EMFILE) -> None:
        super().__init__(root)
        self.taken: str | None = None
        self.fail_in: int | None = None
        self.number = number

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open, if there is a descriptor left."""
        self._need_descriptor(path)
        return super().open(path, flags, mode)

    def listdir(self, path: Path) -> list[str]:
        """List, which opens the directory."""
        self._need_descriptor(path)
        return super().listdir(path)

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        """List, which opens the directory."""
        self._need_descriptor(path)
        return super().scandir(path)

    def sync_directory(self, path: Path) -> None:
        """Sync, which opens the directory."""
        self._need_descriptor(path)
        super().sync_directory(path)

    def _need_descriptor(self, path: Path) -> None:
        if self.fail_in is not None:
            self.fail_in -= 1
        is_taken = self.taken is not None and self.taken in str(path)
        if is_taken or self.fail_in == -1:
            raise OSError(self.number, os.strerror(self.number), str(path))


@pytest.fixture(params=[errno.EMFILE, errno.ENFILE], ids=["process", "machine"])
def files(tmp_path: Path, request: pytest.FixtureRequest) -> FewFiles:
    """Return the file system of a data directory; the directory is there."""
    return few_files(tmp_path, request.param)


def few_files(tmp_path: Path, number: int = errno.EMFILE) -> FewFiles:
    """Return the file system of a data directory; the directory is there."""
    (tmp_path / "data").mkdir()
    return FewFiles(tmp_path / "data", number)


def serve(files: FaultyFileSystem) -> ThreadedServer:
    """Return a server that retries all the time; tests ask it for checkpoints."""
    often = Limits(alarm_check_seconds=0.01)
    return ThreadedServer(
        *(files.root, files, often), disk_free_limit_bytes=0, offset_checkpoint_interval_seconds=0
    )


@pytest.fixture
def server(files: FewFiles) -> Iterator[ThreadedServer]:
    """Start a server on it."""
    with serve(files) as server:
        yield server


def queue_of(server: ThreadedServer, name: str) -> BrokerQueue:
    """Return a queue of the server; to be looked at on its loop."""
    return server.server.broker.vhosts["/"].queues[name]


def wait_until_it_works(server: ThreadedServer, name: str) -> None:
    """Return when the queue's log is written again."""
    queue = queue_of(server, name)
    server.wait_until(lambda: not queue.store.is_failed)


def numbers(client: AmqpClient, queue: str) -> list[int]:
    """Take all messages of a queue and return what they say."""
    return [int(body) for body, _ in drain(client, queue)]


def test_a_queue_continues_by_itself_and_loses_nothing(
    files: FewFiles, server: ThreadedServer
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.declare("fresh")
        publish_confirmed(client, "q", range(10))
        files.taken = "/logs/"
        SHARED_DESCRIPTORS.close()
        for queue in ("q", "fresh"):
            client.publish(b"refused", queue)
            client.expect(Basic.Nack)
        # Messages of the queue are still delivered and acknowledged.
        assert (message := client.get("q")) is not None
        assert message.body == b"0"
        files.taken = None
        for queue in ("q", "fresh"):
            wait_until_it_works(server, queue)
            publish_confirmed(client, queue, range(10, 20))
    server.stop()
    with serve(files) as again, connect(again.address) as client:
        client.open_channel()
        assert numbers(client, "q") == list(range(1, 20))
        assert numbers(client, "fresh") == list(range(10, 20))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT])
def test_a_declare_is_refused_on_its_channel_and_may_be_tried_again(
    files: FewFiles, server: ThreadedServer, number: int
) -> None:
    """For want of descriptors, of inodes, or of room."""
    files.number = number
    with connect(server.address) as client:
        client.open_channel()
        client.open_channel(2)
        files.taken = "/metadata/"
        client.send(Queue.Declare(queue="q", durable=True))
        close = client.expect_channel_close(406)
        assert close.reply_text == (
            "PRECONDITION_FAILED - the definition was not written: "
            f"{os.strerror(files.number)}; try again later"
        )
        files.taken = None
        client.send(Queue.Declare(queue="q", passive=True), 2)
        client.expect_channel_close(404, 2)
        client.open_channel(3, confirms=True)
        client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk, 3)


@pytest.mark.parametrize("seed", [None, 0])
def test_whichever_file_cannot_be_opened_no_confirmed_message_is_lost(
    tmp_path: Path, seed: int | None
) -> None:
    """In the first messages of a queue, from its declare on; then a power cut."""
    files = few_files(tmp_path)
    kept: dict[str, list[int]] = {}
    with serve(files) as server:
        for number in range(OPERATIONS):
            name = f"q{number}"
            with connect(server.address) as client:
                client.open_channel(confirms=True)
                SHARED_DESCRIPTORS.close()
                files.fail_in = number
                kept[name] = confirmed = []
                client.send(Queue.Declare(queue=name, durable=True))
                if isinstance(client.receive()[1], Channel.Close):
                    continue
                for each in range(6):
                    client.publish(b"%d" % each, name)
                    if isinstance(client.receive()[1], Basic.Ack):
                        confirmed.append(each)
                wait_until_it_works(server, name)
                files.fail_in = None
                publish_confirmed(client, name, range(10, 13))
                confirmed += range(10, 13)
        # What was refused is settled now.
        server.run(server.server.checkpointer.write_now)
        files.fail_at = 0
        server.abandon()
    assert len([name for name in kept if kept[name][:6] != [*range(6)]]) > OPERATIONS // 3, kept
    files.power_cut(None if seed is None else random.Random(seed))
    files.fail_at = None
    with serve(FaultyFileSystem(files.root)) as again, connect(again.address) as client:
        client.open_channel()
        assert {name: numbers(client, name) for name in kept if kept[name]} == {
            name: confirmed for name, confirmed in kept.items() if confirmed
        }


@pytest.mark.parametrize("taken", ["/logs/", "/metadata/queues/%2f/q.json", "/metadata/queues/%2f"])
def test_a_start_that_cannot_open_a_file_is_refused_and_the_next_one_has_everything(
    tmp_path: Path, taken: str
) -> None:
    files = few_files(tmp_path)
    with serve(files) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish_confirmed(client, "q", range(3))
    files.taken = taken
    with pytest.raises(StartupError, match=r"Too many open files.*the limit of open files is"):
        serve(files).__enter__()
    files.taken = None
    with serve(files) as server, connect(server.address) as client:
        client.open_channel()
        assert numbers(client, "q") == [0, 1, 2]


def test_a_start_without_threads_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(count: int, bell: int) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(write_threads, "_START", refuse)
    with (
        pytest.raises(
            StartupError, match=r"cannot start the threads that write logs: .*unavailable"
        ),
        ThreadedServer(tmp_path / "data"),
    ):
        pass
    monkeypatch.undo()
    with ThreadedServer(tmp_path / "data"):
        pass
