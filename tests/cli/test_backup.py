"""`amqp-server backup`: a copy that a server can start on, made beside a running one or not."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from pamqp.commands import Basic, Queue, Tx

from amqp_server.control.offsets_client import OffsetsClient
from amqp_server.maintenance.backup import back_up as back_up_directory
from cli.main import main
from metadata.document import Document, encode_document
from metadata.redo_file import redo_pieces
from offsets import LogRoot
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.data_directories import fill, log_of, segments_of, snapshot, take
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

ALL = [b"m%d" % number for number in range(6)]


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""


def back_up(capsys: pytest.CaptureFixture[str], storage: Path, target: Path, *more: str) -> str:
    """Run what must be done; return what it writes."""
    code = main(["backup", str(target), "--storage-path", str(storage), *more])
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def test_a_stopped_server_is_copied_and_the_copy_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    fill(storage, a=6, b=2)
    before = snapshot(storage)
    assert "2 logs with 2 segments" in back_up(capsys, storage, target)
    assert snapshot(storage) == before
    assert (storage / "reserve").exists()
    # A start on the copy makes its own.
    assert not (target / "reserve").exists()
    assert main(["verify", "--storage-path", str(target)]) == 0
    assert take(target, "a") == ALL
    assert take(target, "b") == ALL[:2]
    assert snapshot(storage) == before


def test_sealed_segments_are_linked_and_what_is_done_to_the_copy_is_not_done_to_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    with ThreadedServer(storage, segment_bytes=64 * 1024) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("a")
            for number in range(30):
                client.publish(b"%d " % number + bytes(10_000), "a")
                client.expect_confirmed()
        back_up(capsys, storage, target)
    links = [path.stat().st_nlink for path in segments_of(target, "a")]
    assert links == [2] * (len(links) - 1) + [1]
    assert len(links) > 3
    contents = [path.read_bytes() for path in segments_of(storage, "a")]
    assert len(take(target, "a")) == 30
    fill(target, a=3)
    assert [path.read_bytes() for path in segments_of(storage, "a")] == contents
    back_up(capsys, storage, tmp_path / "other", "--copy")
    assert {path.stat().st_nlink for path in segments_of(tmp_path / "other", "a")} == {1}


def test_the_groups_of_a_stream_go_on_in_the_copy_where_they_were(
    tmp_path: Path, start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    target = tmp_path / "copy"
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        bounds = {"x-max-length-bytes": 100_000, "x-stream-max-segment-size-bytes": 65_536}
        client.declare("s", arguments={"x-queue-type": "stream", **bounds})
        for _ in range(40):
            client.publish(bytes(10_000), "s")
            client.expect_confirmed()
    offsets = OffsetsClient(server.storage_path)
    # Each has a round written, which shortens the stream.
    offsets.commit("behind", 17, queue="s")
    offsets.commit("done", "latest", queue="s")
    assert main(["checkpoint", "--storage-path", str(server.storage_path)]) == 0
    capsys.readouterr()
    places = offsets.list_groups(queue="s")
    back_up(capsys, server.storage_path, target)
    assert main(["verify", "--storage-path", str(target)]) == 0
    start_server(storage_path=target)
    found = OffsetsClient(target).list_groups(queue="s")
    assert [(each.group, each.start, each.dropped_total) for each in found] == [
        (each.group, each.start, each.dropped_total) for each in places
    ]
    assert [(each.start, each.dropped_total) for each in found] == [(36, 19), (40, 0)]


@contextmanager
def traffic(server: RunningServer) -> Iterator[list[int]]:
    """Publish numbers to two queues in one transaction each, and acknowledge every third."""
    committed: list[int] = []
    ending = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        try:
            with connect(server.address) as client:
                client.open_channel()
                client.call(Tx.Select(), Tx.SelectOk)
                number = 0
                while not ending.is_set():
                    for queue in ("a", "b"):
                        client.publish(b"%d " % number + bytes(500), queue)
                    if number % 3 == 0:
                        message = client.get("a", no_ack=False)
                        if message is not None:
                            client.send(Basic.Ack(delivery_tag=message.tag))
                    client.call(Tx.Commit(), Tx.CommitOk)
                    committed.append(number)
                    number += 1
        except Exception as error:  # noqa: BLE001 - the test is told
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while len(committed) < 20 and thread.is_alive():
            ending.wait(0.01)
        yield committed
    finally:
        ending.set()
        thread.join(HANG_SECONDS)
    assert not failures


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(body.split()[0]) for body in bodies]


def test_beside_traffic_the_copy_has_all_that_was_committed_before_it_and_no_half_of_anything(
    start_server: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server("--offset-checkpoint-interval", "1s")
    with connect(server.address) as client:
        client.open_channel()
        client.declare("a")
        client.declare("b")
    targets = []
    with traffic(server) as committed:
        for number in range(3):
            before = len(committed)
            target = tmp_path / f"copy-{number}"
            back_up(capsys, server.storage_path, target)
            targets.append((target, before))
    for target, before in targets:
        assert main(["verify", "--storage-path", str(target)]) in (0, 3), capsys.readouterr()
        with ThreadedServer(target) as copy:
            queues = copy.server.broker.vhosts["/"].queues
            assert len(queues) == 2
        got_b = numbers(take(target, "b"))
        got_a = numbers(take(target, "a"))
        assert got_b[:before] == list(range(before))
        assert got_b == list(range(len(got_b)))
        # What is in one is in the other, but for what was acknowledged: the first of `a`.
        assert got_a == list(range(len(got_b) - len(got_a), len(got_b)))


@contextmanager
def churn(server: RunningServer) -> Iterator[None]:
    """Publish and acknowledge, so that segments come and go all the time."""
    ending = threading.Event()
    started = threading.Event()

    def run() -> None:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("a")
            while not ending.is_set():
                for _ in range(60):
                    client.publish(bytes(2000), "a")
                client.expect_confirmed()
                while (message := client.get("a", no_ack=False)) is not None:
                    client.send(Basic.Ack(delivery_tag=message.tag))
                started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(HANG_SECONDS)
        yield
    finally:
        ending.set()
        thread.join(HANG_SECONDS)


def test_segments_that_vanish_meanwhile_are_no_damage_neither_here_nor_in_the_copy(
    start_server: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server("--offset-checkpoint-interval", "20ms", "--segment-bytes", "64KiB")
    with churn(server):
        for number in range(4):
            target = tmp_path / f"copy-{number}"
            back_up(capsys, server.storage_path, target)
            assert main(["verify", "--storage-path", str(target)]) in (0, 3), capsys.readouterr()
            assert main(["recover", "--storage-path", str(target)]) in (0, 3), capsys.readouterr()
            path = str(server.storage_path)
            assert main(["verify", "--storage-path", path]) == 0, capsys.readouterr()
            inspected = main(["inspect", "--queue", "a", "--storage-path", path])
            assert inspected == 0, capsys.readouterr()
            capsys.readouterr()


def test_what_cannot_be_copied_is_refused_and_an_unfinished_copy_is_no_data_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "data"
    fill(storage, a=1)
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    for arguments, complaint in (
        ([str(full)], "is not empty"),
        ([str(storage / "copy")], "lies in the data directory"),
        ([str(tmp_path / "new"), "--storage-path", str(tmp_path / "none")], "No such file"),
    ):
        assert main(["backup", "--storage-path", str(storage), *arguments]) == 2
        written = capsys.readouterr()
        assert complaint in written.err
        assert written.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_an_interrupted_copy_cannot_be_started_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    fill(storage, a=1)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.sync", fail)
    assert main(["backup", "--storage-path", str(storage), str(target)]) == 1
    assert "Input/output error" in capsys.readouterr().err
    assert main(["recover", "--dry-run", "--storage-path", str(target)]) == 2
    assert "FORMAT is missing" in capsys.readouterr().err


def test_no_log_of_a_copy_is_shorter_than_its_checkpoint_says(
    start_server: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is ever acknowledged: the recovery points alone move, in every round."""
    server = start_server("--offset-checkpoint-interval", "10ms")
    names = [f"q{number}" for number in range(8)]
    with connect(server.address) as client:
        client.open_channel()
        for name in names:
            client.declare(name)
    with publishing(server, names):
        for number in range(3):
            target = tmp_path / f"copy-{number}"
            back_up(capsys, server.storage_path, target)
            assert main(["verify", "--storage-path", str(target)]) in (0, 3), capsys.readouterr()
            assert main(["recover", "--storage-path", str(target)]) in (0, 3), capsys.readouterr()
            capsys.readouterr()


