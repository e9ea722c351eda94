"""Counters of a writer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """Work of a writer since it was opened.

    Attributes:
        appended: Number of appended records.
        appended_bytes: Size of their messages.
        flushed_batches: Number of writes of records to the kernel.
        syncs: Number of syncs to the disk.
        batch_bytes: Size of the messages that are only in memory now.
    """

    appended: int
    appended_bytes: int
    flushed_batches: int
    syncs: int
    batch_bytes: int
