"""A reopen leaves nothing of the old state behind, and disturbs nobody who works beside it."""

import errno
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from appendlog import (
    Append,
    CompactRequest,
    FlushResult,
    Log,
    LogFailedError,
    LogOptions,
    ReopenRequest,
)
from appendlog.files.descriptors import Descriptors
from appendlog.files.mappings import Mappings
from appendlog.segments.mapped_indexes import MappedIndexes
from tests.appendlog.builders import (
    IDENTITY,
    OPENED,
    append,
    chunk,
    cut,
    expected,
    open_log,
    read_all,
)
from tests.driven_flusher import DrivenFlusher
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS

SEGMENT_BYTES = 700


def test_files_of_a_refused_append_are_not_written_to_any_more(tmp_path: Path) -> None:
    """Removed, but still open, they took the next append: it was gone after a restart."""
    number = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, error=errno.ENOSPC)
        log, _ = open_log(root / "q", filesystem, SEGMENT_BYTES)
        append(log, 0, 6)
        filesystem.fail_at = len(filesystem.operations) + number
        try:
            log.append(
                Append([chunk(start, start + 3) for start in range(6, 60, 3)], 60, sync=True)
            )
            break
        except LogFailedError:
            filesystem.fail_at = None
        log.reopen()
        end = log.log_end_offset
        log.append(
            Append(
                [chunk(start, start + 3) for start in range(end, end + 30, 3)], end + 30, sync=True
            )
        )
        assert read_all(log) == expected(0, end + 30)
        recovered, _ = open_log(root / "q", segment_bytes=SEGMENT_BYTES)
        assert read_all(recovered) == expected(0, end + 30)
        number += 1
    assert number > 20


def fail(log: Log, filesystem: FaultyFileSystem) -> None:
    """Let an append fail for want of room, which is there again afterwards."""
    end = log.log_end_offset
    filesystem.fail_at, filesystem.error = len(filesystem.operations), errno.ENOSPC
    with pytest.raises(LogFailedError):
        append(log, end, end + 3)
    filesystem.fail_at = None


def test_a_reopen_waits_for_the_compaction_that_is_under_way(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, SEGMENT_BYTES)
    append(log, 0, 30)
    fail(log, filesystem)
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(rounds.put)
    flusher.start()
    first, second = log.segments[:2]
    filesystem.sync_gate.clear()
    requests: list[CompactRequest | ReopenRequest] = [
        CompactRequest(log, first, [(0, 1)], first.size_bytes),
        ReopenRequest(log),
        # Chosen before the reopen, which knows the segment by another name in memory.
        CompactRequest(log, second, [], second.size_bytes),
    ]
    for request in requests:
        flusher.submit(request)
    assert filesystem.sync_waiting.wait(HANG_SECONDS)
    assert rounds.empty()
    assert log.failed is not None
    filesystem.sync_gate.set()
    flusher.close()
    results: list[FlushResult] = []
    while not rounds.empty():
        results += rounds.get()
    assert [result.request for result in results] == requests
    assert [result.error for result in results] == [None] * 3
    assert results[0].freed_bytes > 0
    assert results[2].freed_bytes == 0
    kept = expected(first.end_offset, 33) | expected(0, 1)
    append(log, 30, 33)
    assert read_all(log) == kept
    # The new state goes on with it: what was compacted, and what was not.
    assert log.reclaim.compact(log.segments[1], [], 1 << 20) > 0
    assert read_all(open_log(tmp_path / "q")[0]) == read_all(log)


def test_what_is_mapped_can_be_read_through_a_reopen_and_goes_with_its_files(
    tmp_path: Path,
) -> None:
    filesystem, mappings, indexes = FaultyFileSystem(tmp_path), Mappings(), MappedIndexes()
    options = LogOptions(
        segment_bytes=SEGMENT_BYTES,
        index_interval_bytes=64,
        descriptors=Descriptors(8),
        mappings=mappings,
        indexes=indexes,
    )
    OPENED.append(options.descriptors)
    log, _ = Log.open(tmp_path / "q", IDENTITY, options, filesystem)
    append(log, 0, 30)
    window = log.read_window(0, 100)
    log.read(4, 1, 1)
    assert mappings.count == 1
    assert len(indexes) == 1
    fail(log, filesystem)
    log.reopen()
    # A read that is still under way by the old state can leave nothing behind in the sets.
    assert len(indexes) == 0
    again = log.read_window(0, 100)
    assert window.messages == again.messages
    append(log, 30, 33)
    assert log.remove_settled(30) > 0
    expected_messages = list(expected(0, len(window.messages)).values())
    assert window.messages == again.messages == expected_messages
    del window, again
    assert mappings.count == len(indexes) == 0
    assert read_all(log) == expected(log.log_start_offset, 33)


def test_reads_go_on_while_a_log_is_opened_anew(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, SEGMENT_BYTES)
    append(log, 0, 30)
    is_over = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not is_over.is_set():
            try:
                found = log.read(0, 1 << 20, 30)
            except LogFailedError as error:
                wrong.append(error)
                return
            if found.lost or dict(zip(found.offsets, found.messages, strict=True)) != whole:
                wrong.append(found)

    whole = expected(0, 30)
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        fail(log, filesystem)
        log.reopen()
    is_over.set()
    for reader in readers:
        reader.join(HANG_SECONDS)
    assert wrong == []


def test_what_a_reopen_has_lost_is_told_again_by_the_next_start(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 9)
    (path,) = (tmp_path / "q").glob("*.log")
    size = path.stat().st_size
    fail(log, filesystem)
    (tmp_path / "q" / "end").unlink()
    cut(path, size - 1)
    assert log.reopen().lost == [(6, 9)]
    append(log, 9, 12)
    again, report = open_log(tmp_path / "q")
    assert report.lost == [(6, 9)]
    assert read_all(again) == expected(0, 6) | expected(9, 12)
