"""A reader that is told the filters of its query. From Spark 4.1 on, where it is switched on."""

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from appendlog.spark.source.batch_reader import LogBatchReader
from appendlog.spark.source.filters import bounds_of_filters


class PushingBatchReader(LogBatchReader):
    """Reads logs once, and of them only what filters on offset, time and queue leave."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take filters in; give all of them back, so that Spark checks them on the rows."""
        self.narrow(bounds_of_filters(filters))
        return filters
