"""A stream's leases: what it still needs is not removed, what it has read may go."""

import logging
import threading
from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from appendlog import FileSystem
from appendlog.reclaim.leases import Leases
from appendlog.spark.source.stream_reader import LogStreamReader
from tests.spark.stream_directory import ALL, NO_QUEUE, QueueDirectory
from tests.spark.stream_engine import Query


def low_offsets(reader: LogStreamReader) -> list[int]:
    return list(reader._run.leases.low_offsets().values())


def test_a_lease_holds_the_log_from_what_is_committed_until_the_stream_stops(
    directory: QueueDirectory,
) -> None:
    stored = directory.add("orders", 300)
    reader = directory.reader(maxOffsetsPerTrigger="100")
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    second = reader.latestOffset(first, ReadMaxRows(100))
    assert low_offsets(reader) == [0]
    reader.commit(first)
    assert low_offsets(reader) == [100]
    assert len(directory.leases()) == 1
    reader.latestOffset(second, ReadMaxRows(100))
    assert low_offsets(reader) == [100]
    directory.delete("orders")
    lax = directory.reader(failOnDataLoss="false")
    assert lax.latestOffset(second, ALL) == NO_QUEUE
    reader.stop()
    assert directory.leases() == []
    assert stored.location.queue == "orders"


def test_a_batch_that_is_planned_again_is_held_from_its_beginning(
    directory: QueueDirectory,
) -> None:
    directory.add("orders", 100)
    before = directory.reader(maxOffsetsPerTrigger="50")
    first = before.latestOffset(before.initialOffset(), ReadMaxRows(50))
    second = before.latestOffset(first, ReadMaxRows(50))
    reader = directory.reader()
    reader.partitions(first, second)
    reader.latestOffset(second, ALL)
    assert low_offsets(reader) == [50]


def test_a_stream_goes_on_without_a_lease_and_says_so_once(
    directory: QueueDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.add("orders", 10)
    (directory.path / "leases").write_text("in the way")
    reader = directory.reader()
    query = Query(lambda: reader)
    assert query.run_batch(reader) == 10
    assert query.run_batch(reader) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "no lease on the log of queue 'orders'" in record.getMessage()


def test_leases_are_renewed_while_spark_asks_for_nothing(
    directory: QueueDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appendlog.spark.source.stream_leases._RENEWAL_SECONDS", 0.001)
    monkeypatch.setattr("appendlog.reclaim.leases.LEASE_SECONDS", 0.01)
    directory.add("orders", 10)
    reader = directory.reader()
    reader.latestOffset(reader.initialOffset(), ALL)
    leases = reader._run.leases
    ((_, held),) = leases._held.items()
    first = held.lease.expires_ns
    wait_for(lambda: held.lease.expires_ns > first)
    reader.stop()


def test_the_server_hears_with_the_next_renewal_what_is_not_needed_any_more(
    directory: QueueDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appendlog.spark.source.stream_leases._RENEWAL_SECONDS", 0.001)
    incarnation = directory.add("orders", 300).location.incarnation
    reader = directory.reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    server = Leases(directory.path, FileSystem())
    assert server.low_offsets() == {incarnation: 0}
    reader.commit(end)
    wait_for(lambda: server.low_offsets() == {incarnation: 300})
    reader.stop()
    assert server.low_offsets() == {}


def wait_for(is_reached: Callable[[], bool]) -> None:
    for _ in range(5000):
        if is_reached():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never came")
