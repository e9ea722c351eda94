"""A disk that does not remove files: nothing else stops, and they are removed when it does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from amqp_server.audit.audit_files import AuditFiles
from amqp_server.control.client import ask
from appendlog.files.filesystem import FileSystem
from appendlog.segments.segment import COMPACTING_SUFFIX
from tests.amqp_client import connect
from tests.appendlog.builders import append, expected, open_log, read_all
from tests.crash.messages import drain, flags, publish_confirmed
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

SEGMENT_BYTES = 64 * 1024


class Clinging(FileSystem):
    """Removes no file whose path contains a text.

    Attributes:
        kept: The text; None: all files can be removed.
    """

    kept: str | None = None

    def unlink(self, path: Path) -> None:
        if self.kept is not None and self.kept in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().unlink(path)


def segments_of(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*.log") if path.parent.name != "offsets")


def test_a_log_goes_on_and_tries_again(tmp_path: Path) -> None:
    filesystem = Clinging()
    log, _ = open_log(tmp_path / "log", filesystem, segment_bytes=8 * 1024)
    append(log, 0, 600, sync=False)
    first, second, third = (segment.path for segment in log.segments[:3])
    end = log.segments[2].end_offset
    filesystem.kept = first.name
    assert log.remove_settled(end) > 0
    assert (first.exists(), second.exists(), third.exists()) == (True, False, False)
    assert log.log_start_offset == end
    # It is not failed.
    append(log, 600, 603)
    assert read_all(log, end) == expected(end, 603)
    assert [segment.path for segment in log.reclaim.unremoved] == [first]
    filesystem.kept = None
    log.remove_settled(end)
    assert not first.exists()
    assert log.reclaim.unremoved == []
    log.close()


def test_the_broker_confirms_consumes_and_removes_them_later(tmp_path: Path) -> None:
    filesystem = Clinging()
    with (
        ThreadedServer(
            tmp_path / "data",
            filesystem,
            segment_bytes=SEGMENT_BYTES,
            offset_checkpoint_interval_seconds=0.02,
        ) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q")
        logs = tmp_path / "data" / "logs"
        for start in range(0, 200, 20):
            publish_confirmed(client, "q", range(start, start + 20), size=4096)
        assert len(segments_of(logs)) > 2
        filesystem.kept = ".log"
        for _ in range(200):
            assert client.get("q") is not None
        log = server.server.broker.vhosts["/"].queues["q"].store.log
        server.wait_until(lambda: len(log.reclaim.unremoved) > 2)
        (row,) = ask(tmp_path / "data", "queues.stats", vhost="/", queue="q", after="", limit=1)[
            "queues"
        ]
        assert row["failed"] is None
        assert row["unremoved_bytes"] > SEGMENT_BYTES
        publish_confirmed(client, "q", range(200, 210), size=1024)
        assert client.ready_count("q") == 10
        filesystem.kept = None
        server.wait_until(lambda: not log.reclaim.unremoved)
        assert segments_of(logs) == [segment.path.name for segment in log.segments]


def test_the_audit_log_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = AuditFiles(tmp_path / "audit", "changes", file_bytes_max=10, files_max=1)

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        for _ in range(3):
            files.append([b"0123456789\n"])
    assert len(list((tmp_path / "audit").iterdir())) == 3
    files.append([b"0123456789\n"])
    files.close()
    (last,) = (tmp_path / "audit").iterdir()
    assert last.read_bytes() == b"0123456789\n"


def test_it_is_reported_once_and_not_at_each_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filesystem = Clinging()
    log, _ = open_log(tmp_path / "log", filesystem, segment_bytes=8 * 1024)
    append(log, 0, 600, sync=False)
    first, second = (segment.path for segment in log.segments[:2])
    ends = [segment.end_offset for segment in log.segments[:2]]
    filesystem.kept = ".log"
    with caplog.at_level("INFO", "appendlog.reclaim.removal"):
        for end in (ends[0], ends[0], ends[1], ends[1]):
            assert log.remove_settled(end) == 0
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
        assert str(first) in caplog.messages[0]
        assert str(second) in caplog.messages[1]
        caplog.clear()
        filesystem.kept = None
        assert log.remove_settled(ends[1]) > 0
        assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    log.close()


def test_a_start_takes_a_queue_into_use_whose_leftovers_cannot_be_removed(tmp_path: Path) -> None:
    """Of a compaction that a crash has interrupted: an unfinished file, and an old generation."""
    filesystem = Clinging()
    data = tmp_path / "data"
    with ThreadedServer(data, filesystem) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        directory = server.server.broker.vhosts["/"].queues["q"].store.log.directory
    (segment,) = directory.glob("*.log")
    unfinished = directory / f"{segment.stem}-0000000001{COMPACTING_SUFFIX}"
    torn = directory / f"{segment.stem}-0000000001.log"
    orphan = directory / "00000000000000000005.index"
    left = [unfinished, torn, orphan]
    for path in left:
        path.write_bytes(b"left")
    filesystem.kept = str(directory)
    with ThreadedServer(data, filesystem) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        publish_confirmed(client, "q", range(10, 20))
        assert drain(client, "q") == flags(range(20), redelivered=False)
        assert all(path.exists() for path in left)
    filesystem.kept = None
    with ThreadedServer(data, filesystem) as server, connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("q") == 0
    assert not any(path.exists() for path in left)
