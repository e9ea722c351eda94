"""Leases: what they say, that they end, and what becomes of files that are none."""

import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from appendlog import FileSystem
from appendlog.reclaim import leases
from appendlog.reclaim.leases import (
    LEASE_SECONDS,
    LEASE_SECONDS_MAX,
    HeldLease,
    Leases,
    TooManyLeasesError,
    decode_lease,
)
from tests.faults.faulty_filesystem import FaultyFileSystem

ID = uuid4()
SECOND_NS = 1_000_000_000
YEAR_SECONDS = 365 * 86_400


class Clock:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        """Return it."""
        return self.seconds


def take(path: Path, low_offset: int) -> HeldLease:
    return HeldLease.take(path, "/", "q", ID, low_offset)


def test_the_lowest_of_all_leases_on_a_log_counts_until_they_end(tmp_path: Path) -> None:
    book = Leases(tmp_path, FileSystem())
    assert book.low_offsets() == {}
    with take(tmp_path, 40) as one, take(tmp_path, 30) as two:
        assert book.low_offsets() == {ID: 30}
        two.renew(50)
        assert book.low_offsets() == {ID: 40}
        one.end()
        assert book.low_offsets() == {ID: 50}
    assert book.low_offsets() == {}
    assert list((tmp_path / "leases").iterdir()) == []


def test_the_lease_of_a_reader_that_was_killed_ends_by_itself(tmp_path: Path) -> None:
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    take(tmp_path, 40)
    assert book.low_offsets() == {ID: 40}
    clock.seconds += LEASE_SECONDS - 1
    assert book.low_offsets() == {ID: 40}
    clock.seconds += 1
    assert book.low_offsets() == {}
    clock.seconds += LEASE_SECONDS_MAX
    assert book.low_offsets() == {}
    assert len(list((tmp_path / "leases").iterdir())) == 1
    clock.seconds += 1
    assert book.low_offsets() == {}
    assert list((tmp_path / "leases").iterdir()) == []


def test_a_lease_that_is_renewed_holds_for_its_time_again(tmp_path: Path) -> None:
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    held = take(tmp_path, 40)
    for _ in range(3):
        assert book.low_offsets() == {ID: 40}
        clock.seconds += LEASE_SECONDS - 1
        held.renew()
    clock.seconds += LEASE_SECONDS
    # The renewal is seen now, and counts from now on.
    assert book.low_offsets() == {ID: 40}
    clock.seconds += LEASE_SECONDS
    assert book.low_offsets() == {}
    held.renew()
    assert book.low_offsets() == {ID: 40}


@pytest.mark.parametrize("step_seconds", [-YEAR_SECONDS, -7200, 7200, YEAR_SECONDS])
def test_no_wall_clock_decides_whether_a_lease_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_seconds: int
) -> None:
    real_ns = time.time_ns
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    held = take(tmp_path, 40)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + step_seconds * SECOND_NS)
    assert book.low_offsets() == {ID: 40}
    assert Leases(tmp_path, FileSystem(), clock).low_offsets() == {ID: 40}
    held.renew_when_due()
    with take(tmp_path, 30):
        assert book.low_offsets() == {ID: 30}
    clock.seconds += LEASE_SECONDS
    assert book.low_offsets() == {}


def test_who_looks_for_the_first_time_begins_the_time_of_each_lease_again(tmp_path: Path) -> None:
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    take(tmp_path, 40)
    assert book.low_offsets() == {ID: 40}
    clock.seconds += LEASE_SECONDS
    assert book.low_offsets() == {}
    assert Leases(tmp_path, FileSystem(), clock).low_offsets() == {ID: 40}


def test_a_lease_cannot_ask_for_more_than_an_hour(tmp_path: Path) -> None:
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    lease = replace(take(tmp_path, 40).lease, lease_seconds=1e300)
    (path,) = (tmp_path / "leases").iterdir()
    path.write_bytes(lease.encode())
    assert book.low_offsets() == {ID: 40}
    clock.seconds += LEASE_SECONDS_MAX - 1
    assert book.low_offsets() == {ID: 40}
    clock.seconds += 1
    assert book.low_offsets() == {}


