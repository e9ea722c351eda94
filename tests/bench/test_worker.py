"""Worker processes: start line, result, failure."""

import os
import signal

import pytest

from bench.errors import BenchError
from bench.worker import Counters, StartLine, Worker
from bench.workers import Workers


def add(start_line: StartLine, counters: Counters, number: int) -> tuple[int, int]:
    start_line.wait()
    counters.received.value += number
    return os.getpid(), counters.received.value


def fail_at_the_start_line(start_line: StartLine) -> None:
    raise OSError("no broker there")


def fail_while_working(start_line: StartLine) -> None:
    start_line.wait()
    raise OSError("the broker went away")


def vanish(start_line: StartLine) -> None:
    os._exit(3)


def wait_for_ever(start_line: StartLine) -> None:
    start_line.wait()
    signal.pause()


def test_a_worker_runs_in_a_process_of_its_own_and_shares_counters() -> None:
    counters = Counters()
    with Workers(lambda: None) as workers:
        worker = workers.start(add, counters, 5)
        counters.received.value = 37
        worker.go()
        pid, total = workers.wait_for(worker)

    assert pid != os.getpid()
    assert total == counters.received.value == 42


def test_a_failure_at_the_start_line_is_raised_with_its_traceback() -> None:
    with pytest.raises(BenchError, match=r"fail_at_the_start_line failed:(?s:.*)no broker there"):
        Worker(fail_at_the_start_line)


def test_a_worker_that_vanishes_is_noticed() -> None:
    with pytest.raises(BenchError, match="vanish ended without a result"):
        Worker(vanish)


def test_a_result_that_comes_while_another_is_awaited_is_kept() -> None:
    with Workers(lambda: None) as workers:
        first, second = (workers.start(add, Counters(), number) for number in (1, 2))
        first.go()
        assert first.pipe.poll(20)
        second.go()

        assert workers.wait_for(second)[1] == 2
        assert workers.wait_for(first)[1] == 1


def test_the_failure_of_another_worker_ends_the_wait() -> None:
    with Workers(lambda: None) as workers:
        waiting = workers.start(wait_for_ever)
        failing = workers.start(fail_while_working)
        waiting.go()
        failing.go()
        with pytest.raises(BenchError, match="the broker went away"):
            workers.wait_for(waiting)
