"""What a directory of embedded logs promises, on a disk that loses power in any operation."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from appendlog import DURABLE, EDGE, STORAGE, THROUGHPUT, EmbeddedOptions
from offsets import Consumer, LogRoot
from tests.embedded.logs import BY_HAND
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.faults.power_cuts import crashes, leave

NAMES = ("a", "b")
PRESETS = [BY_HAND, THROUGHPUT, STORAGE, EDGE, DURABLE]


class Promise(NamedTuple):
    """What holds from an operation on.

    Attributes:
        operation: Number of the first operation behind it.
        log: Name of the log.
        synced_end: All below is on the disk.
        committed: All below is done for the group.
    """

    operation: int
    log: str
    synced_end: int
    committed: int


def by_hand(options: EmbeddedOptions) -> EmbeddedOptions:
    """Return options without threads, that roll often."""
    return replace(
        options, sync_interval_seconds=0.0, retention_interval_seconds=0.0, segment_bytes=900
    )


def record(log: str, offset: int) -> bytes:
    return f"{log} {offset}".encode() * 8


def tell(path: Path, options: EmbeddedOptions, filesystem: FaultyFileSystem) -> list[Promise]:
    """Write two logs and consume them; return what was promised when."""
    promises = []
    committed = dict.fromkeys(NAMES, 0)
    with LogRoot.open(path, options, filesystem=filesystem) as root:
        for _ in range(4):
            for name in NAMES:
                log = root.log(name)
                for _ in range(5):
                    end = log.append(record(name, log.end_offset)) + 1
                    if options.sync_each_append:
                        now = len(filesystem.operations)
                        promises.append(Promise(now, name, end, committed[name]))
                assert log.sync() == end
                now = len(filesystem.operations)
                promises.append(Promise(now, name, end, committed[name]))
            with Consumer(path, "g", sync_interval_seconds=0.0, filesystem=filesystem) as consumer:
                while (batch := consumer.poll(4)) is not None:
                    consumer.ack_batch(batch)
                    consumer.sync()
                    committed[batch.log] = batch.end
                    now = len(filesystem.operations)
                    promises.append(Promise(now, batch.log, batch.end, batch.end))
    return promises


def check(path: Path, promises: list[Promise]) -> None:
    """Check each promise on what is left, first before a writer comes, then after."""
    ends, done = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    for promise in promises:
        ends[promise.log] = max(ends[promise.log], promise.synced_end)
        done[promise.log] = max(done[promise.log], promise.committed)
    with Consumer(path, "g", sync_interval_seconds=0.0) as consumer:
        for name in NAMES:
            if done[name]:
                assert (consumer.committed(name) or 0) >= done[name]
    with LogRoot.open(path, by_hand(BY_HAND)) as root:
        for name in NAMES:
            log = root.log(name)
            assert log.end_offset >= ends[name]
            end = log.append(record(name, log.end_offset)) + 1
            log.sync()
            with Consumer(path, "new", name) as consumer:
                found: list[int] = []
                while (batch := consumer.poll()) is not None:
                    found += batch.offsets
                    assert batch.payloads == [record(name, each) for each in batch.offsets]
            assert set(range(ends[name])) <= set(found)
            assert found[-1] == end - 1
        with Consumer(path, "g") as consumer:
            while (batch := consumer.poll()) is not None:
                assert batch.offsets[0] >= done[batch.log]


@pytest.mark.crash
@pytest.mark.parametrize("preset", range(len(PRESETS)))
def test_a_power_cut_in_any_operation_breaks_no_promise(tmp_path: Path, preset: int) -> None:
    told = tmp_path / "told"
    path = told / "data"
    # The locks and FORMAT are made beside the file operations that can fail.
    LogRoot.open(path).close()
    filesystem = FaultyFileSystem(told)
    filesystem.keep_changes()
    promises = tell(path, by_hand(PRESETS[preset]), filesystem)
    assert filesystem.changes
    count = 0
    for number, outcome, survivors in crashes(filesystem.changes, preset):
        if (number + preset) % len(PRESETS):
            continue  # another preset has this one
        left = tmp_path / str(count)
        left.mkdir()
        leave(survivors, told, left)
        try:
            check(left / "data", [each for each in promises if each.operation <= number])
        except Exception as error:
            error.add_note(f"{number} {filesystem.operations[number]} {outcome} left in {left}")
            raise
        count += 1
    assert count > 20
