import errno
import gc
import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from appendlog import (
    Append,
    CloseRequest,
    CompactRequest,
    DeleteRequest,
    FileSystem,
    Flusher,
    FlushRequest,
    FlushResult,
    Log,
    LogFailedError,
    RemoveSettledRequest,
)
from appendlog.files.counted_files import CountedFiles
from appendlog.flushing import write_threads
from appendlog.flushing.bell import Bell
from appendlog.flushing.execution import carry_out
from appendlog.flushing.flusher import PARALLEL_MAX, SPARE_THREADS
from appendlog.flushing.requests import Request
from tests.appendlog.builders import append, chunk, expected, open_log, read_all
from tests.appendlog.system_threads import await_no_thread
from tests.driven_flusher import DrivenFlusher
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError
from tests.limits import HANG_SECONDS


def taken(reports: SimpleQueue[list[FlushResult]]) -> list[FlushResult]:
    """Return all results that a closed flusher has reported."""
    results: list[FlushResult] = []
    while not reports.empty():
        results += reports.get()
    return results


def of_log(log: Log, requests: Sequence[Request]) -> list[Request]:
    return [request for request in requests if request.log is log]


def test_each_request_has_one_result_in_order(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(rounds.put)
    first, _ = open_log(tmp_path / "1")
    second, _ = open_log(tmp_path / "2")
    requests = [
        FlushRequest(log, Append([chunk(n, n + 3)], n + 3, sync=True))
        for n in range(0, 30, 3)
        for log in (first, second)
    ]
    for request in requests:
        flusher.submit(request)
    flusher.start()
    flusher.close()
    results = taken(rounds)
    for log in (first, second):
        assert of_log(log, [result.request for result in results]) == of_log(log, requests)
    assert all((result.error, result.freed_bytes) == (None, 0) for result in results)
    assert first.recovery_point == second.recovery_point == 30
    assert read_all(first) == read_all(second) == expected(0, 30)


def test_only_what_removes_bytes_says_that_it_freed_some(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1_000)
    assert carry_out([FlushRequest(log, Append([chunk(0, 30)], 30, sync=True), roll=True)]) == (
        None,
        0,
    )
    assert carry_out([FlushRequest(log, Append([chunk(30, 60)], 60, sync=True))]) == (None, 0)
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
    flusher = DrivenFlusher(rounds.put)
    flusher.start()
    filesystem.sync_gate.clear()
    flusher.submit(FlushRequest(log, Append([chunk(3, 6)], 6, sync=True)))
    assert filesystem.sync_waiting.wait(HANG_SECONDS)
    assert log.recovery_point == 3
    for n in range(6, 30, 3):
        flusher.submit(FlushRequest(log, Append([chunk(n, n + 3)], n + 3, sync=True)))
    before = len(filesystem.operations)
    filesystem.sync_gate.set()
    assert len(rounds.get(timeout=HANG_SECONDS)) == 1
    assert len(rounds.get(timeout=HANG_SECONDS)) == 8
    assert filesystem.operations[before:] == ["pwrite", "pwritev", "pwrite"]
    flusher.close()
    assert log.recovery_point == 30


def test_one_failed_log_does_not_stop_the_others(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(rounds.put)
    bad, _ = open_log(tmp_path / "bad", FaultyFileSystem(tmp_path, fail_at=0))
    good, _ = open_log(tmp_path / "good")
    for log in (bad, good):
        flusher.submit(FlushRequest(log, Append([chunk(0, 3)], 3, sync=True)))
    flusher.start()
    flusher.close()
    failed, done = sorted(taken(rounds), key=lambda result: result.request.log is good)
    assert isinstance(failed.error, LogFailedError)
    assert bad.failed is failed.error
    assert done.error is None


def test_a_mistake_of_ours_fails_the_log_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(rounds.put)
    log, _ = open_log(tmp_path / "q")
    flusher.submit(FlushRequest(log, Append([b"not a chunk"], 3, sync=True)))
    flusher.start()
    flusher.close()
    (result,) = rounds.get()
    assert isinstance(result.error, LogFailedError)
    assert isinstance(result.error.cause, ValueError)
    assert "flusher failed" in caplog.text


def test_maintenance_is_done_in_order_behind_the_appends(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(rounds.put)
    log, _ = open_log(tmp_path / "q", segment_bytes=300)
    chunks = [chunk(n, n + 3) for n in range(0, 15, 3)]
    requests: list[Request] = [
        FlushRequest(log, Append(chunks, 15, sync=False)),
        FlushRequest(log, Append([chunk(15, 18)], 18, sync=False)),
        RemoveSettledRequest(log, 7),
        CloseRequest(log),
        DeleteRequest(log),
    ]
    for request in requests:
        flusher.submit(request)
    flusher.start()
    flusher.close()
    results = taken(rounds)
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
        assert self.may_remove.wait(HANG_SECONDS)
        super().unlink(path)


def test_a_log_that_takes_long_to_remove_holds_nobody_up(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow = SlowRemoval(tmp_path)
    gone, _ = open_log(tmp_path / "gone", slow)
    shrinking, _ = open_log(tmp_path / "shrinking", slow, segment_bytes=300)
    other, _ = open_log(tmp_path / "other")
    append(gone, 0, 3)
    append(shrinking, 0, 15)
    flusher = DrivenFlusher(rounds.put)
    flusher.start()
    flusher.submit(DeleteRequest(gone))
    flusher.submit(RemoveSettledRequest(shrinking, 7))
    assert slow.is_removing.wait(HANG_SECONDS)

    for log, end in ((other, 3), (shrinking, 18), (other, 6)):
        request = FlushRequest(log, Append([chunk(end - 3, end)], end, sync=True))
        flusher.submit(request)
        (result,) = rounds.get(timeout=HANG_SECONDS)
        assert (result.request, result.error) == (request, None)

    slow.may_remove.set()
    flusher.close()
    late = taken(rounds)
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
                meeting.wait(HANG_SECONDS)
            return super().pwritev(descriptor, buffers, position, sync)

    filesystem = Meeting(tmp_path)
    logs = [open_log(tmp_path / str(number), filesystem)[0] for number in range(3)]
    flusher = DrivenFlusher(rounds.put)
    for log in logs:
        flusher.submit(FlushRequest(log, Append([chunk(0, 3)], 3, sync=True)))
    flusher.start()
    flusher.close()
    assert [result.error for result in taken(rounds)] == [None] * 3


def test_a_round_of_many_logs_loses_and_mixes_nothing(tmp_path: Path) -> None:
    rounds: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(rounds.put)
    logs = [open_log(tmp_path / str(number))[0] for number in range(5 * PARALLEL_MAX)]
    broken = FaultyFileSystem(tmp_path, fail_at=3)
    logs[7], _ = open_log(tmp_path / "broken", broken)
    requests = [
        FlushRequest(log, Append([chunk(start, start + 3)], start + 3, sync=bool(at % 2)))
        for start in (0, 3)
        for at, log in enumerate(logs)
    ]
    for request in requests:
        flusher.submit(request)
    flusher.start()
    flusher.close()
    results = taken(rounds)
    assert len(results) == len(requests)
    for at, log in enumerate(logs):
        assert of_log(log, [result.request for result in results]) == of_log(log, requests)
        failures = [result.error for result in results if result.request.log is log]
        if log is logs[7]:
            assert all(isinstance(error, LogFailedError) for error in failures)
        else:
            assert failures == [None, None]
            assert log.recovery_point == (6 if at % 2 else 0)
            assert read_all(log) == expected(0, 6)


def test_results_that_are_not_taken_do_not_end_the_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = threading.Semaphore(0)

    def on_results(results: list[FlushResult]) -> None:
        seen.release()
        raise RuntimeError(f"{len(results)} not taken")

    log, _ = open_log(tmp_path / "q")
    flusher = DrivenFlusher(on_results)
    flusher.start()
    for end in (3, 6):
        flusher.submit(FlushRequest(log, Append([chunk(end - 3, end)], end, sync=True)))
        assert seen.acquire(timeout=HANG_SECONDS)
    flusher.close()
    assert log.recovery_point == 6
    assert "results not taken" in caplog.text


class StuckSyncs(FaultyFileSystem):
    """Syncs wait until the test lets them go on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_sync = threading.Event()
        self.stuck = threading.Semaphore(0)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if sync:
            self.stuck.release()
            assert self.may_sync.wait(HANG_SECONDS)
        return super().pwritev(descriptor, buffers, position, sync)


def first_append(log: Log) -> FlushRequest:
    return FlushRequest(log, Append([chunk(0, 3)], 3, sync=True))


def test_a_lone_log_is_written_while_those_of_another_payer_wait_for_the_disk(
    tmp_path: Path,
) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow = StuckSyncs(tmp_path)
    many = [open_log(tmp_path / str(number), slow)[0] for number in range(5 * PARALLEL_MAX)]
    lone, _ = open_log(tmp_path / "lone")
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    for log in many:
        flusher.submit(first_append(log), "many")
    for _ in range(PARALLEL_MAX):
        assert slow.stuck.acquire(timeout=HANG_SECONDS)

    for end in (3, 6, 9):
        flusher.submit(FlushRequest(lone, Append([chunk(end - 3, end)], end, sync=True)), "lone")
        (result,) = reports.get(timeout=HANG_SECONDS)
        assert (result.request.log, result.error) == (lone, None)
    assert lone.recovery_point == 9

    slow.may_sync.set()
    flusher.close()
    assert sorted(result.request.log.directory for result in taken(reports)) == sorted(
        log.directory for log in many
    )


def test_a_log_is_reported_while_another_one_of_its_payer_waits_for_the_disk(
    tmp_path: Path,
) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow = StuckSyncs(tmp_path)
    stuck, _ = open_log(tmp_path / "stuck", slow)
    other, _ = open_log(tmp_path / "other")
    flusher = DrivenFlusher(reports.put)
    for log in (stuck, other):
        flusher.submit(first_append(log))
    flusher.start()
    assert slow.stuck.acquire(timeout=HANG_SECONDS)
    (result,) = reports.get(timeout=HANG_SECONDS)
    assert result.request.log is other
    slow.may_sync.set()
    flusher.close()
    (result,) = taken(reports)
    assert (result.request.log, result.error) == (stuck, None)


def test_a_close_beside_writes_reports_each_request_once(tmp_path: Path) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow = StuckSyncs(tmp_path)
    logs = [open_log(tmp_path / str(number), slow)[0] for number in range(3 * PARALLEL_MAX)]
    broken = FaultyFileSystem(tmp_path, fail_at=0)
    logs[5], _ = open_log(tmp_path / "broken", broken)
    requests: list[Request] = [
        FlushRequest(log, Append([chunk(start, start + 3)], start + 3, sync=True))
        for start in range(0, 30, 3)
        for log in logs
    ]
    requests += [CloseRequest(log) for log in logs if log is not logs[5]]
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    for at, request in enumerate(requests):
        flusher.submit(request, at % 3)
    assert slow.stuck.acquire(timeout=HANG_SECONDS)
    closing = threading.Thread(target=flusher.close)
    closing.start()
    slow.may_sync.set()
    closing.join(HANG_SECONDS)
    assert not closing.is_alive()
    results = taken(reports)
    assert len(results) == len(requests)
    for log in logs:
        assert of_log(log, [result.request for result in results]) == of_log(log, requests)
        failures = {result.error for result in results if result.request.log is log}
        assert failures == ({log.failed} if log is logs[5] else {None})


def test_results_stay_in_order_when_two_threads_submit(tmp_path: Path) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    logs = [open_log(tmp_path / str(number))[0] for number in range(2 * PARALLEL_MAX)]
    requests = [
        FlushRequest(log, Append([chunk(start, start + 3)], start + 3, sync=False))
        for start in range(0, 60, 3)
        for log in logs
    ]

    def submit(client: int) -> None:
        for request in requests:
            if logs.index(request.log) % 2 == client:
                flusher.submit(request, client)

    submitters = [threading.Thread(target=submit, args=(client,)) for client in range(2)]
    for submitter in submitters:
        submitter.start()
    for submitter in submitters:
        submitter.join()
    flusher.close()
    results = taken(reports)
    assert len(results) == len(requests)
    for log in logs:
        assert of_log(log, [result.request for result in results]) == of_log(log, requests)
        assert read_all(log) == expected(0, 60)


class OneAtATime(FaultyFileSystem):
    """Each synced write waits until the test lets one go on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_writing = threading.Semaphore(0)
        self.may_go_on = threading.Semaphore(0)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if sync:
            self.is_writing.release()
            assert self.may_go_on.acquire(timeout=HANG_SECONDS)
        return super().pwritev(descriptor, buffers, position, sync)


def test_a_result_is_not_kept_during_the_write_of_another_payer(tmp_path: Path) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow, lone_disk = StuckSyncs(tmp_path), OneAtATime(tmp_path)
    others = [open_log(tmp_path / str(number), slow)[0] for number in range(SPARE_THREADS + 1)]
    lone, _ = open_log(tmp_path / "lone", lone_disk)
    flusher = DrivenFlusher(reports.put, parallel_max=1)
    # Equal clocks: they are served in this order. The last one finds no thread at first.
    for client, log in enumerate([*others[:-1], lone, others[-1]]):
        flusher.submit(first_append(log), client)
    flusher.start()
    for _ in range(SPARE_THREADS):
        assert slow.stuck.acquire(timeout=HANG_SECONDS)
    assert lone_disk.is_writing.acquire(timeout=HANG_SECONDS)
    lone_disk.may_go_on.release()
    (result,) = reports.get(timeout=HANG_SECONDS)
    assert result.request.log is lone
    slow.may_sync.set()
    flusher.close()
    assert len(taken(reports)) == len(others)


def test_a_result_is_not_kept_during_another_write_of_the_same_payer(tmp_path: Path) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    disk = OneAtATime(tmp_path)
    logs = [open_log(tmp_path / str(number), disk)[0] for number in range(5)]
    flusher = DrivenFlusher(reports.put, parallel_max=1)
    for log in logs:
        flusher.submit(first_append(log))
    flusher.start()
    for log in logs:
        assert disk.is_writing.acquire(timeout=HANG_SECONDS)
        disk.may_go_on.release()
        (result,) = reports.get(timeout=HANG_SECONDS)
        assert result.request.log is log
    flusher.close()


def test_what_is_submitted_during_a_write_goes_before_more_of_its_payer(tmp_path: Path) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    slow, disk = StuckSyncs(tmp_path), OneAtATime(tmp_path)
    stuck = [open_log(tmp_path / f"stuck {number}", slow)[0] for number in range(SPARE_THREADS)]
    mine = [open_log(tmp_path / f"mine {number}", disk)[0] for number in range(2)]
    late, _ = open_log(tmp_path / "late", disk)
    flusher = DrivenFlusher(reports.put, parallel_max=1)
    for client, log in enumerate(stuck):
        flusher.submit(first_append(log), client)
    for log in mine:
        flusher.submit(first_append(log), "mine")
    flusher.start()
    for _ in stuck:
        assert slow.stuck.acquire(timeout=HANG_SECONDS)
    assert disk.is_writing.acquire(timeout=HANG_SECONDS)
    flusher.submit(first_append(late), "late")
    for log in (mine[0], late, mine[1]):
        disk.may_go_on.release()
        (result,) = reports.get(timeout=HANG_SECONDS)
        assert result.request.log is log
    slow.may_sync.set()
    flusher.close()
    assert len(taken(reports)) == len(stuck)


@pytest.mark.skipif(write_threads._START is None, reason="without the compiled kernel")
def test_the_usual_append_is_written_without_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    files = CountedFiles()
    log, _ = open_log(tmp_path / "q", files)
    append(log, 0, 3)
    before = files.counters()
    for name in ("pwrite", "pwritev", "fdatasync", "fsync", "open"):
        monkeypatch.setattr(os, name, None)
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    for end in (6, 9, 12):
        flusher.submit(FlushRequest(log, Append([chunk(end - 3, end)], end, sync=True)))
        (result,) = reports.get(timeout=HANG_SECONDS)
        assert result.error is None
        assert log.recovery_point == end
    flusher.close()
    after = files.counters()
    assert after.write_count - before.write_count == 6
    assert after.sync_count - before.sync_count == 3
    monkeypatch.undo()
    assert read_all(open_log(tmp_path / "q")[0]) == read_all(log) == expected(0, 12)


def test_nothing_is_left_of_a_closed_flusher(tmp_path: Path) -> None:
    threads, files = set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))
    flusher = DrivenFlusher(lambda _: None)
    flusher.start()
    log, _ = open_log(tmp_path / "q")
    for end in (3, 6):
        flusher.submit(FlushRequest(log, Append([chunk(end - 3, end)], end, sync=True)))
    flusher.submit(CloseRequest(log))
    flusher.close()
    assert set(threading.enumerate()) == threads
    await_no_thread("amqp-write")
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_a_flusher_that_was_never_started_drops_what_was_submitted(tmp_path: Path) -> None:
    results: list[FlushResult] = []
    log, _ = open_log(tmp_path / "q")
    gone, _ = open_log(tmp_path / "gone")
    append(gone, 0, 3)
    closed: list[bool] = []
    flusher = Flusher(results.extend)
    flusher.submit(FlushRequest(log, Append([chunk(0, 3)], 3, sync=True)))
    flusher.submit(DeleteRequest(gone))
    assert not flusher.is_idle
    flusher.close(lambda: closed.append(True))
    assert closed == [True]
    assert results == []
    assert gone.directory.exists()
    assert not log.directory.exists()


@pytest.mark.parametrize("refused", ["amqp-write", "amqp-flusher", "amqp-maintenance"])
def test_a_start_without_a_thread_leaves_nothing_and_can_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(refused):
            raise RuntimeError("can't start new thread")
        begin(thread)

    def no_thread(count: int, bell: int) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(threading.Thread, "start", refuse)
    if refused == "amqp-write":
        monkeypatch.setattr(write_threads, "_START", no_thread)
    threads, files = set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))
    results: list[FlushResult] = []
    flusher = Flusher(results.extend)
    log, _ = open_log(tmp_path / "q")
    flusher.submit(FlushRequest(log, Append([chunk(0, 3)], 3, sync=True)))
    with pytest.raises((OSError, RuntimeError)):
        flusher.start(lambda fileno, take_done: None)
    assert set(threading.enumerate()) == threads
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    closed: list[bool] = []
    flusher.close(lambda: closed.append(True))
    assert closed == [True]


