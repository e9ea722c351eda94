"""Batch reader that takes the filters of its query; needs Spark 4.1 and a setting of it."""

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from appendlog.spark.source.batch_reader import LogBatchReader
from appendlog.spark.source.filters import bounds_of_filters


class PushingBatchReader(LogBatchReader):
    """Reads logs for one query, narrowed by filters on offset, time and queue."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the read by filters; return all of them, so that Spark checks them on the rows."""
        self.narrow(bounds_of_filters(filters))
        return filters
