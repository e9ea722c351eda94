import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from appendlog import (
    CloseRequest,
    DeleteRequest,
    FlushRequest,
    FlushResult,
    LogFailedError,
    RemoveSettledRequest,
    ThreadFlusher,
)
from appendlog.flusher import grouped
from tests.appendlog.builders import append, chunk, expected, open_log, read_all
from tests.appendlog.faulty_filesystem import FaultyFileSystem


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
    assert all(result.error is None for result in results)
    assert first.recovery_point == second.recovery_point == 30
    assert read_all(first) == read_all(second) == expected(0, 30)


def test_requests_that_wait_for_the_disk_become_one_append(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    flusher.start()
    filesystem.sync_gate.clear()
    flusher.submit(FlushRequest(log, [chunk(3, 6)], 6, sync=True))
    assert filesystem.sync_waiting.wait(10)
    assert log.recovery_point == 3
    for n in range(6, 30, 3):
        flusher.submit(FlushRequest(log, [chunk(n, n + 3)], n + 3, sync=True))
    before = len(filesystem.operations)
    filesystem.sync_gate.set()
    assert len(rounds.get(timeout=10)) == 1
    assert len(rounds.get(timeout=10)) == 8
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


def test_maintenance_is_done_in_order_with_the_appends(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = ThreadFlusher(rounds.put)
    log, _ = open_log(tmp_path / "q", segment_bytes=300)
    chunks = [chunk(n, n + 3) for n in range(0, 15, 3)]
    flusher.submit(FlushRequest(log, chunks, 15, sync=False))
    flusher.submit(RemoveSettledRequest(log, 7))
    flusher.submit(FlushRequest(log, [chunk(15, 18)], 18, sync=False))
    flusher.submit(CloseRequest(log))
    flusher.submit(DeleteRequest(log))
    flusher.start()
    flusher.close()
    results = rounds.get()
    assert [result.error for result in results] == [None] * 5
    assert results[1].freed_bytes > 0
    assert not (tmp_path / "q").exists()
    with pytest.raises(RuntimeError):
        flusher.submit(CloseRequest(log))


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
        assert seen.acquire(timeout=10)
    flusher.close()
    assert log.recovery_point == 6
    assert "round not taken" in caplog.text


def test_appends_are_grouped_per_log_up_to_the_next_other_request(tmp_path: Path) -> None:
    first, _ = open_log(tmp_path / "1")
    second, _ = open_log(tmp_path / "2")
    appends = [FlushRequest(log, [], 0, sync=False) for log in (first, second, first, first)]
    remove = RemoveSettledRequest(first, 0)
    assert grouped([*appends[:3], remove, appends[3]]) == [
        [appends[0], appends[2]],
        [appends[1]],
        [remove],
        [appends[3]],
    ]
