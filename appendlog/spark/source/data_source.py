"""Makes readers from Spark's options and schemas."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.types import StructType

from appendlog.spark.errors import SparkFailedError
from appendlog.spark.source.batch_plan import batch_options
from appendlog.spark.source.batch_reader import LogBatchReader
from appendlog.spark.source.read_options import parse_read_options
from appendlog.spark.source.stream_options import stream_options

if TYPE_CHECKING:
    from appendlog.spark.source.stream_reader import LogStreamReader

STREAM_VERSION_MIN: Final = "4.2"

_PUSHING_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def row_ddl(options: Mapping[str, str]) -> str:
    """Return the columns of rows as Spark's DDL, for a user who gave no schema.

    Raises:
        AmqplogError: Options are malformed, or name columns that do not exist.
    """
    return parse_read_options(options, None).ddl


def batch_reader(options: Mapping[str, str], schema: StructType) -> LogBatchReader:
    """Return the reader of a batch query.

    Spark refuses a reader that takes filters while `spark.sql.python.filterPushdown.enabled` is
    off, and readers cannot see this setting. But Spark plans with filters in a process of its own,
    in which nothing else runs. If that changes, filters narrow nothing, and rows are still right.

    Filters are used only if the user asks for it. Spark keeps the plan that the filters of one
    query have narrowed, and uses it for other queries of the same DataFrame (seen in 4.3).

    Args:
        options: Options as Spark passes them.
        schema: Columns that Spark expects: those of `row_ddl`, or the user's schema.

    Raises:
        AmqplogError: Options are malformed, or the schema has columns that do not exist.
    """
    parsed = batch_options(options)
    layout = parsed.shared.layout(schema)
    if parsed.takes_filters and _is_planned_with_filters():
        from appendlog.spark.source.pushing_reader import PushingBatchReader

        return PushingBatchReader(parsed, layout)
    return LogBatchReader(parsed, layout)


def stream_reader(options: Mapping[str, str], schema: StructType) -> "LogStreamReader":
    """Return the reader of a streaming query.

    Args:
        options: Options as Spark passes them.
        schema: Columns that Spark expects: those of `row_ddl`, or the user's schema.

    Raises:
        AmqplogError: Options are malformed, the schema has columns that do not exist, or this
            Spark has no limits for streams in Python.
    """
    try:
        from appendlog.spark.source.stream_reader import LogStreamReader
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise SparkFailedError(
            f"streams need PySpark {STREAM_VERSION_MIN} or newer, this is {pyspark.__version__}"
        ) from error
    parsed = stream_options(options)
    return LogStreamReader(parsed, parsed.shared.layout(schema))


def _is_planned_with_filters() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING_PLANNER in sys.modules or getattr(main, "name", None) == _PUSHING_PLANNER
