"""Spark's micro-batch engine, as far as a source can tell, without a JVM.

The order of calls is that of Spark's `MicroBatchExecution`: the end of a batch is in the offset
log before the batch is planned, the batch is in the commit log after the sink has it, the source
hears of a commit when the next batch is in the offset log. A run can be stopped between any two
of these steps; the next run is another process, which has the two logs and nothing else.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.types import LongType, StringType, StructField, StructType

from appendlog.spark.source.data_source import stream_reader
from appendlog.spark.source.stream_reader import LogStreamReader

Offsets = dict[str, Any]
Row = tuple[str, int]
"""Queue and offset."""

STEPS = ("begun", "ended", "logged", "told", "planned", "read", "sunk", "committed")


class CrashError(Exception):
    """The process of the query is gone."""


TOPIC_AND_OFFSET = StructType(
    [StructField("topic", StringType()), StructField("offset", LongType())]
)


def reader_of(path: Path, **options: str) -> LogStreamReader:
    """Return what Spark gets for some options; everything is read by default."""
    given = {"path": str(path), "startingOffsets": "earliest", **options}
    return stream_reader(given, TOPIC_AND_OFFSET)


@dataclass
class Query:
    """A checkpoint and a sink: what outlives a run.

    Attributes:
        make_reader: As Spark makes one for each run.
        offset_log: Text of the end of each batch.
        commit_log: Which batches are done.
        sink: Rows of each batch; a batch that comes again must be the same.
    """

    make_reader: Callable[[], LogStreamReader]
    offset_log: list[str] = field(default_factory=list)
    commit_log: list[int] = field(default_factory=list)
    sink: dict[int, list[Row]] = field(default_factory=dict)

    def run_available_now(self, crash_at: tuple[int, str] | None = None) -> list[int]:
        """Run until there is nothing more, and return how many rows each batch had.

        Args:
            crash_at: Which step of which batch of this run is the last one.

        Raises:
            CrashError: It came to that step.
        """
        reader = self.make_reader()
        try:
            reader.prepareForTriggerAvailableNow()
            return list(self._batches(reader, crash_at))
        finally:
            reader.stop()

    def run_batch(self, reader: LogStreamReader) -> int | None:
        """Run one batch of a query that goes on; None if there is nothing to read now."""
        return next(self._batches(reader, None), None)

    @property
    def rows(self) -> list[Row]:
        """Return what the sink has, in the order of batches."""
        return [row for batch in sorted(self.sink) for row in self.sink[batch]]

    def _batches(self, reader: LogStreamReader, crash_at: tuple[int, str] | None) -> Iterator[int]:
        done = 0

        def step(name: str) -> None:
            if crash_at == (done, name):
                raise CrashError(name)

        while True:
            batch = len(self.offset_log) - 1
            if batch < 0 or batch in self.commit_log:
                batch += 1
                step("begun")
                start = self._start(reader, batch)
                end = self._send(reader.latestOffset(start, reader.getDefaultReadLimit()))
                if end == json.dumps(start):
                    return
                step("ended")
                self.offset_log.append(end)
                step("logged")
                if batch:
                    reader.commit(json.loads(self.offset_log[batch - 1]))
                step("told")
            rows = self._run(reader, batch, step)
            yield len(rows)
            done += 1

    def _run(self, reader: LogStreamReader, batch: int, step: Callable[[str], None]) -> list[Row]:
        start = self._start(reader, batch)
        planned = reader.partitions(start, json.loads(self.offset_log[batch]))
        planned = pickle.loads(pickle.dumps(planned))
        step("planned")
        task = pickle.loads(pickle.dumps(reader))
        rows = [
            (row["topic"], row["offset"])
            for partition in planned
            for rows in task.read(partition)
            for row in rows.to_pylist()
        ]
        step("read")
        assert self.sink.setdefault(batch, rows) == rows, "a batch came again with other rows"
        step("sunk")
        self.commit_log.append(batch)
        step("committed")
        return rows

    def _start(self, reader: LogStreamReader, batch: int) -> Offsets:
        if batch:
            return self._json(self.offset_log[batch - 1])
        first, second = (self._send(reader.initialOffset()) for _ in range(2))
        assert first == second == "{}"
        return self._json(first)

    @staticmethod
    def _send(offsets: Offsets) -> str:
        return json.dumps(offsets)

    @staticmethod
    def _json(text: str) -> Offsets:
        found: Offsets = json.loads(text)
        return found
