"""An unreadable definition or directory stops no other definition and loses nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pamqp.commands import Exchange, Queue

from amqp_server.control.client import ask
from appendlog.files.filesystem import FileSystem
from tests.amqp_client import AmqpClient, connect
from tests.sampled import some_items
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

QUEUES: Final = {"/": ("a", "b"), "team": ("c",)}
DELAYED: Any = {"x-delayed-type": "direct"}


class Unreadable(FileSystem):
    """A disk that does not let one path be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def listdir(self, path: Path) -> list[str]:
        self._check(path)
        return super().listdir(path)

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        self._check(path)
        return super().scandir(path)

    def read_file(self, path: Path, max_bytes: int) -> bytes:
        self._check(path)
        return super().read_file(path, max_bytes)

    def _check(self, path: Path) -> None:
        if path == self._path:
            raise PermissionError(13, "Permission denied")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1] ^= 0x80
    path.write_bytes(content)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_dangling(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to("nowhere")


def make_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("in the way")


def make_unreadable(path: Path) -> None:
    """Leave it as it is: the file system refuses it."""


FILE_DAMAGE: Final = (truncate, empty, flip, make_directory, make_dangling, make_unreadable)
DIRECTORY_DAMAGE: Final = (make_file, make_dangling, make_unreadable)


def fill(client: AmqpClient, queues: tuple[str, ...]) -> None:
    """Make one of each kind, with a confirmed message in every queue."""
    client.open_channel(confirms=True)
    client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
    client.call(
        Exchange.Declare(0, "later", "x-delayed-message", False, True, arguments=DELAYED),
        Exchange.DeclareOk,
    )
    for queue in queues:
        client.declare(queue)
        client.call(Queue.Bind(queue=queue, exchange="x", routing_key=queue), Queue.BindOk)
    for queue in queues:
        client.publish(queue.encode(), queue)
        client.expect_confirmed()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with some of each kind in two virtual hosts."""
    path = tmp_path_factory.mktemp("whole") / "data"
    with ThreadedServer(path) as server:
        ask(path, "vhosts.add", name="team")
        for vhost, queues in QUEUES.items():
            with connect(server.address, vhost=vhost) as client:
                fill(client, queues)
    return path


def places(root: Path, *, are_directories: bool) -> list[Path]:
    """Return all files or directories but those of users: damage there lets no client in.

    tests/access/test_damaged_documents.py damages those.
    """
    return sorted(
        path
        for path in root.rglob("*")
        if path.is_dir() == are_directories
        and path.relative_to(root).parts[0] not in ("access", "permissions", "users")
    )


def is_hit(damaged: Path, metadata: Path, vhost: str, queue: str) -> bool:
    """Return whether a queue's definition is at or below a damaged path."""
    encoded = {"/": "%2f"}.get(vhost, vhost)
    document = metadata / "queues" / encoded / f"{queue}.json"
    return document == damaged or damaged in document.parents


def expect_messages(server: ThreadedServer, damaged: Path, metadata: Path) -> None:
    for vhost, queues in QUEUES.items():
        for queue in queues:
            with connect(server.address, vhost=vhost) as client:
                client.open_channel()
                if is_hit(damaged, metadata, vhost, queue):
                    client.send(Queue.Declare(queue=queue, durable=True))
                    client.expect_channel_close(404)
                else:
                    assert client.ready_count(queue) == 1, (vhost, queue)


def expect_whole(path: Path) -> None:
    with ThreadedServer(path) as server:
        assert ask(path, "status")["damaged"] == []
        for vhost, queues in QUEUES.items():
            with connect(server.address, vhost=vhost) as client:
                client.open_channel(confirms=True)
                for queue in queues:
                    assert client.ready_count(queue) == 1
                    client.publish(b"routed", queue, exchange="x", mandatory=True)
                    client.expect_confirmed()
                    assert client.ready_count(queue) == 2
                client.call(
                    Exchange.Declare(0, "later", "x-delayed-message", True), Exchange.DeclareOk
                )


@pytest.mark.parametrize(
    ("are_directories", "damage"),
    [*((False, each) for each in FILE_DAMAGE), *((True, each) for each in DIRECTORY_DAMAGE)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_damaged_path_stops_no_other_definition_and_loses_nothing(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None], *, are_directories: bool
) -> None:
    """A file in the place of all queues was no queues, and their logs were removed.

    Each damage has some paths of each kind, others than the next one; all of them in the long run.
    """
    metadata = whole / "metadata"
    every = places(metadata, are_directories=are_directories)
    kinds = [path.relative_to(metadata).parts[0] for path in every]
    damages = DIRECTORY_DAMAGE if are_directories else FILE_DAMAGE
    chosen = some_items(every, kinds, damages.index(damage), len(damages))
    for number, place in enumerate(chosen):
        data = tmp_path / str(number)
        shutil.copytree(whole, data, symlinks=True, ignore=shutil.ignore_patterns("control.sock"))
        path = data / "metadata" / place.relative_to(whole / "metadata")
        damage(path)
        kept = {each for each in data.rglob("*") if each.is_file() and each.suffix != ".tmp"}
        kept = {each for each in kept if "offsets" not in each.parts}
        filesystem = Unreadable(path) if damage is make_unreadable else None

        with ThreadedServer(data, filesystem) as server:
            expect_messages(server, path, data / "metadata")

        assert not {each for each in kept if not each.exists()}, path
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        if are_directories:
            shutil.copytree(place, path)
        else:
            shutil.copy(place, path)
        expect_whole(data)


def test_a_damaged_queue_is_shown_and_can_be_deleted(whole: Path, tmp_path: Path) -> None:
    """Its bindings go with it, and its name is free."""
    data = tmp_path / "data"
    shutil.copytree(whole, data, ignore=shutil.ignore_patterns("control.sock"))
    (data / "metadata" / "queues" / "%2f" / "a.json").write_bytes(b"{")
    with ThreadedServer(data) as server, connect(server.address) as client:
        [damaged] = ask(data, "status")["damaged"]
        assert (damaged["vhost"], damaged["kind"], damaged["encoded_name"]) == ("/", "queue", "a")
        assert "JSON" in damaged["reason"]
        [vhost, other] = ask(data, "vhosts.list")
        assert (vhost["damaged_queues"], other["damaged_queues"]) == (1, 0)
        client.open_channel()
        client.send(Queue.Delete(queue="a", if_empty=True))
        client.expect_channel_close(406)
        client.open_channel()
        assert client.call(Queue.Delete(queue="a"), Queue.DeleteOk).message_count == 0
        client.declare("a")
        assert ask(data, "status")["damaged"] == []
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert client.ready_count("a") == 0
        assert client.ready_count("b") == 1
        client.publish(b"to no queue", "a", exchange="x", mandatory=True)
        client.expect_return()
    assert len(list((data / "logs" / "%2f" / "a").glob("*"))) <= 1


def test_an_exchange_that_cannot_be_read_is_not_replaced(whole: Path, tmp_path: Path) -> None:
    """Its hidden queue would have got a new log, and the old one removed with its messages."""
    data = tmp_path / "data"
    shutil.copytree(whole, data, ignore=shutil.ignore_patterns("control.sock"))
    document = data / "metadata" / "exchanges" / "%2f" / "later.json"
    content = document.read_bytes()
    document.write_bytes(content[:-3])
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        client.send(
            Exchange.Declare(0, "later", "x-delayed-message", False, True, arguments=DELAYED)
        )
        client.expect_channel_close(404)
    assert document.read_bytes() == content[:-3]
