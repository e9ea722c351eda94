import errno
import json
import os
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from amqp_server.maintenance.directory_check import check_directory
from amqp_server.maintenance.stored_queues import load_stored_queues
from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from appendlog import EmbeddedOptions, LogClosedError, LogFailedError, LogFollower
from appendlog.files.filesystem import FILE_MODE
from metadata.direct_write import write_document
from metadata.directory_lock import DirectoryLock
from metadata.document import Document
from metadata.errors import DocumentWriteError, StorageLockedError
from offsets import InvalidLogNameError, LogNotFoundError, LogRoot
from offsets.consuming.catalog import LogCatalog
from tests.amqp_client import connect
from tests.embedded.logs import BY_HAND, read_on
from tests.embedded.processes import Process
from tests.embedded.waiting import until
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError
from tests.threaded_server import ThreadedServer

NASTY_NAMES = ["../x", "a/b", "CON", "%", "Orders", "orders", "ä" * 127, "events-0000", " "]

APPEND_FOR_EVER = """
from offsets import LogRoot
from appendlog import EmbeddedOptions
log = LogRoot.open(root, EmbeddedOptions(batch_bytes=1000, segment_bytes=20000)).log("events")
print(log.end_offset, flush=True)
number = log.end_offset
while True:
    for _ in range(number % 7 + 1):
        log.append(b"%08d" % number)
        number += 1
    print(log.sync(), flush=True)
"""

HOLD = """
from offsets import LogRoot
root = LogRoot.open(root)
root.append("events", b"mine")
root.sync()
print("held", flush=True)
sys.stdin.readline()
root.close()
print("closed", flush=True)
"""


def records(root: Path, name: str) -> list[bytes]:
    place = LogCatalog(root).find()[name]
    with LogFollower(place.directory) as follower:
        return [each.payload for each in read_on(follower)]


class Refusing(UnsyncedFileSystem):
    """Removes no file whose name ends in `refused_suffix`, if there is one."""

    refused_suffix = ""

    def unlink(self, path: Path) -> None:
        if self.refused_suffix and path.name.endswith(self.refused_suffix):
            raise PermissionError(errno.EACCES, "refused", str(path))
        super().unlink(path)


def test_logs_are_found_by_their_names_whatever_these_are(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path / "new" / "root", BY_HAND) as root:
        for name in NASTY_NAMES:
            assert root.append(name, name.encode()) == 0
        assert root.names() == sorted(NASTY_NAMES)
        assert root.names("[Oo]rders") == ["Orders", "orders"]
    assert sorted(each.name for each in tmp_path.rglob("x*")) == []
    with LogRoot.open(tmp_path / "new" / "root", BY_HAND) as root:
        assert [root.log(name).end_offset for name in NASTY_NAMES] == [1] * len(NASTY_NAMES)
    for name in NASTY_NAMES:
        assert records(tmp_path / "new" / "root", name) == [name.encode()]


@pytest.mark.parametrize("name", ["", "x" * 256, "\udc80"])
def test_a_name_that_no_queue_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root, pytest.raises(InvalidLogNameError):
        root.log(name)


def test_a_second_writer_is_refused_and_told_the_pid_of_the_first(tmp_path: Path) -> None:
    with Process(HOLD, tmp_path) as holder:
        assert holder.line() == "held"
        with pytest.raises(StorageLockedError, match=f"process {holder.pid}") as refused:
            LogRoot.open(tmp_path)
        assert refused.value.pid == holder.pid
        with pytest.raises(StorageLockedError):
            DirectoryLock.acquire(tmp_path)
        holder.tell("go")
        assert holder.line() == "closed"
        with LogRoot.open(tmp_path, BY_HAND) as root:
            assert root.append("events", b"1") == 1
            with pytest.raises(StorageLockedError, match=f"process {os.getpid()}"):
                LogRoot.open(tmp_path)


def test_a_writer_is_refused_while_a_server_runs(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path), pytest.raises(StorageLockedError) as refused:
        LogRoot.open(tmp_path)
    assert refused.value.pid == os.getpid()
    LogRoot.open(tmp_path).close()


@pytest.mark.crash
def test_a_writer_that_is_killed_loses_nothing_synced_and_reuses_no_offset(tmp_path: Path) -> None:
    synced = 0
    for round_number in range(6):
        with Process(APPEND_FOR_EVER, tmp_path) as writer:
            assert int(writer.line()) >= synced
            for _ in range(random.Random(round_number).randrange(1, 120)):
                synced = int(writer.line())
            lines = writer.kill()
        synced = int(lines[-1]) if lines else synced
        found = records(tmp_path, "events")
        assert len(found) >= synced
        assert found == [b"%08d" % number for number in range(len(found))]