@contextmanager
def publishing(server: RunningServer, names: list[str]) -> Iterator[None]:
    """Publish to all of the queues, in turn."""
    ending, started = threading.Event(), threading.Event()

    def run() -> None:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            while not ending.is_set():
                for name in names:
                    client.publish(bytes(500), name)
                client.expect_confirmed()
                started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(HANG_SECONDS)
        yield
    finally:
        ending.set()
        thread.join(HANG_SECONDS)


@pytest.mark.parametrize("is_anew", [False, True])
def test_a_queue_that_is_deleted_meanwhile_is_not_reported_as_lost_by_the_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_anew: bool
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for name in ("a", "b"):
            client.declare(name)
            client.publish(b"m", name)
            client.expect_confirmed()
        server.run(server.server.checkpointer.write_round)

        def delete_the_other(done: int, _: int) -> None:
            if done == 1:
                client.call(Queue.Delete(queue="b"), Queue.DeleteOk)
                server.wait_until(lambda: len(list(storage.glob("logs/*/*/*/end"))) == 1)
                if is_anew:
                    client.declare("b")

        back_up_directory(storage, target, may_link=True, redo_number=int, on_log=delete_the_other)
    assert main(["verify", "--storage-path", str(target)]) == 0
    assert main(["recover", "--storage-path", str(target)]) == 0
    capsys.readouterr()
    assert take(target, "a") == [b"m"]


