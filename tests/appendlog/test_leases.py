"""Leases: what they say, that they end, and what becomes of files that are none."""

import logging
import time
from pathlib import Path
from uuid import uuid4

import pytest

from appendlog import FileSystem
from appendlog.reclaim import leases
from appendlog.reclaim.leases import HeldLease, Leases, TooManyLeasesError, decode_lease

ID = uuid4()
SECOND_NS = 1_000_000_000


def take(path: Path, low_offset: int) -> HeldLease:
    return HeldLease.take(path, "/", "q", ID, low_offset)


def test_the_lowest_of_all_leases_on_a_log_counts_until_they_end(tmp_path: Path) -> None:
    book = Leases(tmp_path, FileSystem())
    assert book.low_offsets(time.time_ns()) == {}
    with take(tmp_path, 40) as one, take(tmp_path, 30) as two:
        assert book.low_offsets(time.time_ns()) == {ID: 30}
        two.renew(50)
        assert book.low_offsets(time.time_ns()) == {ID: 40}
        one.end()
        assert book.low_offsets(time.time_ns()) == {ID: 50}
    assert book.low_offsets(time.time_ns()) == {}
    assert list((tmp_path / "leases").iterdir()) == []


def test_the_lease_of_a_reader_that_was_killed_ends_by_itself(tmp_path: Path) -> None:
    book = Leases(tmp_path, FileSystem())
    lease = take(tmp_path, 40).lease
    assert book.low_offsets(lease.expires_ns - 1) == {ID: 40}
    assert book.low_offsets(lease.expires_ns) == {}
    assert len(list((tmp_path / "leases").iterdir())) == 1
    assert book.low_offsets(lease.expires_ns + 3601 * SECOND_NS) == {}
    assert list((tmp_path / "leases").iterdir()) == []


def test_a_lease_is_renewed_when_half_of_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = take(tmp_path, 40)
    first = held.lease
    held.renew_when_due()
    assert held.lease is first
    monkeypatch.setattr(time, "time_ns", lambda: first.expires_ns - 50 * SECOND_NS)
    held.renew_when_due()
    assert held.lease.expires_ns == first.expires_ns + 70 * SECOND_NS
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
        b'{"name": "x", "vhost": "/", "queue": "q", "low_offset": 1,'
        b' "expires_ns": 99999999999999999999,'
        b' "incarnation": "8f14e45f-ceea-467f-a4d6-0b1c2d3e4f50"}',
    ],
)
def test_a_file_that_is_no_lease_is_told_of_once_and_goes_when_it_is_old(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    take(tmp_path, 40)
    (tmp_path / "leases" / "broken.json").write_bytes(content)
    book = Leases(tmp_path, FileSystem())
    now_ns = time.time_ns()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert book.low_offsets(now_ns) == {ID: 40}
    assert len(caplog.records) == 1
    book.low_offsets(now_ns + 3601 * SECOND_NS)
    assert not (tmp_path / "leases" / "broken.json").exists()


def test_there_are_not_too_many_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASES_MAX", 2)
    with take(tmp_path, 1), take(tmp_path, 2), pytest.raises(TooManyLeasesError):
        take(tmp_path, 3)


def test_leases_of_readers_that_were_killed_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASES_MAX", 3)
    with monkeypatch.context() as long_ago:
        long_ago.setattr(time, "time_ns", lambda: 1)
        take(tmp_path, 1)
        take(tmp_path, 2)
    (tmp_path / "leases" / "broken.json").write_text("")
    with take(tmp_path, 3), take(tmp_path, 4), pytest.raises(TooManyLeasesError):
        take(tmp_path, 5)
