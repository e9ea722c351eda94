"""Interface of an output, of any kind, for the export of one queue.

An export asks which offsets are `covered`, plans the others, and runs its tasks between `begin` and
`commit`. The commit is one atomic step. The output itself holds all state of its exports, so no
other state can contradict it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.ranges import Range


class OutputChangedError(OutputError):
    """Another export has committed since this one was planned: plan again, or stop."""


class OtherQueueError(OutputError):
    """The output has rows of another queue, such as one of the same name that was deleted."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One run of an export over one queue.

    Attributes:
        start: First offset that the user asked for.
        end: End of the offsets that the user asked for, exclusive.
        ranges: Offsets of these to write: all that are not in `covered`.
        covered: Offsets that the output had at the planning; see `Destination.covered`.
        include: Messages that become rows: `all`, `acked` or `unacked`.
        job_id: Unique id of the run, 32 hexadecimal digits.
    """

    start: int
    end: int
    ranges: tuple[Range, ...]
    covered: tuple[Range, ...]
    include: str = "all"
    job_id: str = field(default_factory=lambda: uuid4().hex)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Report of a task about one file that it has written.

    Files of one range in different folders are siblings. Every offset of a range is a row, or is
    counted in one of the other three, once in all of its files together: the sum of
    `rows + missing + corrupt + excluded` is `end_offset - start_offset`.

    Attributes:
        path: Present path in the store, below the folder that `begin` returned.
        target: Final path below the folder of the queue: `part-...`,
            `date=2026-11-21/part-...`, or `date=2026-11-21/region=eu/part-...`.
        start_offset: First offset that the file covers.
        end_offset: End of the covered offsets, exclusive. Ranges of a job do not overlap.
        rows: Messages in the file, at least one.
        size_bytes: Size of the file in bytes.
        sha256: Digest of the file, 64 hexadecimal digits.
        min_timestamp_ns: Lowest `timestamp` of a row, nanoseconds since 1970 in UTC.
        max_timestamp_ns: Highest `timestamp` of a row, likewise.
        missing: Offsets of the range that the log does not have.
        corrupt: Offsets of the range that are in damaged parts of the log.
        excluded: Offsets of the range that were not asked for (`--include`).
        metadata: Further attributes to keep in the manifest.
    """

    path: str
    target: str
    start_offset: int
    end_offset: int
    rows: int
    size_bytes: int
    sha256: str
    min_timestamp_ns: int
    max_timestamp_ns: int
    missing: int = 0
    corrupt: int = 0
    excluded: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CorruptRange:
    """A damaged part of the log that was left out.

    Attributes:
        start: First offset that is lost with it.
        end: End of these offsets, exclusive.
        segment: Name of the segment's file.
        position: Position in the file at which the damage begins, in bytes.
        end_position: Position at which reading continues.
        reason: Cause, one line.
        path: Path in the store of a file with the damaged bytes; None if they are not kept.
    """

    start: int
    end: int
    segment: str
    position: int
    end_position: int
    reason: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """The last rows of an output, as far as it knows them.

    Attributes:
        end: End of the offsets of a file, exclusive.
        newest_ns: Highest append time of its rows, nanoseconds since 1970 UTC.
    """

    end: int
    newest_ns: int


class Destination(Protocol):
    """One queue's part of an output. The driver has it; tasks get `store` and the folder.

    Every method raises OutputError if the output is of another queue, or of another incarnation
    of it, or cannot be used, and OSError if the store fails.
    """

    @property
    def store(self) -> OutputStore:
        """Store that tasks write to; picklable."""
        ...

    def covered(self) -> list[Range]:
        """Return the offsets that the output has durably, as ordered ranges that do not touch.

        Offsets that the log did not have when they were exported are covered too.
        """
        ...

    def last_end(self) -> int | None:
        """Return the offset at which `--since last` begins; None if nothing was exported yet.

        That is the highest end of all exports; holes below it are not filled.
        """
        ...

    def exported(self) -> Exported | None:
        """Return what the output knows of its last rows; None if it knows nothing.

        What the log has there is the same, unless it was restored from an older copy.
        """
        ...

    def begin(self, job: ExportJob) -> AbstractContextManager[str]:
        """Yield a folder of the store for unfinished files; it is cleaned up at the end.

        Also removes files of killed exports, if it is certain that no export needs them.

        Raises:
            OutputChangedError: The output has other offsets than `job.covered` now.
            OutputError: Another export of the queue is running here, or the output holds
                another choice of messages than `job.include`.
        """
        ...

    def commit(
        self,
        job: ExportJob,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
    ) -> None:
        """Add the files of a job to the output, all or none; call it once, inside `begin`.

        When it returns, `job.ranges` are covered, durably. If the process dies in it, they are
        covered or not; `covered` says which, and no reader sees a state in between.

        Args:
            job: Job that was passed to `begin`.
            files: Files that tasks have written, in any order.
            gaps: Offsets of `job.ranges` that the log does not have: all that are outside of the
                files; those inside of a file may be left out (its `missing` counts them).
            corrupt: Damaged parts of the log, likewise. Other offsets outside of the files are
                those that `job.include` excludes; with `all` they are a bug of the caller.

        Raises:
            OutputChangedError: Another export was first; the output has nothing of this one.
        """
        ...
