"""The sensor reads the memory of this process and the disk of this machine."""

import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from amqp_server.upkeep import resource_sensor
from amqp_server.upkeep.resource_sensor import (
    ResourceSensor,
    available_memory_bytes,
    watermark_bytes,
)
from tests.limits import HANG_SECONDS

MIB = 1024 * 1024


def test_the_sensor_reads_the_disk_of_the_directory(tmp_path: Path) -> None:
    assert ResourceSensor(tmp_path, 1 << 60).read().disk_free_bytes > 0


def test_a_missing_directory_raises_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        ResourceSensor(tmp_path / "gone", 1 << 60).read()


def test_the_sensor_reads_memory_that_the_process_takes_and_frees(tmp_path: Path) -> None:
    sensor = ResourceSensor(tmp_path, 0)  # above it, so free memory is released first
    before = sensor.read().memory_bytes

    taken = bytearray(b"x") * (64 * MIB)
    with_it = sensor.read().memory_bytes
    del taken

    if sys.platform == "linux":
        assert with_it - before > 60 * MIB
    assert sensor.read().memory_bytes - before < 10 * MIB


def test_memory_in_use_is_that_of_objects_and_messages(tmp_path: Path) -> None:
    used = ResourceSensor(tmp_path, 0).read().used_bytes
    with_messages = ResourceSensor(tmp_path, 0, lambda: 1000).read().used_bytes
    below_the_watermark = ResourceSensor(tmp_path, 1 << 60, lambda: 1 << 60).read()

    assert used is not None
    assert with_messages is not None
    if sys.platform == "linux":
        assert used > 0
        everything = ResourceSensor(tmp_path, 0, lambda: 1 << 60).read()
        assert everything.used_bytes == everything.memory_bytes
    assert below_the_watermark.used_bytes == below_the_watermark.memory_bytes


def test_a_watermark_is_a_share_of_the_memory_or_a_number_of_bytes() -> None:
    assert watermark_bytes(0.5) == available_memory_bytes() // 2
    assert watermark_bytes(5 * MIB) == 5 * MIB


@pytest.mark.parametrize(
    ("texts", "expected"),
    [({}, None), ({"": "max"}, None), ({"": "max", "a": "1000"}, 1000), ({"a/b": "700"}, 700)],
)
def test_the_least_limit_of_the_cgroups_around_is_the_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], expected: int | None
) -> None:
    machine = available_memory_bytes()
    for group, text in texts.items():
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / group / "memory.max").write_text(f"{text}\n")
    own = tmp_path / "cgroup"
    own.write_text("0::/a/b\n")
    monkeypatch.setattr(resource_sensor, "_CGROUP_ROOT", tmp_path)
    monkeypatch.setattr(resource_sensor, "_CGROUP", own)

    assert available_memory_bytes() == (expected or machine)


def test_memory_is_read_while_the_disk_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    statvfs = os.statvfs

    def hanging(path: Path) -> os.statvfs_result:
        answers.wait()
        return statvfs(path)

    sensor = ResourceSensor(tmp_path, 1 << 60)
    monkeypatch.setattr(resource_sensor, "FREE_SPACE_SECONDS_MAX", HANG_SECONDS)
    before = sensor.read()
    monkeypatch.setattr(resource_sensor, "FREE_SPACE_SECONDS_MAX", 0.01)
    monkeypatch.setattr(os, "statvfs", hanging)
    threads = threading.active_count()
    try:
        for _ in range(3):
            # The last answer counts, and one thread waits for the next.
            assert sensor.read().disk_free_bytes == before.disk_free_bytes
            assert threading.active_count() == threads + 1
        with pytest.raises(OSError, match="does not answer"):
            ResourceSensor(tmp_path, 1 << 60).read()
    finally:
        answers.set()


def test_two_threads_may_read_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Alarms.look` runs every second, and for each command that changes a limit."""
    answers = threading.Event()
    statvfs = os.statvfs

    def slow(path: Path) -> os.statvfs_result:
        answers.wait(HANG_SECONDS)
        return statvfs(path)

    monkeypatch.setattr(os, "statvfs", slow)
    monkeypatch.setattr(resource_sensor, "FREE_SPACE_SECONDS_MAX", HANG_SECONDS)
    sensor = ResourceSensor(tmp_path, 1 << 60)
    with ThreadPoolExecutor(4) as readers:
        readings = [readers.submit(sensor.read) for _ in range(4)]
        # Several wait for one answer, more surely the longer it takes.
        wait(readings, 0.1)
        answers.set()
        assert all(each.result(HANG_SECONDS).disk_free_bytes > 0 for each in readings)


def test_a_system_without_a_thread_is_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Alarms.run` ends for ever with any other error than OSError."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    sensor = ResourceSensor(tmp_path, 1 << 60)
    sensor.read()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="can't start new thread"):
            sensor.read()
    # There are threads again.
    assert sensor.read().disk_free_bytes > 0


def test_an_error_that_repeats_does_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, statvfs = threading.Event(), os.statvfs

    def hanging(path: Path) -> os.statvfs_result:
        answers.wait(HANG_SECONDS)
        return statvfs(path)

    monkeypatch.setattr(os, "statvfs", hanging)
    monkeypatch.setattr(resource_sensor, "FREE_SPACE_SECONDS_MAX", 0.001)
    sensor = ResourceSensor(tmp_path, 1 << 60)
    lengths = []
    try:
        for _ in range(3):
            with pytest.raises(OSError, match="does not answer") as raised:
                sensor.read()
            lengths.append(len(list(traceback.walk_tb(raised.value.__traceback__))))
            del raised
    finally:
        answers.set()
    assert lengths[0] == lengths[-1]
