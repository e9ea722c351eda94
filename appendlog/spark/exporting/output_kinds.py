"""Kinds of output that an export can make, by their names for users."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.output_layout import OutputLayout
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

DestinationOf = Callable[[QueueLog], Destination]
"""Returns the destination of a queue in an output; reads and makes nothing."""


@dataclass(frozen=True, slots=True)
class OutputKind:
    """Parts of a kind of output.

    Attributes:
        file_format: Format of the files with rows.
        destinations: Returns what opens the destinations of an export's queues, which commit the
            files; reads and makes nothing.
    """

    file_format: FileFormat
    destinations: Callable[[OutputStore, PartitionBy | None], DestinationOf]


def _files(file_format: FileFormat) -> OutputKind:
    def destinations(store: OutputStore, partition_by: PartitionBy | None) -> DestinationOf:
        columns = partition_by.columns if partition_by else ()
        layout = OutputLayout(store, file_format.extension, columns)
        return lambda log: FilesDestination(store, log, layout)

    return OutputKind(file_format, destinations)


def _delta(store: OutputStore, partition_by: PartitionBy | None) -> DestinationOf:
    columns = partition_by.columns if partition_by else ()
    options = delta_options(store)
    return lambda log: DeltaDestination(store, log, columns, options)


def _iceberg(store: OutputStore, partition_by: PartitionBy | None) -> DestinationOf:
    return lambda log: IcebergDestination(store, log, partition_by)


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