@pytest.mark.crash
def test_readers_beside_a_writer_see_a_growing_prefix(tmp_path: Path) -> None:
    with Process(APPEND_FOR_EVER, tmp_path) as writer:
        writer.line()
        seen = 0
        follower = LogFollower(LogCatalog(tmp_path).find()["events"].directory)
        while seen < 2_000:
            synced = int(writer.line())
            follower.refresh()
            for each in read_on(follower, seen):
                assert (each.offset, each.payload) == (seen, b"%08d" % seen)
                seen += 1
            assert seen >= synced
        follower.close()


def test_a_deleted_log_is_gone_and_begins_anew(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root:
        root.append_batch("events", [b"a", b"b"])
        root.sync()
        root.delete("events")
        assert root.names() == []
        assert list((tmp_path / "logs" / "%2f").iterdir()) == []
        with pytest.raises(LogNotFoundError):
            root.delete("events")
        assert root.append("events", b"new") == 0
    assert records(tmp_path, "events") == [b"new"]


def test_a_log_that_the_disk_does_not_let_go_keeps_what_was_appended(tmp_path: Path) -> None:
    filesystem = Refusing()
    with LogRoot.open(tmp_path / "data", BY_HAND, filesystem=filesystem) as root:
        writer = root.log("events")
        assert writer.append(b"0") == 0
        filesystem.refused_suffix = ".json"
        with pytest.raises(DocumentWriteError):
            root.delete("events")
        filesystem.refused_suffix = ""
        with pytest.raises(LogClosedError):
            writer.append(b"never")
        assert root.append("events", b"1") == 1
    assert records(tmp_path / "data", "events") == [b"0", b"1"]


def test_what_the_disk_does_not_let_go_of_a_deleted_log_goes_later(tmp_path: Path) -> None:
    filesystem = Refusing()
    logs = tmp_path / "data" / "logs" / "%2f"
    with LogRoot.open(tmp_path / "data", BY_HAND, filesystem=filesystem) as root:
        for name in ("again", "gone"):
            root.append(name, b"0")
            filesystem.refused_suffix = ".log"
            with pytest.raises(LogFailedError):
                root.delete(name)
            filesystem.refused_suffix = ""
            assert len(list((logs / name).iterdir())) == 1
        assert root.append("again", b"1") == 0
        root.sync()
        assert len(list((logs / "again").iterdir())) == 1
    LogRoot.open(tmp_path / "data", BY_HAND).close()
    assert [path.name for path in logs.iterdir()] == ["again"]


def test_a_deletion_that_a_power_cut_ends_leaves_all_or_nothing(tmp_path: Path) -> None:
    """A log without its definition looked like one whose definition was lost."""
    chance = random.Random(3)
    found = set()
    for number in range(1000):
        path = tmp_path / str(number)
        path.mkdir()
        filesystem = FaultyFileSystem(path, None, StoppedError())
        root = LogRoot.open(path / "data", BY_HAND, filesystem=filesystem)
        root.append_batch("events", [b"a", b"b"])
        root.sync()
        begin = len(filesystem.operations)
        filesystem.fail_at = begin + number
        is_over = False
        with suppress(StoppedError):
            root.delete("events")
            is_over = True
        root.abandon()
        filesystem.power_cut(chance if number % 2 else None)
        check = check_directory(load_stored_queues(path / "data"))
        # An index is made anew when it is needed, so nothing waits for its sync.
        assert {each.kind for each in check.all_problems()} <= {"deleted-log", "index-wrong"}
        with LogRoot.open(path / "data", BY_HAND) as again:
            names = tuple(again.names())
            found.add(names)
            # What is left of the deletion is gone, and so is its space.
            assert len(list((path / "data").glob("logs/*/*/*"))) == len(names)
            assert again.append("events", b"c") == (2 if names else 0)
        if is_over:
            break
    assert number > 5
    assert found == {("events",), ()}


@pytest.mark.parametrize("refused", ["definition", "mark"])
def test_a_deletion_that_the_disk_refuses_loses_nothing(tmp_path: Path, refused: str) -> None:
    class Refusing(FaultyFileSystem):
        refuses = True

        def unlink(self, path: Path) -> None:
            if self.refuses and refused == "definition" and path.suffix == ".json":
                raise OSError(5, "Input/output error")
            super().unlink(path)

        def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
            if self.refuses and refused == "mark" and path.name == "deleted":
                raise OSError(5, "Input/output error")
            return super().open(path, flags, mode)

    filesystem = Refusing(tmp_path)
    with LogRoot.open(tmp_path, BY_HAND, filesystem=filesystem) as root:
        root.append_batch("events", [b"a", b"b"])
        root.sync()
        with pytest.raises(DocumentWriteError) as caught:
            root.delete("events")
        assert caught.value.path.suffix == (".json" if refused == "definition" else "")
        assert caught.value.cause.errno == errno.EIO
        assert root.append("events", b"c") == 2
        root.sync()
        assert records(tmp_path, "events") == [b"a", b"b", b"c"]
        filesystem.refuses = False
        root.delete("events")
        assert root.names() == []


def test_a_closed_root_takes_nothing(tmp_path: Path) -> None:
    root = LogRoot.open(tmp_path, BY_HAND)
    log = root.log("events")
    root.close()
    root.close()
    for use in (lambda: root.log("other"), root.sync, lambda: log.append(b"")):
        with pytest.raises(LogClosedError):
            use()


def test_what_is_appended_to_any_log_is_synced_by_the_clock(tmp_path: Path) -> None:
    options = EmbeddedOptions(sync_interval_seconds=0.001)
    with LogRoot.open(tmp_path, options) as root:
        logs = [root.log("a"), root.log("b")]
        for log in logs:
            log.append(b"x")
        until(lambda: all(log.recovery_point for log in logs))


def test_a_server_has_the_logs_as_streams(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root:
        root.append_batch("events", [b"%d" % number for number in range(5)], b"key")
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        with pytest.raises(StorageLockedError):
            LogRoot.open(tmp_path)
        client.open_channel(confirms=True)
        client.publish(b"5", "events")
        client.expect_confirmed()
    assert records(tmp_path, "events") == [b"%d" % number for number in range(6)]
    with LogRoot.open(tmp_path, BY_HAND) as root:
        assert root.append("events", b"6") == 6


def test_a_queue_of_a_server_that_is_no_stream_is_left_alone(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("stream", arguments={"x-queue-type": "stream"})
        client.declare("classic")
        for queue in ("stream", "classic"):
            client.publish(b"0", queue)
            client.expect_confirmed()
    keep_nothing = replace(BY_HAND, retain_bytes=1)
    with LogRoot.open(tmp_path, keep_nothing) as root:
        assert root.names() == ["stream"]
        root.log("stream").roll()
        assert list(root.clean_up(force=True).logs) == ["stream"]
        with pytest.raises(InvalidLogNameError, match="not a stream"):
            root.append("classic", b"1")
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        kept = client.get("classic")
        assert kept is not None
        assert kept.body == b"0"


def test_the_name_of_a_log_whose_definition_is_damaged_is_taken(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root:
        root.append("events", b"0")
    path = next((tmp_path / "metadata" / "queues").rglob("*.json"))
    path.write_bytes(b"{")
    with LogRoot.open(tmp_path, BY_HAND) as root, pytest.raises(InvalidLogNameError):
        root.append("events", b"1")
    assert path.read_bytes() == b"{"


def test_without_a_format_a_definition_without_a_checksum_is_damage(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root:
        root.append("events", b"0")
    path = next((tmp_path / "metadata" / "queues").rglob("*.json"))
    fields = json.loads(path.read_bytes())
    del fields["crc32c"]
    path.write_text(json.dumps({**fields, "schema": 1}))
    (tmp_path / "FORMAT").write_text("1\n")
    assert list(LogCatalog(tmp_path).find()) == ["events"]
    (tmp_path / "FORMAT").unlink()
    assert LogCatalog(tmp_path).find() == {}


def test_a_deleted_virtual_host_is_defined_again_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    metadata = tmp_path / "metadata"
    with LogRoot.open(tmp_path, BY_HAND, vhost="shop") as root:
        root.append("old", b"1")
    # What a server leaves that was killed while it removed the virtual host.
    write_document(metadata, Document("vhosts", "", "shop", {"deleted": True}))
    with (
        LogRoot.open(tmp_path, BY_HAND, vhost="shop") as root,
        pytest.raises(InvalidLogNameError, match="'shop', which is deleted: start the server"),
    ):
        root.append("new", b"2")
    with ThreadedServer(tmp_path) as server:
        assert server.call(lambda: list(server.server.broker.vhosts)) == ["/"]
    write_document(metadata, Document("vhosts", "", "shop", {"deleted": True}))
    with LogRoot.open(tmp_path, BY_HAND, vhost="shop") as root:
        root.append("new", b"2")
    with ThreadedServer(tmp_path) as server:
        host = server.call(lambda: server.server.broker.vhosts["shop"])
        assert list(host.queues) == ["new"]
        assert host.queues["new"].ready_count == 1
