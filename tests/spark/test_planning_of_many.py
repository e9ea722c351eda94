"""Planning over more logs than a process may have files open, and while they change."""

import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appendlog.errors import OffsetOutOfRangeError
from appendlog.files.filesystem import FileSystem
from appendlog.reader import LogReader
from appendlog.spark.planning import settlement
from appendlog.split_reader import Split
from offsets.checkpoint_reading import CheckpointRecovery, read_checkpoint
from tests.spark import stream_engine
from tests.spark.builders import plain_messages, store_queue
from tests.spark.source_reading import partitions_of, reader_of
from tests.spark.stream_engine import Query

QUEUES = 50
FILES_MORE = 25


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def many(tmp_path: Path) -> Path:
    for number in range(QUEUES):
        stored = store_queue(tmp_path, f"q{number:02}")
        stored.append(plain_messages(3))
        stored.close()
    return tmp_path


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_open = open_files()
    resource.setrlimit(resource.RLIMIT_NOFILE, (is_open + FILES_MORE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("include", ["all", "unacked"])
def test_planning_a_query_leaves_no_file_open(many: Path, include: str) -> None:
    reader = reader_of(many, subscribePattern="q.*", include=include, minPartitions="5")
    before = open_files()
    gc.disable()  # it would close, some time, what nobody closes
    try:
        assert len(partitions_of(reader)) > 1
        assert open_files() == before
    finally:
        gc.enable()


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("limits", [{}, {"maxBytesPerTrigger": "1000"}])
def test_a_stream_reads_more_logs_than_it_may_have_files_open(
    many: Path, limits: dict[str, str]
) -> None:
    query = Query(lambda: stream_engine.reader_of(many, subscribePattern="q.*", **limits))
    query.run_available_now()
    assert sorted(query.rows) == [(f"q{n:02}", at) for n in range(QUEUES) for at in range(3)]


def retention_comes_in_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Have the first plan of splits find that its log was cut off meanwhile."""
    plan, calls = LogReader.plan_splits, list[int]()

    def meanwhile(self: LogReader, start: int, end: int, split_bytes: int) -> list[Split]:
        calls.append(start)
        if len(calls) == 1:
            raise OffsetOutOfRangeError(start, start + 1, end)
        return plan(self, start, end, split_bytes)

    monkeypatch.setattr(LogReader, "plan_splits", meanwhile)
    return lambda: len(calls)


def test_a_query_is_planned_again_when_retention_comes_in_between(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = retention_comes_in_once(monkeypatch)
    assert len(partitions_of(reader_of(many, subscribe="q01"))) == 1
    assert calls() == 2


def test_a_batch_is_planned_again_when_retention_comes_in_between(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream_engine.reader_of(many, subscribe="q01")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    calls = retention_comes_in_once(monkeypatch)
    assert len(reader.partitions({}, end)) == 1
    assert calls() == 2
    reader.stop()


def test_the_checkpoint_is_read_once_for_all_queues(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[Path]()

    def counted(directory: Path, filesystem: FileSystem) -> CheckpointRecovery:
        calls.append(directory)
        return read_checkpoint(directory, filesystem)

    monkeypatch.setattr(settlement, "read_checkpoint", counted)
    reader = reader_of(many, subscribePattern="q.*", include="unacked")
    assert len(partitions_of(reader)) == 1
    assert len(calls) == 1
    partitions_of(reader)
    assert len(calls) == 2
