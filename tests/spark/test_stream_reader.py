"""Where a stream begins, and that it has each row once, wherever it is killed."""

import pytest

from appendlog.spark.errors import BoundError, QueueNotFoundError
from appendlog.spark.source.data_source import stream_reader
from tests.spark.builders import START_NS, plain_messages
from tests.spark.stream_directory import ALL, NO_QUEUE, QueueDirectory, ends, numbers, offsets_of
from tests.spark.stream_engine import STEPS, TOPIC_AND_OFFSET, CrashError, Query


def test_a_stream_reads_everything_once_and_then_waits(directory: QueueDirectory) -> None:
    stored = directory.add("orders", 100)
    reader = directory.reader()
    query = Query(lambda: reader)
    assert query.run_batch(reader) == 100
    assert query.run_batch(reader) is None
    stored.append(plain_messages(7))
    assert query.run_batch(reader) == 7
    assert query.rows == numbers("orders", 107)


def test_nothing_beyond_the_durable_end_is_read(directory: QueueDirectory) -> None:
    stored = directory.add("orders", 10)
    stored.append(plain_messages(5), sync=False)
    reader = directory.reader()
    assert ends(reader.latestOffset(reader.initialOffset(), ALL)) == {"orders": 10}


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"startingOffsets": "earliest"}, 0),
        ({"startingOffsets": "latest"}, 100),
        ({"startingOffsets": '{"orders": {"0": 42}}'}, 42),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, 100),
        ({"startingTimestamp": str(START_NS // 10**6 + 50)}, 50),
        (
            {
                "startingOffsetsByTimestamp": f'{{"orders": {{"0": {START_NS // 10**6 + 10**9}}}}}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            100,
        ),
    ],
)
def test_a_stream_begins_where_it_is_told_to(
    directory: QueueDirectory, options: dict[str, str], first: int
) -> None:
    stored = directory.add("orders", 100)
    given = {"path": str(directory.path), "subscribe": "orders", **options}
    reader = stream_reader(given, TOPIC_AND_OFFSET)
    directory.readers.append(reader)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert offsets_of(reader, {}, end) == list(range(first, 100))
    stored.append(plain_messages(10))
    later = reader.latestOffset(end, ALL)
    assert offsets_of(reader, end, later) == list(range(100, 110))


def test_a_queue_that_does_not_exist_is_refused_by_name(directory: QueueDirectory) -> None:
    directory.add("orders", 1)
    with pytest.raises(QueueNotFoundError, match="nearest of 1: orders"):
        directory.reader("ordres").latestOffset({}, ALL)


def test_bounds_of_another_queue_are_refused(directory: QueueDirectory) -> None:
    directory.add("orders", 1)
    with pytest.raises(BoundError):
        directory.reader(startingOffsets='{"other": {"0": 1}}').latestOffset({}, ALL)


@pytest.mark.parametrize("step", STEPS)
def test_a_stream_from_latest_begins_once_wherever_its_first_run_is_killed(
    directory: QueueDirectory, step: str
) -> None:
    stored = directory.add("orders", 10)
    query = Query(lambda: directory.reader(startingOffsets="latest"))
    with pytest.raises(CrashError):
        query.run_available_now((0, step))
    has_begun = bool(query.offset_log)
    stored.append(plain_messages(5))
    query.run_available_now()
    stored.append(plain_messages(3))
    query.run_available_now()
    assert query.rows == numbers("orders", 18, 10 if has_begun else 15)
    assert has_begun == (step not in ("begun", "ended"))


def test_a_pattern_without_a_queue_has_begun_all_the_same(directory: QueueDirectory) -> None:
    directory.add("other", 3)
    query = Query(lambda: directory.reader("shop-.*", startingOffsets="latest"))
    assert query.run_available_now() == [0]
    directory.add("shop-1", 4)
    assert query.run_available_now() == [4]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_query_that_is_killed_at_any_step_has_each_row_once(
    directory: QueueDirectory, batch: int, step: str
) -> None:
    stored = directory.add("orders", 60)
    query = Query(lambda: directory.reader(maxOffsetsPerTrigger="25"))
    with pytest.raises(CrashError):
        query.run_available_now((batch, step))
    # What is planned again comes from a log that has grown, and was sealed, meanwhile.
    stored.append(plain_messages(100), step=7)
    query.run_available_now()
    assert query.rows == numbers("orders", 160)


def test_available_now_has_no_queue_that_comes_later(directory: QueueDirectory) -> None:
    directory.add("a1", 5)
    reader = directory.reader("a.")
    reader.prepareForTriggerAvailableNow()
    directory.add("a2", 5)
    assert ends(reader.latestOffset({}, ALL)) == {"a1": 5, "a2": 0}
    assert ends(reader.latestOffset(NO_QUEUE, ALL)) == {"a1": 5}


def test_available_now_ends_before_a_queue_that_was_declared_again_meanwhile(
    directory: QueueDirectory,
) -> None:
    directory.add("orders", 5)
    reader = directory.reader()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    directory.delete("orders")
    directory.add("orders", 2)
    reader._run.planner._queues.list_now()
    assert reader.latestOffset(end, ALL) == end


def test_queues_that_a_pattern_matches_later_are_read_from_their_beginning(
    directory: QueueDirectory,
) -> None:
    reader = directory.reader("shop-.*", startingOffsets="latest")
    directory.add("other", 3)
    query = Query(lambda: reader)
    assert query.run_batch(reader) == 0
    directory.add("shop-1", 4)
    directory.add("shop-2", 0)
    reader = directory.reader("shop-.*", startingOffsets="latest")
    assert query.run_batch(reader) == 4
    directory.queues["shop-2"].append(plain_messages(2))
    assert query.run_batch(reader) == 2
    assert query.rows == [*numbers("shop-1", 4), *numbers("shop-2", 2)]


def test_definitions_are_not_read_more_than_once_a_second(
    directory: QueueDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [100.0]
    monkeypatch.setattr("appendlog.spark.source.stream_planner.time.monotonic", lambda: 0)
    reader = directory.reader(".*")
    reader._run.planner._queues._clock = lambda: seconds[0]
    directory.add("a", 1)
    start = reader.initialOffset()
    assert ends(reader.latestOffset(start, ALL)) == {"a": 1}
    directory.add("b", 2)
    assert ends(reader.latestOffset(start, ALL)) == {"a": 1}
    seconds[0] += 1
    assert ends(reader.latestOffset(start, ALL)) == {"a": 1, "b": 2}


def test_the_same_batch_has_the_same_splits_and_after_the_log_grew_the_same_rows(
    directory: QueueDirectory,
) -> None:
    stored = directory.add("orders", 100)
    reader = directory.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first = [partition.value for partition in reader.partitions(start, end)]
    assert len(first) > 2
    assert [partition.value for partition in directory.reader().partitions(start, end)] == first
    stored.append(plain_messages(500), step=3)
    assert offsets_of(directory.reader(), start, end) == list(range(100))


def test_partitions_of_an_empty_range_are_none(directory: QueueDirectory) -> None:
    directory.add("orders", 10)
    reader = directory.reader()
    start = reader.initialOffset()
    assert reader.partitions(start, start) == []
