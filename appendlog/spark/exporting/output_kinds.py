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
from appendlog.spark.exporting.partition_fields import Partitioning
from appendlog.spark.exporting.stores.object_store import delta_options
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from appendlog.spark.planning.queues import QueueLog

DestinationOf = Callable[[QueueLog], Destination]
"""Returns the destination of a queue in an output; reads and makes nothing."""


@dataclass(frozen=True, slots=True)
class OutputKind:
    """Parts of a kind of output.

    Attributes:
        file_format: Format of the files with rows.
        keeps_fields: Whether the files have the fields of partitions as columns, too.
        destinations: Returns what opens the destinations of an export's queues, which commit the
            files; reads and makes nothing.
    """

    file_format: FileFormat
    destinations: Callable[[OutputStore, Partitioning], DestinationOf]
    keeps_fields: bool = False


def _files(file_format: FileFormat) -> OutputKind:
    def destinations(store: OutputStore, partitioning: Partitioning) -> DestinationOf:
        layout = OutputLayout(store, file_format.extension, partitioning)
        return lambda log: FilesDestination(store, log, layout)

    return OutputKind(file_format, destinations)


def _delta(store: OutputStore, partitioning: Partitioning) -> DestinationOf:
    options = delta_options(store)
    return lambda log: DeltaDestination(store, log, partitioning, options)


def _iceberg(store: OutputStore, partitioning: Partitioning) -> DestinationOf:
    return lambda log: IcebergDestination(store, log, partitioning)


OUTPUT_KINDS: Final[Mapping[str, OutputKind]] = MappingProxyType(
    {
        "parquet": _files(ParquetFormat()),
        "jsonl": _files(JsonLinesFormat()),
        "jsonl.gz": _files(JsonLinesFormat("gz")),
        "jsonl.zst": _files(JsonLinesFormat("zst")),
        "delta": OutputKind(ParquetFormat(), _delta),
        # Its library finds the partition of a file in the file.
        "iceberg": OutputKind(ParquetFormat(), _iceberg, keeps_fields=True),
    }
)