def test_work_for_which_no_further_thread_can_be_started_waits_for_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    logs = [open_log(tmp_path / str(number))[0] for number in range(PARALLEL_MAX)]

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for log in logs:
        flusher.submit(first_append(log))
    flusher.close()
    assert {result.request.log for result in taken(reports)} == set(logs)


def test_a_write_that_is_taken_in_part_is_made_again(tmp_path: Path) -> None:
    class Partial(FileSystem):
        octets = 1 << 20

        def pwritev(
            self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
        ) -> int:
            part, self.octets = b"".join(buffers)[: self.octets], 1 << 20
            return super().pwritev(descriptor, [part], position, sync)

    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    filesystem = Partial()
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    for end in range(6, 30, 3):
        filesystem.octets = end
        flusher.submit(FlushRequest(log, Append([chunk(end - 3, end)], end, sync=True)))
        (result,) = reports.get(timeout=HANG_SECONDS)
        assert result.error is None
        assert log.recovery_point == end
    flusher.close()
    assert read_all(open_log(tmp_path / "q")[0]) == read_all(log) == expected(0, 27)


@pytest.mark.parametrize("method", ["prepare", "complete"])
def test_a_mistake_of_ours_on_the_loop_fails_the_log_and_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("ours")

    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    log, _ = open_log(tmp_path / "q")
    append(log, 0, 3)
    monkeypatch.setattr(Log, method, broken)
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    flusher.submit(FlushRequest(log, Append([chunk(3, 6)], 6, sync=True)))
    (result,) = reports.get(timeout=HANG_SECONDS)
    flusher.close()
    assert isinstance(result.error, LogFailedError)
    assert isinstance(result.error.cause, ValueError)
    assert log.failed is result.error
    assert "flusher failed" in caplog.text


