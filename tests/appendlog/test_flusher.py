import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import pytest

from appendlog import (
    CloseRequest,
    CompactRequest,
    DeleteRequest,
    FlushRequest,
    FlushResult,
    LogFailedError,
    RemoveSettledRequest,
    ThreadFlusher,
)
from appendlog.flushing.carrying_out import carry_out
from appendlog.flushing.flusher import PARALLEL_MAX, grouped
from appendlog.flushing.requests import Request
from tests.appendlog.builders import append, chunk, expected, open_log, read_all
from tests.faults.faulty_filesystem import FaultyFileSystem


def test_each_request_has_one_result_in_order(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    first, _ = open_log(tmp_path / "1")
    second, _ = open_log(tmp_path / "2")
    requests = [
        FlushRequest(log, [chunk(n, n + 3)], n + 3, sync=True)
        for n in range(0, 30, 3)
        for log in (first, second)
    ]
    for request in requests:
        flusher.submit(request)
    flusher.start()
    flusher.close()
    results: list[FlushResult] = []
    while not rounds.empty():
        results += rounds.get()
    assert [result.request for result in results] == requests
    assert all((result.error, result.freed_bytes) == (None, 0) for result in results)
    assert first.recovery_point == second.recovery_point == 30
    assert read_all(first) == read_all(second) == expected(0, 30)


def test_only_what_removes_bytes_says_that_it_freed_some(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1_000)
    assert carry_out([FlushRequest(log, [chunk(0, 30)], 30, sync=True, roll=True)]) == (None, 0)
    assert carry_out([FlushRequest(log, [chunk(30, 60)], 60, sync=True)]) == (None, 0)
    sealed = log.segments[0]
    assert carry_out([CompactRequest(log, sealed, [(0, 30)], live_bytes_max=1)]) == (None, 0)
    sealed_bytes = sealed.size_bytes
    assert carry_out([RemoveSettledRequest(log, 30)]) == (None, sealed_bytes)
    assert carry_out([CloseRequest(log)]) == (None, 0)


def test_requests_that_wait_for_the_disk_become_one_append(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    flusher.start()
    filesystem.sync_gate.clear()
    flusher.submit(FlushRequest(log, [chunk(3, 6)], 6, sync=True))
    assert filesystem.sync_waiting.wait(30)
    assert log.recovery_point == 3
    for n in range(6, 30, 3):
        flusher.submit(FlushRequest(log, [chunk(n, n + 3)], n + 3, sync=True))
    before = len(filesystem.operations)
    filesystem.sync_gate.set()
    assert len(rounds.get(timeout=30)) == 1
    assert len(rounds.get(timeout=30)) == 8
    assert filesystem.operations[before:] == ["pwrite", "pwritev", "pwrite"]
    flusher.close()
    assert log.recovery_point == 30


def test_one_failed_log_does_not_stop_the_others(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    bad, _ = open_log(tmp_path / "bad", FaultyFileSystem(tmp_path, fail_at=0))
    good, _ = open_log(tmp_path / "good")
    for log in (bad, good):
        flusher.submit(FlushRequest(log, [chunk(0, 3)], 3, sync=True))
    flusher.start()
    flusher.close()
    failed, done = rounds.get()
    assert isinstance(failed.error, LogFailedError)
    assert bad.failed is failed.error
    assert done.error is None


def test_a_mistake_of_ours_fails_the_log_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    log, _ = open_log(tmp_path / "q")
    flusher.submit(FlushRequest(log, [b"not a chunk"], 3, sync=True))
    flusher.start()
    flusher.close()
    (result,) = rounds.get()
    assert isinstance(result.error, LogFailedError)
    assert isinstance(result.error.cause, ValueError)
    assert "flusher failed" in caplog.text


def test_maintenance_is_done_in_order_behind_the_appends(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    log, _ = open_log(tmp_path / "q", segment_bytes=300)
    chunks = [chunk(n, n + 3) for n in range(0, 15, 3)]
    requests: list[Request] = [
        FlushRequest(log, chunks, 15, sync=False),
        FlushRequest(log, [chunk(15, 18)], 18, sync=False),
        RemoveSettledRequest(log, 7),
        CloseRequest(log),
        DeleteRequest(log),
    ]
    for request in requests:
        flusher.submit(request)
    flusher.start()
    flusher.close()
    results = [result for _ in range(4) for result in rounds.get()]
    assert [result.request for result in results] == requests
    assert [result.error for result in results] == [None] * 5
    assert results[2].freed_bytes > 0
    assert not (tmp_path / "q").exists()
    with pytest.raises(RuntimeError):
        flusher.submit(CloseRequest(log))


class SlowRemoval(FaultyFileSystem):
    """Removes nothing until it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_remove = threading.Event()
        self.is_removing = threading.Event()

    def unlink(self, path: Path) -> None:
        self.is_removing.set()
        assert self.may_remove.wait(30)
        super().unlink(path)


def test_a_log_that_takes_long_to_remove_holds_nobody_up(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow = SlowRemoval(tmp_path)
    gone, _ = open_log(tmp_path / "gone", slow)
    shrinking, _ = open_log(tmp_path / "shrinking", slow, segment_bytes=300)
    other, _ = open_log(tmp_path / "other")
    append(gone, 0, 3)
    append(shrinking, 0, 15)
    flusher = ThreadFlusher(rounds.put)
    flusher.start()
    flusher.submit(DeleteRequest(gone))
    flusher.submit(RemoveSettledRequest(shrinking, 7))
    assert slow.is_removing.wait(30)

    for log, end in ((other, 3), (shrinking, 18), (other, 6)):
        request = FlushRequest(log, [chunk(end - 3, end)], end, sync=True)
        flusher.submit(request)
        (result,) = rounds.get(timeout=30)
        assert (result.request, result.error) == (request, None)

    slow.may_remove.set()
    late = [rounds.get(timeout=30)[0] for _ in range(2)]
    flusher.close()
    assert {type(result.request) for result in late} == {DeleteRequest, RemoveSettledRequest}
    assert not gone.directory.exists()
    assert shrinking.log_start_offset > 0
    reopened, _ = open_log(tmp_path / "shrinking")
    assert read_all(reopened) == expected(shrinking.log_start_offset, 18)


def test_the_logs_of_a_round_wait_for_the_disk_together(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    meeting = threading.Barrier(3)

    class Meeting(FaultyFileSystem):
        """A sync returns only when two others are under way."""

        def pwritev(
            self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
        ) -> int:
            if sync:
                meeting.wait(30)
            return super().pwritev(descriptor, buffers, position, sync)

    filesystem = Meeting(tmp_path)
    logs = [open_log(tmp_path / str(number), filesystem)[0] for number in range(3)]
    flusher = ThreadFlusher(rounds.put)
    for log in logs:
        flusher.submit(FlushRequest(log, [chunk(0, 3)], 3, sync=True))
    flusher.start()
    flusher.close()
    assert [result.error for result in rounds.get()] == [None] * 3


def test_a_round_of_many_logs_loses_and_mixes_nothing(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    logs = [open_log(tmp_path / str(number))[0] for number in range(5 * PARALLEL_MAX)]
    broken = FaultyFileSystem(tmp_path, fail_at=3)
    logs[7], _ = open_log(tmp_path / "broken", broken)
    requests = [
        FlushRequest(log, [chunk(start, start + 3)], start + 3, sync=bool(at % 2))
        for start in (0, 3)
        for at, log in enumerate(logs)
    ]
    for request in requests:
        flusher.submit(request)
    flusher.start()
    flusher.close()
    results = rounds.get()
    assert [result.request for result in results] == requests
    for at, log in enumerate(logs):
        failures = [result.error for result in results if result.request.log is log]
        if log is logs[7]:
            assert all(isinstance(error, LogFailedError) for error in failures)
        else:
            assert failures == [None, None]
            assert log.recovery_point == (6 if at % 2 else 0)
            assert read_all(log) == expected(0, 6)


def test_a_round_that_is_not_taken_does_not_end_the_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = threading.Semaphore(0)

    def on_round(results: list[FlushResult]) -> None:
        seen.release()
        raise RuntimeError(f"{len(results)} not taken")

    log, _ = open_log(tmp_path / "q")
    flusher = ThreadFlusher(on_round)
    flusher.start()
    for end in (3, 6):
        flusher.submit(FlushRequest(log, [chunk(end - 3, end)], end, sync=True))
        assert seen.acquire(timeout=30)
    flusher.close()
    assert log.recovery_point == 6
    assert "round not taken" in caplog.text


def test_appends_are_grouped_by_log_in_their_order(tmp_path: Path) -> None:
    first, _ = open_log(tmp_path / "1")
    second, _ = open_log(tmp_path / "2")
    appends = [FlushRequest(log, [], 0, sync=False) for log in (first, second, first)]
    assert grouped(appends) == {first: [appends[0], appends[2]], second: [appends[1]]}
