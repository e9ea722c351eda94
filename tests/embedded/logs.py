"""Small embedded logs for tests."""

import uuid
from dataclasses import replace
from pathlib import Path

from appendlog import (
    EmbeddedOptions,
    FileSystem,
    Log,
    LogFollower,
    LogIdentity,
    LogWriter,
    StoredRecord,
)
from appendlog.files.descriptors import Descriptors
from tests.appendlog.builders import OPENED

IDENTITY = LogIdentity("/", "events", uuid.UUID("0b5b8a5e-6b1f-4b60-8f8e-0d1f5f1c2a3b"))
BY_HAND = EmbeddedOptions(sync_interval_seconds=0.0)
"""Nothing is synced unless it is asked for."""


def open_writer(
    directory: Path, options: EmbeddedOptions = BY_HAND, filesystem: FileSystem | None = None
) -> LogWriter:
    """Open a log whose descriptors are its own: it may be abandoned, as a crash does."""
    descriptors = Descriptors(4)
    OPENED.append(descriptors)
    log, report = Log.open(
        directory, IDENTITY, replace(options.log_options(), descriptors=descriptors), filesystem
    )
    return LogWriter(log, report, options)


def read_on(follower: LogFollower, offset: int = 0, max_records: int = 100) -> list[StoredRecord]:
    """Return all records from an offset on."""
    records: list[StoredRecord] = []
    while offset < follower.log_end_offset:
        found = follower.read_batch(offset, max_records, 1 << 20)
        assert found.next_offset > offset
        records += map(StoredRecord, found.offsets, found.timestamps_ns, found.messages)
        offset = found.next_offset
    return records


def payloads(directory: Path) -> dict[int, bytes]:
    """Return what a reader sees now, by offset."""
    with LogFollower(directory) as follower:
        return {each.offset: each.payload for each in read_on(follower)}
