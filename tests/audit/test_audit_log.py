"""The audit log without a server: lines, rotation, a full buffer and a disk that refuses."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from amqp_server.audit import entry
from amqp_server.audit.actor import Actor, acting, os_actor
from amqp_server.audit.audit_files import AuditFiles
from amqp_server.audit.audit_log import AuditLog
from amqp_server.audit.audit_writer import AuditWriter
from amqp_server.audit.entry import LINE_BYTES_MAX, encode_entry
from amqp_server.audit.reading import AuditReader
from amqp_server.audit.refusals import ADDRESSES_MAX, WINDOW_SECONDS_MAX, Refusals

GUEST = Actor("guest", "127.0.0.1:5000", "app")
HOSTILE = (
    "a\nb",
    "a\r\n{}",
    "\x00\x1b[2J\x7f\x85\u2028\u202e",
    '"}\n{"event":"queue.deleted"',
    "ä" * 127,
    "\udcff\udc80",
    "n" * 255,
)


def audit_log(path: Path, *, files_max: int = 4, file_bytes_max: int = 65_536) -> AuditLog:
    return AuditLog(path, file_bytes_max, files_max, asyncio.get_running_loop().call_later)


def events(path: Path) -> list[dict[str, Any]]:
    return list(AuditReader(path).new_events())


async def test_an_event_has_time_actor_object_and_details(tmp_path: Path) -> None:
    log = audit_log(tmp_path)
    log.start()
    log.record("queue.deleted", GUEST, vhost="/", name="q", details={"messages": 3, "x": b"\xff"})
    acting.set(os_actor(0, "root"))
    log.record("vhost.deleted", name="v")
    await log.stop()

    deleted, vhost = events(tmp_path)
    assert len(deleted.pop("time")) == len("2026-11-22T04:13:25.123Z")
    assert deleted == {
        "event": "queue.deleted",
        "user": "guest",
        "peer": "127.0.0.1:5000",
        "connection": "app",
        "vhost": "/",
        "object": "q",
        "details": {"messages": 3, "x": "\\xff"},
    }
    assert (vhost["user"], vhost["object"]) == ("os:0/root", "v")


async def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    log = audit_log(tmp_path)
    log.start()
    log.record("queue.deleted", GUEST)
    log.record("login.accepted", GUEST, is_session=True)
    await log.stop()

    directory = tmp_path / "audit"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == {"changes-00000001.jsonl": 0o600, "sessions-00000001.jsonl": 0o600}


async def test_a_log_that_is_off_or_not_started_writes_nothing(tmp_path: Path) -> None:
    off, not_started = audit_log(tmp_path, files_max=0), audit_log(tmp_path)
    off.start()
    for log in (off, not_started):
        log.record("queue.deleted", GUEST)
        log.record_refusal(GUEST, "wrong password")
        await log.stop()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - `iterdir` blocks no less


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_a_line_or_reaches_the_terminal(name: str) -> None:
    actor = Actor(name, "127.0.0.1:1", name)
    line = encode_entry(1, "queue.declared", actor, name, name, {name: name, "list": [name]})
    assert line.isascii()
    assert line.endswith(b"\n")
    assert line[:-1].decode().isprintable()
    entry = json.loads(line)
    expected = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    assert entry["event"] == "queue.declared"
    assert (entry["user"], entry["vhost"], entry["object"]) == (expected,) * 3
    assert entry["details"] == {expected: expected, "list": [expected]}


@pytest.mark.parametrize("wrap", [lambda inner: {"k": inner}, lambda inner: [inner]])
def test_values_are_cut_below_some_depth(wrap: Callable[[object], object]) -> None:
    """A client may nest a table as deep as its frames allow."""
    value: object = "inmost"
    for _ in range(10_000):
        value = wrap(value)

    found = json.loads(encode_entry(1, "queue.declared", GUEST, "/", "q", {"deep": value}))

    depth, inner = 0, found["details"]
    while isinstance(inner, dict | list):
        (inner,) = inner.values() if isinstance(inner, dict) else inner
        depth += 1
    assert (depth, inner) == (entry.DEPTH_MAX, entry._CUT)


def test_a_line_is_never_long() -> None:
    table = {f"key{number}": {"inner": "x" * 100_000} for number in range(1000)}
    line = encode_entry(1, "queue.declared", GUEST, "/", "q" * 10_000, {"arguments": table})
    assert len(line) <= LINE_BYTES_MAX
    assert json.loads(line)["details"]["left_out_bytes"] > LINE_BYTES_MAX


async def test_the_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    log = audit_log(tmp_path, files_max=3, file_bytes_max=1000)
    log.start()
    for number in range(100):
        log.record("queue.declared", GUEST, name=f"q{number}")
    await log.stop()

    paths = sorted((tmp_path / "audit").iterdir())
    assert len(paths) == 3
    assert all(path.stat().st_size <= 1000 + 200 for path in paths)
    names = [event["object"] for event in events(tmp_path)]
    assert names == [f"q{number}" for number in range(100 - len(names), 100)]
    assert len(names) > 10


async def test_connections_do_not_rotate_changes_away(tmp_path: Path) -> None:
    log = audit_log(tmp_path, files_max=2, file_bytes_max=1000)
    log.start()
    log.record("queue.deleted", GUEST, name="orders")
    for _ in range(100):
        log.record("connection.opened", GUEST, is_session=True)
    await log.stop()
    assert events(tmp_path)[0]["object"] == "orders"


async def test_a_start_continues_the_newest_file_behind_a_torn_line(tmp_path: Path) -> None:
    for name in ("first", "second"):
        log = audit_log(tmp_path)
        log.start()
        log.record("queue.declared", GUEST, name=name)
        await log.stop()
        with (tmp_path / "audit" / "changes-00000001.jsonl").open("ab") as file:
            file.write(b'{"time":"2026-11-22T04:13:25.123Z","ev')
    reader = AuditReader(tmp_path)
    assert [event["object"] for event in reader.new_events()] == ["first", "second"]
    # The torn line at the end may still be under way; the one in the middle is not.
    assert reader.unreadable == 1


async def test_a_reader_continues_over_rotated_and_removed_files(tmp_path: Path) -> None:
    log = audit_log(tmp_path, files_max=2, file_bytes_max=500)
    reader = AuditReader(tmp_path)
    seen: list[str] = []
    for number in range(20):
        log.start()
        log.record("queue.declared", GUEST, name=f"q{number}")
        await log.stop()
        seen += [event["object"] for event in reader.new_events()]
    assert seen == [f"q{number}" for number in range(20)]


def test_a_full_buffer_drops_and_counts(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit", "changes", 65_536, 2)
    writer = AuditWriter(files, lambda count: b"lost %d\n" % count, buffer_bytes_max=100)
    # The thread does not run yet, as if the disk were slow.
    for number in range(1000):
        writer.put(b"line %4d\n" % number)
    writer.start("audit")
    writer.stop()
    lines = (tmp_path / "audit" / "changes-00000001.jsonl").read_text().splitlines()
    assert lines == [*(f"line {number:4}" for number in range(10)), "lost 990"]

    writer.start("audit")
    writer.put(b"next\n")
    writer.stop()
    lines = (tmp_path / "audit" / "changes-00000001.jsonl").read_text().splitlines()
    assert lines[-1] == "next"


async def test_a_file_in_the_place_of_the_directory_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "audit").write_text("not a directory")
    log = audit_log(tmp_path)
    log.start()
    for number in range(100):
        log.record("queue.declared", GUEST, name=f"q{number}")
        await asyncio.sleep(0)
    await log.stop()
    (warning,) = [record for record in caplog.records if "audit" in record.getMessage()]
    assert "audit log not written" in warning.getMessage()


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_leaves_no_half_line_and_gets_the_lines_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = AuditFiles(tmp_path / "audit", "changes", 65_536, 2)
    path = tmp_path / "audit" / "changes-00000001.jsonl"
    with file_size_limit(25):
        assert files.append([b"0123456789\n", b"0123456789\n"]) == 2
        with pytest.raises(OSError, match="too large"):
            files.append([b"too long\n"])
        assert path.read_bytes() == b"0123456789\n" * 2
        writer = AuditWriter(files, lambda count: b"lost %d\n" % count)
        writer.put(b"waits\n")
        writer.start("audit")
        writer.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    writer.start("audit")
    writer.stop()
    assert path.read_bytes() == b"0123456789\n" * 2 + b"waits\n"


class _Timers:
    """Calls what waits when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Any]] = []

    def call_later(self, seconds: float, function: Any) -> Any:  # noqa: ANN401
        class Handle:
            def cancel(self) -> None:
                pass

        self.waiting.append((seconds, function))
        return Handle()

    def fire(self) -> list[float]:
        due, self.waiting = self.waiting, []
        for _, function in due:
            function()
        return [seconds for seconds, _ in due]


