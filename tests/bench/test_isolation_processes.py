"""The processes of a run: phases, failures, the load of the control."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.isolation.load import burn_cpu, write_disk
from bench.isolation.phased_process import PhasedProcess, PhaseTimeoutError
from tests.limits import HANG_SECONDS


def count(number: int, step: int) -> Iterator[tuple[int, int]]:
    while True:
        yield os.getpid(), number
        number += step


def fail_second() -> Iterator[str]:
    yield "ready"
    raise OSError("the broker went away")


def vanish() -> Iterator[None]:
    os._exit(3)
    yield


def wait_for_ever() -> Iterator[None]:
    yield
    signal.pause()


def test_each_phase_waits_for_its_order_and_reports() -> None:
    with PhasedProcess(count, 5, step=2) as process:
        pid, first = process.wait(HANG_SECONDS)
        process.go()
        again, second = process.wait(HANG_SECONDS)
        with pytest.raises(PhaseTimeoutError, match="count did not end in 0 s"):
            process.wait(0.01)

    assert pid == again != os.getpid()
    assert (first, second) == (5, 7)


def test_a_failure_is_raised_with_its_traceback() -> None:
    with PhasedProcess(fail_second) as process:
        assert process.wait(HANG_SECONDS) == "ready"
        process.go()
        with pytest.raises(BenchError, match=r"fail_second failed:(?s:.*)the broker went away"):
            process.wait(HANG_SECONDS)


def test_a_process_that_vanishes_is_noticed() -> None:
    with (
        PhasedProcess(vanish) as process,
        pytest.raises(BenchError, match="vanish ended without a report"),
    ):
        process.wait(HANG_SECONDS)


def test_a_process_that_does_not_end_is_stopped() -> None:
    with PhasedProcess(wait_for_ever) as process:
        process.wait(HANG_SECONDS)
        process.go()


def test_the_load_uses_the_cpu_that_it_is_told_to() -> None:
    load = burn_cpu(0.05, HANG_SECONDS)
    next(load)
    # `os.times` counts in hundredths of a second, and each of its parts is cut off there.
    before = time.process_time()
    next(load)

    assert time.process_time() - before >= 0.05


def test_the_load_of_the_disk_writes_all_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real_sync = os.fdatasync

    def note(descriptor: int) -> None:
        real_sync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fdatasync", note)
    load = write_disk(tmp_path, 3, 1000, 0.0)
    assert list(load) == [None, None]

    assert synced == [1000, 2000, 3000]
    assert not list(tmp_path.iterdir())