def test_a_mistake_of_ours_during_a_write_fails_the_log_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    filesystem.fail_at, filesystem.error = len(filesystem.operations), StoppedError()
    flusher = DrivenFlusher(reports.put)
    flusher.start()
    flusher.submit(FlushRequest(log, Append([chunk(3, 6)], 6, sync=True)))
    (result,) = reports.get(timeout=HANG_SECONDS)
    flusher.close()
    assert isinstance(result.error, LogFailedError)
    assert isinstance(result.error.cause, StoppedError)
    assert "flusher failed" in caplog.text


def test_a_bell_rings_from_the_first_ring_until_it_is_cleared() -> None:
    bell = Bell()
    assert not wait([bell.fileno], 0)
    for _ in range(3):
        bell.ring()
    assert wait([bell.fileno], 0)
    bell.clear()
    assert not wait([bell.fileno], 0)
    # A kernel rings it by its descriptor, as often as it likes.
    while True:
        try:
            os.write(bell.ringing_fileno, bytes(1024))
        except BlockingIOError:
            break
    bell.ring()
    while wait([bell.fileno], 0):
        bell.clear()
    bell.ring()
    assert wait([bell.fileno], 0)
    bell.close()


def test_a_write_that_has_returned_is_under_way_no_more(tmp_path: Path) -> None:
    """The event loop takes it in later: a loop that hangs is not a disk that hangs."""
    log, _ = open_log(tmp_path / "q", CountedFiles())
    append(log, 0, 3)
    flusher = Flusher(lambda _: None)
    take_done: list[Callable[[], None]] = []
    flusher.start(lambda _, taken: take_done.append(taken))
    flusher.submit(FlushRequest(log, Append([chunk(3, 6)], 6, sync=True)))
    assert wait([flusher.fileno], HANG_SECONDS), "the write returns"

    under_way = flusher.under_way()
    take_done[0]()
    flusher.close(lambda: None)
    assert under_way == []


def test_a_watch_may_ask_while_the_owner_begins_a_write() -> None:
    """A collection may come while the watch asks; its callbacks let the owner's thread run."""

    def written(number: int) -> object:
        return type("Write", (), {"path": Path("segment"), "number": number})()

    flusher = Flusher(lambda _: None)
    writes: dict[object, object] = {written(number): None for number in range(9)}
    flusher._by_write = writes  # type: ignore[assignment]
    flusher._write_threads = SimpleNamespace(written=list)

    def owner_runs(phase: str, _: object) -> None:
        if phase == "start":
            writes[written(len(writes))] = None

    before = gc.get_threshold()
    gc.collect()  # Empties the free list of tuples.
    gc.callbacks.append(owner_runs)
    gc.set_threshold(1)
    try:
        for _ in range(5):
            flusher.under_way()
    finally:
        gc.callbacks.remove(owner_runs)
        gc.set_threshold(*before)