def test_guessing_passwords_becomes_a_few_sums() -> None:
    reports: list[tuple[str, dict[str, object]]] = []
    timers = _Timers()
    refusals = Refusals(lambda *report: reports.append(report), timers.call_later)
    firsts, windows = 0, 0.0
    for _ in range(15):
        for number in range(1000):
            actor = Actor(f"user{number}", f"10.0.0.1:{number}")
            firsts += refusals.is_first(actor, "wrong password")
        windows = max(windows, *timers.fire())
    assert firsts == 1
    assert len(reports) == 15
    assert sum(int(str(details["count"])) for _, details in reports) == 15 * 1000 - 1
    assert windows == WINDOW_SECONDS_MAX
    address, details = reports[0]
    assert address == "10.0.0.1"
    assert details["users"] == [f"user{number}" for number in range(1, 9)]
    # Two quiet windows, and the address is forgotten.
    timers.fire()
    assert not timers.waiting
    assert refusals.is_first(Actor("u", "10.0.0.1:1"), "wrong password")


def test_many_addresses_share_one_sum() -> None:
    reports: list[tuple[str, dict[str, object]]] = []
    refusals = Refusals(lambda *report: reports.append(report), _Timers().call_later)
    firsts = sum(
        refusals.is_first(Actor("u", f"10.0.{number // 256}.{number % 256}:1"), "no")
        for number in range(1000)
    )
    assert firsts == ADDRESSES_MAX
    refusals.finish()
    ((address, details),) = reports
    assert (address, details["count"]) == ("other addresses", 1000 - ADDRESSES_MAX)
