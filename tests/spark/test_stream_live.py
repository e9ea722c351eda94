"""A stream beside a real server: publishing goes on, it is killed, queues come and go."""

import threading
from pathlib import Path

import pytest
from pamqp.commands import Queue
from pyspark.sql.streaming.datasource import ReadAllAvailable

from appendlog.spark.errors import StreamDataLossError
from appendlog.spark.source import stream_queues
from appendlog.spark.source.stream_reader import LogStreamReader
from tests.amqp_client import connect
from tests.servers import RunningServer
from tests.spark.stream_engine import Query, reader_of

TURNS_MAX = 5000


def reader_for(path: Path, pattern: str) -> LogStreamReader:
    return reader_of(path, subscribePattern=pattern, maxOffsetsPerTrigger="100")


def read_until(query: Query, reader: LogStreamReader, count: int) -> None:
    """Run batches until there are so many rows."""
    for _ in range(TURNS_MAX):
        if query.run_batch(reader) is None:
            if len(query.rows) >= count:
                return
            threading.Event().wait(0.002)
    raise AssertionError(f"{len(query.rows)} rows, expected {count}")


def publish(server: RunningServer, queue: str, count: int) -> None:
    with connect(server.address) as client:
        client.open_channel(2, confirms=True)
        client.declare(queue, channel=2)
        for at in range(count):
            client.publish(b"%d" % at, queue, channel=2)
            if at % 50 == 49:
                client.expect_confirmed(2)
        client.expect_confirmed(2)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """See new queues at once."""
    monkeypatch.setattr(stream_queues, "DISCOVERY_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
def test_what_is_published_while_a_stream_reads_comes_once_even_if_the_server_is_killed(
    server: RunningServer,
) -> None:
    publish(server, "live-1", 100)
    reader = reader_for(server.storage_path, "live-.*")
    query = Query(lambda: reader)
    writers = [
        threading.Thread(target=publish, args=(server, queue, 1500))
        for queue in ("live-1", "live-2")
    ]
    for writer in writers:
        writer.start()
    read_until(query, reader, 3100)
    for writer in writers:
        writer.join()
    server.kill()
    read_until(query, reader, 3100)
    server.start()
    publish(server, "live-1", 10)
    read_until(query, reader, 3110)
    reader.stop()
    rows = sorted(query.rows)
    assert rows == [
        *(("live-1", offset) for offset in range(1610)),
        *(("live-2", offset) for offset in range(1500)),
    ]
    assert len(query.sink) > 20


@pytest.mark.usefixtures("at_once")
def test_a_queue_that_is_deleted_and_declared_again_ends_the_stream(server: RunningServer) -> None:
    publish(server, "orders", 20)
    reader = reader_for(server.storage_path, "orders")
    query = Query(lambda: reader)
    read_until(query, reader, 20)
    with connect(server.address) as client:
        client.open_channel(2)
        client.call(Queue.Delete(queue="orders"), Queue.DeleteOk, 2)
    publish(server, "orders", 30)
    with pytest.raises(StreamDataLossError, match="deleted and declared again"):
        query.run_batch(reader)
    reader.stop()


def test_a_queue_without_a_message_is_an_empty_log(server: RunningServer) -> None:
    publish(server, "orders", 0)
    reader = reader_for(server.storage_path, "orders")
    start = reader.latestOffset({}, ReadAllAvailable())
    assert start["orders"]["0"] == 0
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.partitions(start, start) == []
    reader.stop()
