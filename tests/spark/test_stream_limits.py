"""How much a batch of a stream has: in offsets, in bytes, at least."""

from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows, ReadMinRows

from tests.spark.builders import plain_messages
from tests.spark.stream_directory import ALL, QueueDirectory, ends, offsets_of
from tests.spark.stream_engine import Query


def test_a_stream_that_waits_from_its_first_batch_on_has_begun(directory: QueueDirectory) -> None:
    stored = directory.add("orders", 10)
    options = {"startingOffsets": "latest", "minOffsetsPerTrigger": "50"}
    end = directory.reader(**options).latestOffset({}, ReadMinRows(50))
    stored.append(plain_messages(10))
    later = directory.reader(**options).latestOffset(end, ALL)
    assert offsets_of(directory.reader(), end, later) == list(range(10, 20))


def test_available_now_takes_batches_of_the_limit_and_nothing_that_comes_later(
    directory: QueueDirectory,
) -> None:
    stored = directory.add("orders", 60)
    reader = directory.reader(maxOffsetsPerTrigger="25")
    reader.prepareForTriggerAvailableNow()
    stored.append(plain_messages(1000))
    query = Query(lambda: reader)
    assert [query.run_batch(reader) for _ in range(4)] == [25, 25, 10, None]


def test_a_limit_is_shared_in_proportion_and_no_queue_starves(directory: QueueDirectory) -> None:
    directory.add("a", 300)
    directory.add("b", 100)
    directory.add("c", 1)
    reader = directory.reader("a,b,c", maxOffsetsPerTrigger="41")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(41)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert ends(end) == {"a": 30, "b": 10, "c": 1}
    assert ends(reader.latestOffset(start, ReadMaxRows(3))) == {"a": 1, "b": 1, "c": 1}
    assert ends(reader.latestOffset(start, ALL)) == {"a": 300, "b": 100, "c": 1}


def test_bytes_of_a_batch_are_limited_and_every_batch_moves_on(directory: QueueDirectory) -> None:
    stored = directory.add("orders")
    stored.append(plain_messages(100, body_bytes=100), step=1)
    reader = directory.reader(maxBytesPerTrigger="8000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(8000)
    query = Query(lambda: reader)
    sizes = query.run_available_now()
    assert sum(sizes) == 100
    # 262 bytes of chunk and record each.
    assert all(20 <= size <= 8000 // 200 for size in sizes[:-1])
    tiny = Query(lambda: directory.reader(maxBytesPerTrigger="1"))
    assert sum(tiny.run_available_now()) == 100
    both = Query(lambda: directory.reader(maxBytesPerTrigger="8000", maxOffsetsPerTrigger="10"))
    assert set(both.run_available_now()) == {10}


def test_bytes_of_a_batch_are_limited_over_all_queues(directory: QueueDirectory) -> None:
    for name in ("a", "b"):
        directory.add(name).append(plain_messages(60, body_bytes=100), step=1)
    reader = directory.reader("a,b", maxBytesPerTrigger="8000")
    end = ends(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()))
    assert end["a"] == end["b"]
    assert 10 <= end["a"] <= 20


def test_a_gap_longer_than_any_limit_of_bytes_is_passed(directory: QueueDirectory) -> None:
    stored = directory.add("orders", 10)
    stored.skip(100_000)
    stored.append(plain_messages(10))
    query = Query(lambda: directory.reader(maxBytesPerTrigger="500"))
    assert sum(query.run_available_now()) == 20


def test_a_stream_that_waits_for_enough_stays_where_it_is(directory: QueueDirectory) -> None:
    stored = directory.add("orders", 30)
    reader = directory.reader(minOffsetsPerTrigger="50")
    assert reader.getDefaultReadLimit() == ReadMinRows(50)
    start = reader.latestOffset({}, ReadMinRows(50))
    assert ends(start) == {"orders": 0}
    assert reader.latestOffset(start, ReadMinRows(50)) == start
    assert ends(reader.reportLatestOffset() or {}) == {"orders": 30}
    stored.append(plain_messages(20))
    assert ends(reader.latestOffset(start, ReadMinRows(50))) == {"orders": 50}


def test_available_now_does_not_wait_for_enough(directory: QueueDirectory) -> None:
    directory.add("orders", 30)
    assert Query(lambda: directory.reader(minOffsetsPerTrigger="50")).run_available_now() == [30]
