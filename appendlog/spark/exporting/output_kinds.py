"""Kinds of output that an export can make, by their names for users."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.json_lines_format import JsonLinesFormat
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.stores.object_store import delta_options
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.planning.queues import QueueLog

OpenDestination = Callable[[OutputStore, QueueLog, PartitionBy | None], Destination]
"""Returns the destination of a queue in an output; reads and makes nothing."""


@dataclass(frozen=True, slots=True)
class OutputKind:
    """Parts of a kind of output.

    Attributes:
        file_format: Format of the files with rows.
        destination: Opens the destination, which commits the files.
    """

    file_format: FileFormat
    destination: OpenDestination


def _files(file_format: FileFormat) -> OutputKind:
    extension = file_format.extension
    return OutputKind(
        file_format,
        lambda store, log, by: FilesDestination(store, log, extension, by.columns if by else ()),
    )


def _delta(store: OutputStore, log: QueueLog, partition_by: PartitionBy | None) -> Destination:
    columns = partition_by.columns if partition_by else ()
    return DeltaDestination(store, log, columns, delta_options(store))


def _iceberg(store: OutputStore, log: QueueLog, partition_by: PartitionBy | None) -> Destination:
    return IcebergDestination(store, log, partition_by)


OUTPUT_KINDS: Final[Mapping[str, OutputKind]] = MappingProxyType(
    {
        "parquet": _files(ParquetFormat()),
        "jsonl": _files(JsonLinesFormat()),
        "jsonl.gz": _files(JsonLinesFormat("gz")),
        "jsonl.zst": _files(JsonLinesFormat("zst")),
        "delta": OutputKind(ParquetFormat(), _delta),
        "iceberg": OutputKind(ParquetFormat(), _iceberg),
    }
)
