import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from appendlog import FileSystem
from appendlog.reclaim.leases import Leases
from appendlog.spark.errors import (
    BoundError,
    CheckpointError,
    QueueNotFoundError,
    StreamDataLossError,
)
from appendlog.spark.source.data_source import stream_reader
from appendlog.spark.source.stream_reader import LogStreamReader
from metadata.paths import document_path
from tests.spark.builders import START_NS, StoredQueue, plain_messages, store_queue
from tests.spark.stream_engine import STEPS, TOPIC_AND_OFFSET, CrashError, Query, reader_of


class Store:
    """A data directory with queues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.queues: dict[str, StoredQueue] = {}
        self.readers: list[LogStreamReader] = []

    def add(self, queue: str, count: int = 0, vhost: str = "/") -> StoredQueue:
        stored = self.queues[queue] = store_queue(self.path, queue, vhost, segment_bytes=4096)
        stored.append(plain_messages(count), step=10)
        return stored

    def delete(self, queue: str) -> None:
        """Delete a queue as the broker does: its definition first."""
        stored = self.queues.pop(queue)
        document_path(self.path / "metadata", "queues", stored.location.vhost, queue).unlink()
        stored.close()
        for path in stored.location.directory.iterdir():
            path.unlink()
        stored.location.directory.rmdir()

    def reader(self, subscribe: str = "orders", **options: str) -> LogStreamReader:
        way = "subscribePattern" if "." in subscribe else "subscribe"
        reader = reader_of(self.path, **{way: subscribe, "maxBytesPerPartition": "1000"}, **options)
        self.readers.append(reader)
        return reader

    def leases(self) -> list[Path]:
        return sorted((self.path / "leases").glob("*.json"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    for reader in store.readers:
        reader.stop()
    for stored in store.queues.values():
        stored.close()


ALL = ReadAllAvailable()
NO_QUEUE = {"": {"version": 1, "vhost": "/"}}


def ends(offsets: dict[str, Any]) -> dict[str, int]:
    return {queue: fields["0"] for queue, fields in offsets.items()}


def offsets_of(reader: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [
        offset
        for partition in reader.partitions(start, end)
        for rows in pickle.loads(pickle.dumps(reader)).read(partition)
        for offset in rows.column("offset").to_pylist()
    ]


def numbers(queue: str, count: int, start: int = 0) -> list[tuple[str, int]]:
    return [(queue, offset) for offset in range(start, count)]


def test_a_stream_reads_everything_once_and_then_waits(store: Store) -> None:
    stored = store.add("orders", 100)
    reader = store.reader()
    query = Query(lambda: reader)
    assert query.run_batch(reader) == 100
    assert query.run_batch(reader) is None
    stored.append(plain_messages(7))
    assert query.run_batch(reader) == 7
    assert query.rows == numbers("orders", 107)


def test_nothing_beyond_the_durable_end_is_read(store: Store) -> None:
    stored = store.add("orders", 10)
    stored.append(plain_messages(5), sync=False)
    reader = store.reader()
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
    store: Store, options: dict[str, str], first: int
) -> None:
    stored = store.add("orders", 100)
    given = {"path": str(store.path), "subscribe": "orders", **options}
    reader = stream_reader(given, TOPIC_AND_OFFSET)
    store.readers.append(reader)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert offsets_of(reader, {}, end) == list(range(first, 100))
    stored.append(plain_messages(10))
    later = reader.latestOffset(end, ALL)
    assert offsets_of(reader, end, later) == list(range(100, 110))


def test_a_queue_that_does_not_exist_is_refused_by_name(store: Store) -> None:
    store.add("orders", 1)
    with pytest.raises(QueueNotFoundError, match="nearest of 1: orders"):
        store.reader("ordres").latestOffset({}, ALL)


def test_bounds_of_another_queue_are_refused(store: Store) -> None:
    store.add("orders", 1)
    with pytest.raises(BoundError):
        store.reader(startingOffsets='{"other": {"0": 1}}').latestOffset({}, ALL)


@pytest.mark.parametrize("step", STEPS)
def test_a_stream_from_latest_begins_once_wherever_its_first_run_is_killed(
    store: Store, step: str
) -> None:
    stored = store.add("orders", 10)
    query = Query(lambda: store.reader(startingOffsets="latest"))
    with pytest.raises(CrashError):
        query.run_available_now((0, step))
    has_begun = bool(query.offset_log)
    stored.append(plain_messages(5))
    query.run_available_now()
    stored.append(plain_messages(3))
    query.run_available_now()
    assert query.rows == numbers("orders", 18, 10 if has_begun else 15)
    assert has_begun == (step not in ("begun", "ended"))


def test_a_pattern_without_a_queue_has_begun_all_the_same(store: Store) -> None:
    store.add("other", 3)
    query = Query(lambda: store.reader("shop-.*", startingOffsets="latest"))
    assert query.run_available_now() == [0]
    store.add("shop-1", 4)
    assert query.run_available_now() == [4]


def test_a_stream_that_waits_from_its_first_batch_on_has_begun(store: Store) -> None:
    stored = store.add("orders", 10)
    options = {"startingOffsets": "latest", "minOffsetsPerTrigger": "50"}
    end = store.reader(**options).latestOffset({}, ReadMinRows(50))
    stored.append(plain_messages(10))
    later = store.reader(**options).latestOffset(end, ALL)
    assert offsets_of(store.reader(), end, later) == list(range(10, 20))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_query_that_is_killed_at_any_step_has_each_row_once(
    store: Store, batch: int, step: str
) -> None:
    stored = store.add("orders", 60)
    query = Query(lambda: store.reader(maxOffsetsPerTrigger="25"))
    with pytest.raises(CrashError):
        query.run_available_now((batch, step))
    # What is planned again comes from a log that has grown, and was sealed, meanwhile.
    stored.append(plain_messages(100), step=7)
    query.run_available_now()
    assert query.rows == numbers("orders", 160)


def test_available_now_takes_batches_of_the_limit_and_nothing_that_comes_later(
    store: Store,
) -> None:
    stored = store.add("orders", 60)
    reader = store.reader(maxOffsetsPerTrigger="25")
    reader.prepareForTriggerAvailableNow()
    stored.append(plain_messages(1000))
    query = Query(lambda: reader)
    assert [query.run_batch(reader) for _ in range(4)] == [25, 25, 10, None]


def test_available_now_has_no_queue_that_comes_later(store: Store) -> None:
    store.add("a1", 5)
    reader = store.reader("a.")
    reader.prepareForTriggerAvailableNow()
    store.add("a2", 5)
    assert ends(reader.latestOffset({}, ALL)) == {"a1": 5, "a2": 0}
    assert ends(reader.latestOffset(NO_QUEUE, ALL)) == {"a1": 5}


def test_available_now_ends_before_a_queue_that_was_declared_again_meanwhile(
    store: Store,
) -> None:
    store.add("orders", 5)
    reader = store.reader()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    store.delete("orders")
    store.add("orders", 2)
    reader._run.planner._queues.look_now()
    assert reader.latestOffset(end, ALL) == end


def test_a_limit_is_shared_in_proportion_and_no_queue_starves(store: Store) -> None:
    store.add("a", 300)
    store.add("b", 100)
    store.add("c", 1)
    reader = store.reader("a,b,c", maxOffsetsPerTrigger="41")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(41)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert ends(end) == {"a": 30, "b": 10, "c": 1}
    assert ends(reader.latestOffset(start, ReadMaxRows(3))) == {"a": 1, "b": 1, "c": 1}
    assert ends(reader.latestOffset(start, ALL)) == {"a": 300, "b": 100, "c": 1}


def test_bytes_of_a_batch_are_limited_and_every_batch_moves_on(store: Store) -> None:
    stored = store.add("orders")
    stored.append(plain_messages(100, body_bytes=100), step=1)
    reader = store.reader(maxBytesPerTrigger="8000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(8000)
    query = Query(lambda: reader)
    sizes = query.run_available_now()
    assert sum(sizes) == 100
    # 262 bytes of chunk and record each.
    assert all(20 <= size <= 8000 // 200 for size in sizes[:-1])
    tiny = Query(lambda: store.reader(maxBytesPerTrigger="1"))
    assert sum(tiny.run_available_now()) == 100
    both = Query(lambda: store.reader(maxBytesPerTrigger="8000", maxOffsetsPerTrigger="10"))
    assert set(both.run_available_now()) == {10}


def test_bytes_of_a_batch_are_limited_over_all_queues(store: Store) -> None:
    for name in ("a", "b"):
        store.add(name).append(plain_messages(60, body_bytes=100), step=1)
    reader = store.reader("a,b", maxBytesPerTrigger="8000")
    end = ends(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()))
    assert end["a"] == end["b"]
    assert 10 <= end["a"] <= 20


def test_a_gap_longer_than_any_limit_of_bytes_is_passed(store: Store) -> None:
    stored = store.add("orders", 10)
    stored.skip(100_000)
    stored.append(plain_messages(10))
    query = Query(lambda: store.reader(maxBytesPerTrigger="500"))
    assert sum(query.run_available_now()) == 20


def test_a_stream_that_waits_for_enough_stays_where_it_is(store: Store) -> None:
    stored = store.add("orders", 30)
    reader = store.reader(minOffsetsPerTrigger="50")
    assert reader.getDefaultReadLimit() == ReadMinRows(50)
    start = reader.latestOffset({}, ReadMinRows(50))
    assert ends(start) == {"orders": 0}
    assert reader.latestOffset(start, ReadMinRows(50)) == start
    assert ends(reader.reportLatestOffset() or {}) == {"orders": 30}
    stored.append(plain_messages(20))
    assert ends(reader.latestOffset(start, ReadMinRows(50))) == {"orders": 50}


def test_available_now_does_not_wait_for_enough(store: Store) -> None:
    store.add("orders", 30)
    assert Query(lambda: store.reader(minOffsetsPerTrigger="50")).run_available_now() == [30]


def test_queues_that_a_pattern_matches_later_are_read_from_their_beginning(store: Store) -> None:
    reader = store.reader("shop-.*", startingOffsets="latest")
    store.add("other", 3)
    query = Query(lambda: reader)
    assert query.run_batch(reader) == 0
    store.add("shop-1", 4)
    store.add("shop-2", 0)
    reader = store.reader("shop-.*", startingOffsets="latest")
    assert query.run_batch(reader) == 4
    store.queues["shop-2"].append(plain_messages(2))
    assert query.run_batch(reader) == 2
    assert query.rows == [*numbers("shop-1", 4), *numbers("shop-2", 2)]


def test_definitions_are_not_read_more_than_once_a_second(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [100.0]
    monkeypatch.setattr("appendlog.spark.source.stream_planner.time.monotonic", lambda: 0)
    reader = store.reader(".*")
    reader._run.planner._queues._clock = lambda: seconds[0]
    store.add("a", 1)
    start = reader.initialOffset()
    assert ends(reader.latestOffset(start, ALL)) == {"a": 1}
    store.add("b", 2)
    assert ends(reader.latestOffset(start, ALL)) == {"a": 1}
    seconds[0] += 1
    assert ends(reader.latestOffset(start, ALL)) == {"a": 1, "b": 2}


def replaced(store: Store, fail: str) -> tuple[LogStreamReader, dict[str, Any], Any]:
    store.add("orders", 50)
    reader = store.reader(failOnDataLoss=fail)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    old = store.queues["orders"].location.incarnation
    store.delete("orders")
    new = store.add("orders", 20).location.incarnation
    return reader, end, (old, new)


def test_a_queue_that_was_declared_again_ends_the_stream_and_both_logs_are_named(
    store: Store,
) -> None:
    reader, end, (old, new) = replaced(store, fail="true")
    for each in (reader, store.reader()):
        with pytest.raises(StreamDataLossError) as caught:
            each.latestOffset(end, ALL)
        assert str(old) in str(caught.value)
        assert str(new) in str(caught.value)
        assert "failOnDataLoss=false" in str(caught.value)
    with pytest.raises(StreamDataLossError):
        reader.partitions(store.reader().initialOffset(), end)


def test_a_queue_that_was_declared_again_is_read_from_its_beginning_if_that_is_wanted(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    reader, end, (old, new) = replaced(store, fail="false")
    later = reader.latestOffset(end, ALL)
    assert later == reader.latestOffset(end, ALL)
    assert later["orders"]["incarnation"] == str(new)
    assert offsets_of(reader, end, later) == list(range(20))
    assert offsets_of(reader, {}, end) == []
    (record,) = caplog.records
    assert str(old) in record.getMessage()
    assert str(new) in record.getMessage()


def test_a_queue_that_is_gone_ends_the_stream_unless_it_is_not_wanted_any_more(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.add("a", 5)
    store.add("b", 5)
    reader = store.reader("a,b")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert ends(store.reader("a").latestOffset(end, ALL)) == {"a": 5}
    store.delete("b")
    again = store.reader("a,b")
    with pytest.raises(StreamDataLossError, match="queue 'b': deleted"):
        again.latestOffset(end, ALL)
    assert not caplog.records
    lax = store.reader("a,b", failOnDataLoss="false")
    assert ends(lax.latestOffset(end, ALL)) == {"a": 5}
    assert "queue 'b': deleted" in caplog.text


def removed(store: Store, **options: Any) -> tuple[LogStreamReader, dict[str, Any], int]:  # noqa: ANN401
    stored = store.add("orders", 300)
    reader = store.reader(maxOffsetsPerTrigger="10")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    reader.stop()
    stored.log.remove_settled(200)
    start = stored.log.log_start_offset
    assert 10 < start < 250
    return store.reader(**options), end, start


def test_what_retention_took_ends_the_stream_and_is_named(store: Store) -> None:
    reader, end, start = removed(store)
    with pytest.raises(StreamDataLossError, match=rf"offsets \[10, {start}\) are not in the log"):
        reader.latestOffset(end, ALL)
    with pytest.raises(StreamDataLossError, match=r"offsets \[0, 10\)"):
        reader.partitions({}, end)


def test_what_retention_took_is_told_once_and_passed_over_if_that_is_wanted(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    reader, end, start = removed(store, failOnDataLoss="false")
    later = reader.latestOffset(end, ALL)
    assert reader.latestOffset(end, ALL) == later
    assert offsets_of(reader, end, later) == list(range(start, 300))
    (record,) = caplog.records
    assert f"offsets [10, {start})" in record.getMessage()
    assert reader.latestOffset(later, ALL) == later


def test_a_log_that_ends_before_what_was_read_is_waited_for_or_ends_the_stream(
    store: Store,
) -> None:
    store.add("orders", 10)
    reader = store.reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    end["orders"]["0"] = 50
    with pytest.raises(StreamDataLossError, match="start the server once to recover"):
        reader.latestOffset(end, ALL)
    assert store.reader(failOnDataLoss="false").latestOffset(end, ALL) == end


def test_a_checkpoint_of_another_source_is_refused(store: Store) -> None:
    store.add("orders", 10)
    with pytest.raises(CheckpointError):
        store.reader().latestOffset({"topic": {"0": 1}}, ALL)
    with pytest.raises(CheckpointError, match="virtual host '/'"):
        store.reader(vhost="other").commit(store.reader().latestOffset({}, ALL))


def test_the_same_batch_has_the_same_splits_and_after_the_log_grew_the_same_rows(
    store: Store,
) -> None:
    stored = store.add("orders", 100)
    reader = store.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first = [partition.value for partition in reader.partitions(start, end)]
    assert len(first) > 2
    assert [partition.value for partition in store.reader().partitions(start, end)] == first
    stored.append(plain_messages(500), step=3)
    assert offsets_of(store.reader(), start, end) == list(range(100))


def test_partitions_of_an_empty_range_are_none(store: Store) -> None:
    store.add("orders", 10)
    reader = store.reader()
    start = reader.initialOffset()
    assert reader.partitions(start, start) == []


def low_offsets(reader: LogStreamReader) -> list[int]:
    return list(reader._run.leases.low_offsets().values())


def test_a_lease_holds_the_log_from_what_is_committed_until_the_stream_stops(
    store: Store,
) -> None:
    stored = store.add("orders", 300)
    reader = store.reader(maxOffsetsPerTrigger="100")
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    second = reader.latestOffset(first, ReadMaxRows(100))
    assert low_offsets(reader) == [0]
    reader.commit(first)
    assert low_offsets(reader) == [100]
    assert len(store.leases()) == 1
    reader.latestOffset(second, ReadMaxRows(100))
    assert low_offsets(reader) == [100]
    store.delete("orders")
    lax = store.reader(failOnDataLoss="false")
    assert lax.latestOffset(second, ALL) == NO_QUEUE
    reader.stop()
    assert store.leases() == []
    assert stored.location.queue == "orders"


def test_a_batch_that_is_planned_again_is_held_from_its_beginning(store: Store) -> None:
    store.add("orders", 100)
    before = store.reader(maxOffsetsPerTrigger="50")
    first = before.latestOffset(before.initialOffset(), ReadMaxRows(50))
    second = before.latestOffset(first, ReadMaxRows(50))
    reader = store.reader()
    reader.partitions(first, second)
    reader.latestOffset(second, ALL)
    assert low_offsets(reader) == [50]


def test_a_stream_goes_on_without_a_lease_and_says_so_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.add("orders", 10)
    (store.path / "leases").write_text("in the way")
    reader = store.reader()
    query = Query(lambda: reader)
    assert query.run_batch(reader) == 10
    assert query.run_batch(reader) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "no lease on the log of queue 'orders'" in record.getMessage()


def test_leases_are_renewed_while_spark_asks_for_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appendlog.spark.source.stream_leases._RENEWAL_SECONDS", 0.001)
    monkeypatch.setattr("appendlog.reclaim.leases.LEASE_SECONDS", 0.01)
    store.add("orders", 10)
    reader = store.reader()
    reader.latestOffset(reader.initialOffset(), ALL)
    leases = reader._run.leases
    ((_, held),) = leases._held.items()
    first = held.lease.expires_ns
    wait_for(lambda: held.lease.expires_ns > first)
    reader.stop()


def test_the_server_hears_with_the_next_renewal_what_is_not_needed_any_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appendlog.spark.source.stream_leases._RENEWAL_SECONDS", 0.001)
    incarnation = store.add("orders", 300).location.incarnation
    reader = store.reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    server = Leases(store.path, FileSystem())
    assert server.low_offsets(time.time_ns()) == {incarnation: 0}
    reader.commit(end)
    wait_for(lambda: server.low_offsets(time.time_ns()) == {incarnation: 300})
    reader.stop()
    assert server.low_offsets(time.time_ns()) == {}


def wait_for(is_reached: Callable[[], bool]) -> None:
    for _ in range(5000):
        if is_reached():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never came")
