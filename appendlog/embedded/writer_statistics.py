"""What a writer tells of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """What a writer has done since it was opened.

    Attributes:
        appended: Taken by an append.
        appended_bytes: Of their messages.
        flushed_batches: Writes to the kernel that had records.
        syncs: Of the disk.
        batch_bytes: Messages that are in memory only, now.
    """

    appended: int
    appended_bytes: int
    flushed_batches: int
    syncs: int
    batch_bytes: int
