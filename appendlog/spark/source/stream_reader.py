"""Streaming reader for Spark.

The driver has one reader for each query: it decides where batches end and what their tasks read.
Tasks get pickled copies, which only read. Spark keeps the offsets; the progress of a stream is
stored nowhere else.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from appendlog.spark.source.admission import Limits
from appendlog.spark.source.log_partition import LogPartition
from appendlog.spark.source.loss import LossPolicy
from appendlog.spark.source.partition_reader import PartitionReader
from appendlog.spark.source.row_layout import RowLayout
from appendlog.spark.source.stream_leases import StreamLeases
from appendlog.spark.source.stream_offsets import NOT_BEGUN, StreamOffsets, ranges_between
from appendlog.spark.source.stream_options import StreamOptions
from appendlog.spark.source.stream_pieces import plan_ranges
from appendlog.spark.source.stream_planner import StreamPlanner

Offsets = dict[str, Any]
"""Offsets as Spark passes them: JSON."""


class _Run:
    """State of the reader on the driver while its query runs."""

    def __init__(self, options: StreamOptions) -> None:
        shared = options.shared
        self.loss = LossPolicy(shared.is_loss_fatal)
        self.leases = StreamLeases(shared.storage_path, shared.vhost)
        self.planner = StreamPlanner(options, self.loss)
        self.newest: StreamOffsets | None = None


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads logs as a stream.

    Args:
        options: Options of the query.
        layout: Columns that batches must have.
    """

    def __init__(self, options: StreamOptions, layout: RowLayout) -> None:
        self._options = options
        self._read = PartitionReader.of(options.shared, layout)
        self._running: _Run | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The copy of a task has no threads, no locks and no leases.
        return {**self.__dict__, "_running": None}

    @property
    def _run(self) -> _Run:
        if self._running is None:
            self._running = _Run(self._options)
        return self._running

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the first of the limits that the user set: Spark takes only one.

        Spark passes it to `latestOffset`, where it stands for all limits.
        """
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.offsets_min is not None:
            return ReadMinRows(limits.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the query at the present ends of the logs."""
        self._run.planner.fix_target()

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Return `NOT_BEGUN`: the end of the first batch has where the query begins."""
        return dict(NOT_BEGUN)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        """Return the end of the batch that begins at `start`; `start` if there is no batch."""
        run = self._run
        begin = run.planner.initial() if start == NOT_BEGUN else self._offsets(start)
        end, waiting = run.planner.latest(begin, self._limits_of(limit))
        run.newest = StreamOffsets(
            begin.vhost,
            {each.log.queue: replace(each.place, offset=each.end_offset) for each in waiting},
        )
        run.leases.keep({each.place.incarnation for each in waiting})
        run.leases.take(
            (each.log.queue, each.place.incarnation, each.place.offset) for each in waiting
        )
        return end.to_json()

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802 - Spark's name
        """Return the ends of the logs at the last plan of a batch, for the query's progress."""
        newest = self._run.newest
        return None if newest is None else newest.to_json()

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Return what the tasks of a batch read; the same batch always has the same rows."""
        run = self._run
        ranges = list(ranges_between(self._offsets(start), self._offsets(end)))
        run.leases.take((each.queue, each.incarnation, each.start_offset) for each in ranges)
        planned = plan_ranges(self._options.shared, ranges, run.loss)
        return [LogPartition(partition) for partition in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition; Spark calls it in a task, on a copy of this object."""
        return self._read(partition)

    def commit(self, end: Offsets) -> None:
        """Release the offsets below `end` to retention: Spark will not ask for them again.

        It has no other effect. Spark commits a batch when it plans the next one, so it never
        commits the last batch of a query.
        """
        for place in self._offsets(end).places.values():
            self._run.leases.move(place.incarnation, place.offset)

    def stop(self) -> None:
        """End the leases."""
        if self._running is not None:
            self._running.leases.end()

    def _offsets(self, found: Offsets) -> StreamOffsets:
        return StreamOffsets.from_json(found, self._options.shared.vhost)

    def _limits_of(self, limit: ReadLimit) -> Limits | None:
        if isinstance(limit, ReadAllAvailable):
            return None
        if isinstance(limit, ReadMaxRows):
            return replace(self._options.limits, offsets_max=limit.max_rows)
        return self._options.limits