def test_a_lease_of_an_older_version_holds_as_long_as_any(tmp_path: Path) -> None:
    """Whatever it says about the wall clock."""
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    (tmp_path / "leases").mkdir()
    fields = {"name": "old", "vhost": "/", "queue": "q", "incarnation": str(ID)}
    text = json.dumps({**fields, "low_offset": 7, "expires_ns": 1})
    (tmp_path / "leases" / "old.json").write_text(text)
    assert book.low_offsets() == {ID: 7}
    clock.seconds += LEASE_SECONDS
    assert book.low_offsets() == {}


def test_a_lease_is_renewed_when_half_of_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = take(tmp_path, 40)
    first = held.lease
    held.renew_when_due()
    assert held.lease is first
    later_ns = first.renewed_ns + int(LEASE_SECONDS / 2 * SECOND_NS) + 1
    monkeypatch.setattr(time, "monotonic_ns", lambda: later_ns)
    held.renew_when_due()
    assert held.lease.renewed_ns == later_ns
    (path,) = (tmp_path / "leases").iterdir()
    assert decode_lease(path.read_bytes()) == held.lease


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"name": "x", "vhost": "/", "queue": "q", "incarnation": 3}',
        b'{"name": "x", "vhost": "/", "queue": "q", "low_offset": -1, "expires_ns": 1,'
        b' "incarnation": "8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"}',
        b'{"name": "x", "vhost": "/", "queue": "q", "low_offset": 1, "expires_ns": 1e300,'
        b' "incarnation": "8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"}',
        b'{"name": "x", "vhost": "/", "queue": "q", "low_offset": 1, "lease_seconds": -1,'
        b' "incarnation": "8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"}',
        b'{"name": "x", "vhost": "/", "queue": "q", "low_offset": 1, "lease_seconds": NaN,'
        b' "incarnation": "8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"}',
        b'{"name": "x", "vhost": "/", "queue": "q", "low_offset": 1, "lease_seconds": "120",'
        b' "incarnation": "8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"}',
    ],
)
def test_a_file_that_is_no_lease_is_told_of_once_and_goes_when_it_is_old(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    take(tmp_path, 40)
    (tmp_path / "leases" / "broken.json").write_bytes(content)
    clock = Clock()
    book = Leases(tmp_path, FileSystem(), clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert book.low_offsets() == {ID: 40}
    assert len(caplog.records) == 1
    clock.seconds += LEASE_SECONDS_MAX + 1
    book.low_offsets()
    assert not (tmp_path / "leases" / "broken.json").exists()


def test_a_lease_that_breaks_is_told_of_however_often_it_changes_until_it_is_whole_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = take(tmp_path, 40)
    (path,) = (tmp_path / "leases").iterdir()
    whole = path.read_bytes()
    book = Leases(tmp_path, FileSystem())
    told = []
    for content in (whole, b"broken", b"broken too", b"", whole, b"broken"):
        path.write_bytes(content)
        with caplog.at_level(logging.WARNING):
            book.low_offsets()
        told.append(len(caplog.records))
    assert told == [0, 1, 1, 1, 1, 2]
    held.end()


def test_there_are_not_too_many_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASES_MAX", 2)
    with take(tmp_path, 1), take(tmp_path, 2), pytest.raises(TooManyLeasesError):
        take(tmp_path, 3)


def test_leases_of_readers_that_were_killed_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASES_MAX", 3)
    take(tmp_path, 1)
    take(tmp_path, 2)
    passed_ns = int((LEASE_SECONDS + LEASE_SECONDS_MAX + 1) * SECOND_NS)
    now_ns = time.monotonic_ns() + passed_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    # Who looks for the first time believes them no more either.
    assert Leases(tmp_path, FileSystem()).low_offsets() == {}
    (tmp_path / "leases" / "broken.json").write_text("")
    with take(tmp_path, 3), take(tmp_path, 4), pytest.raises(TooManyLeasesError):
        take(tmp_path, 5)


def test_a_power_cut_leaves_the_lease_as_it_was_renewed_last(tmp_path: Path) -> None:
    for low_offsets in ([40], [40, 50]):
        storage = tmp_path / str(len(low_offsets))
        storage.mkdir()
        filesystem = FaultyFileSystem(storage)
        held = HeldLease.take(storage, "/", "q", ID, low_offsets[0], filesystem)
        for low_offset in low_offsets[1:]:
            held.renew(low_offset)
        filesystem.power_cut()
        assert Leases(storage, FileSystem()).low_offsets() == {ID: low_offsets[-1]}
