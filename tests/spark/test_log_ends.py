from pathlib import Path

import pytest

from appendlog.reader import LogReader
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.source import log_ends
from appendlog.spark.source.log_ends import LogEnds, LogSpan
from tests.spark.builders import plain_messages, store_queue


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_log_is_opened_again_only_when_its_end_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = store_queue(tmp_path)
    queue.append(plain_messages(10))
    opened: list[QueueLog] = []

    def count(log: QueueLog) -> LogReader:
        opened.append(log)
        return open_reader(log)

    monkeypatch.setattr(log_ends, "open_reader", count)
    ends = LogEnds(Clock())
    assert [ends.span_of(queue.location) for _ in range(3)] == [LogSpan(0, 10)] * 3
    assert len(opened) == 1
    queue.append(plain_messages(5))
    assert ends.span_of(queue.location) == LogSpan(0, 15)
    assert len(opened) == 2
    queue.close()


def test_many_logs_are_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ends, "_FEW_LOGS", 1)
    monkeypatch.setattr(log_ends, "_LOOKS_PER_SECOND", 10)
    queues = [store_queue(tmp_path, name) for name in "abc"]
    clock = Clock()
    ends = LogEnds(clock)
    for queue in queues:
        queue.append(plain_messages(1))
        ends.span_of(queue.location)
        queue.append(plain_messages(1))
    assert [ends.span_of(queue.location).end_offset for queue in queues] == [1, 1, 1]
    clock.seconds += 0.21
    assert [ends.span_of(queue.location).end_offset for queue in queues] == [2, 2, 2]
    ends.keep_only([queues[0].location])
    queues[0].append(plain_messages(1))
    assert ends.span_of(queues[0].location).end_offset == 3
    for queue in queues:
        queue.close()