def test_what_a_directory_has_lost_is_missed_in_its_copy_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    fill(storage, a=1, b=1)
    shutil.rmtree(log_of(storage, "b"))
    back_up(capsys, storage, target)
    assert main(["recover", "--storage-path", str(target)]) == 4
    assert "lost 1 offsets: [0, 1)" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["logs", "metadata", "offsets"])
def test_a_part_that_is_missing_is_missing_in_the_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    fill(storage, a=1)
    shutil.rmtree(storage / part)
    back_up(capsys, storage, target)
    assert main(["recover", "--storage-path", str(target)]) == 2
    assert f"{target / part} is empty or missing, but " in capsys.readouterr().err


def test_a_copy_of_a_directory_without_a_server_has_no_report_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    with LogRoot.open(storage) as root:
        root.append("events", b"one")
    back_up(capsys, storage, target)
    assert not (target / "recovery.json").exists()
    assert main(["recover", "--storage-path", str(target)]) == 0
    capsys.readouterr()


REDO = b"".join(
    redo_pieces(
        Path("metadata"),
        {
            Path("metadata/queues/%2f/new.json"): encode_document(
                Document(
                    "queues",
                    "/",
                    "new",
                    {"incarnation": str(uuid4()), "auto_delete": False, "arguments": {}},
                )
            )
        },
    )
)
"""What an import of definitions leaves behind if the server is killed."""


def test_an_interrupted_import_of_definitions_is_copied_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, target = tmp_path / "data", tmp_path / "copy"
    fill(storage, a=1)
    (storage / "metadata" / "batch.redo").write_bytes(REDO)
    back_up(capsys, storage, target)
    with ThreadedServer(target) as server, connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("new") == 0
        assert client.ready_count("a") == 1


def test_a_backup_waits_until_an_import_of_definitions_is_written(
    tmp_path: Path,
    server: RunningServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redo = server.storage_path / "metadata" / "batch.redo"
    redo.write_bytes(REDO)
    monkeypatch.setattr("amqp_server.maintenance.backup.IMPORT_ATTEMPTS_MAX", 2)
    arguments = ["backup", "--storage-path", str(server.storage_path)]
    assert main([*arguments, str(tmp_path / "copy")]) != 0
    assert "definitions are being imported" in capsys.readouterr().err
    redo.unlink()
    back_up(capsys, server.storage_path, tmp_path / "other")
