"""What a stream does about queues and messages that are not there any more."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from appendlog.spark.errors import CheckpointError, StreamDataLossError
from appendlog.spark.source.stream_reader import LogStreamReader
from tests.spark.stream_directory import ALL, QueueDirectory, ends, offsets_of


def replaced(directory: QueueDirectory, fail: str) -> tuple[LogStreamReader, dict[str, Any], Any]:
    directory.add("orders", 50)
    reader = directory.reader(failOnDataLoss=fail)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    old = directory.queues["orders"].location.incarnation
    directory.delete("orders")
    new = directory.add("orders", 20).location.incarnation
    return reader, end, (old, new)


def test_a_queue_that_was_declared_again_ends_the_stream_and_both_logs_are_named(
    directory: QueueDirectory,
) -> None:
    reader, end, (old, new) = replaced(directory, fail="true")
    for each in (reader, directory.reader()):
        with pytest.raises(StreamDataLossError) as caught:
            each.latestOffset(end, ALL)
        assert str(old) in str(caught.value)
        assert str(new) in str(caught.value)
        assert "failOnDataLoss=false" in str(caught.value)
    with pytest.raises(StreamDataLossError):
        reader.partitions(directory.reader().initialOffset(), end)


def test_a_queue_that_was_declared_again_is_read_from_its_beginning_if_that_is_wanted(
    directory: QueueDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    reader, end, (old, new) = replaced(directory, fail="false")
    later = reader.latestOffset(end, ALL)
    assert later == reader.latestOffset(end, ALL)
    assert later["orders"]["incarnation"] == str(new)
    assert offsets_of(reader, end, later) == list(range(20))
    assert offsets_of(reader, {}, end) == []
    (record,) = caplog.records
    assert str(old) in record.getMessage()
    assert str(new) in record.getMessage()


def test_a_queue_that_is_gone_ends_the_stream_unless_it_is_not_wanted_any_more(
    directory: QueueDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.add("a", 5)
    directory.add("b", 5)
    reader = directory.reader("a,b")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert ends(directory.reader("a").latestOffset(end, ALL)) == {"a": 5}
    directory.delete("b")
    again = directory.reader("a,b")
    with pytest.raises(StreamDataLossError, match="queue 'b': deleted"):
        again.latestOffset(end, ALL)
    assert not caplog.records
    lax = directory.reader("a,b", failOnDataLoss="false")
    assert ends(lax.latestOffset(end, ALL)) == {"a": 5}
    assert "queue 'b': deleted" in caplog.text


def removed(
    directory: QueueDirectory, **options: str
) -> tuple[LogStreamReader, dict[str, Any], int]:
    stored = directory.add("orders", 300)
    reader = directory.reader(maxOffsetsPerTrigger="10")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    reader.stop()
    stored.log.remove_settled(200)
    start = stored.log.log_start_offset
    assert 10 < start < 250
    return directory.reader(**options), end, start


def test_what_retention_took_ends_the_stream_and_is_named(directory: QueueDirectory) -> None:
    reader, end, start = removed(directory)
    with pytest.raises(StreamDataLossError, match=rf"offsets \[10, {start}\) are not in the log"):
        reader.latestOffset(end, ALL)
    with pytest.raises(StreamDataLossError, match=r"offsets \[0, 10\)"):
        reader.partitions({}, end)


def test_what_retention_took_is_told_once_and_passed_over_if_that_is_wanted(
    directory: QueueDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    reader, end, start = removed(directory, failOnDataLoss="false")
    later = reader.latestOffset(end, ALL)
    assert reader.latestOffset(end, ALL) == later
    assert offsets_of(reader, end, later) == list(range(start, 300))
    (record,) = caplog.records
    assert f"offsets [10, {start})" in record.getMessage()
    assert reader.latestOffset(later, ALL) == later


def test_a_log_that_ends_before_what_was_read_is_waited_for_or_ends_the_stream(
    directory: QueueDirectory,
) -> None:
    directory.add("orders", 10)
    reader = directory.reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    end["orders"]["0"] = 50
    with pytest.raises(StreamDataLossError, match="start the server once to recover"):
        reader.latestOffset(end, ALL)
    assert directory.reader(failOnDataLoss="false").latestOffset(end, ALL) == end


def test_a_checkpoint_of_another_source_is_refused(directory: QueueDirectory) -> None:
    directory.add("orders", 10)
    with pytest.raises(CheckpointError):
        directory.reader().latestOffset({"topic": {"0": 1}}, ALL)
    with pytest.raises(CheckpointError, match="virtual host '/'"):
        directory.reader(vhost="other").commit(directory.reader().latestOffset({}, ALL))
