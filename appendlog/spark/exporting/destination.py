"""What an export writes to: one queue's part of an output, whatever kind of output that is.

An export asks what is `covered`, plans what is missing, and runs its tasks between `begin` and
`commit`. The commit is one step that happens or does not; the output says for itself what it
has, so there is no other state anywhere that could disagree with it.
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
    """Another export has committed since this one was planned: plan again, or give up."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One run of an export over one queue.

    Attributes:
        start: First offset that was asked for.
        end: End of what was asked for, exclusive.
        ranges: What is to be written of it: all that is not in `covered`.
        covered: What the output had when this was planned; see `Destination.covered`.
        include: Which messages are rows: `all`, `acked` or `unacked`.
        job_id: Of this run and no other, 32 hexadecimal digits.
    """

    start: int
    end: int
    ranges: tuple[Range, ...]
    covered: tuple[Range, ...]
    include: str = "all"
    job_id: str = field(default_factory=lambda: uuid4().hex)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a task reports of one file that it has written.

    Every offset of the range is a row or is counted in one of the other three:
    `rows + missing + corrupt + excluded == end_offset - start_offset`.

    Attributes:
        path: Where it is now, in the store: below the folder that `begin` gave.
        target: Where it belongs, below the folder of the queue: `part-...`, or
            `date=2026-11-21/part-...`.
        start_offset: Of the range that it covers, inclusive.
        end_offset: Exclusive. The files of a job do not overlap.
        rows: Messages in it, at least one.
        size_bytes: Of the file.
        sha256: Of its bytes, 64 hexadecimal digits.
        min_timestamp_ns: Lowest `timestamp` of a row, nanoseconds since 1970 in UTC.
        max_timestamp_ns: Highest.
        missing: Offsets of the range that the log does not have.
        corrupt: Offsets of the range that are in damaged parts of the log.
        excluded: Offsets of the range that were not asked for (`--include`).
        metadata: More that is to be kept of it.
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
        position: Where the damage begins in it, in bytes.
        end_position: Where reading goes on.
        reason: What is wrong, one line.
        path: In the store, of a file with the damaged bytes; None when they are not kept.
    """

    start: int
    end: int
    segment: str
    position: int
    end_position: int
    reason: str
    path: str | None = None


class Destination(Protocol):
    """One queue's part of an output. Lives in the driver; tasks get `store` and the folder.

    Raised by every method: OutputError when the output is not this queue's (another queue,
    another incarnation of it) or cannot be used; OSError when the store fails.
    """

    @property
    def store(self) -> OutputStore:
        """Where tasks write; can be pickled."""
        ...

    def covered(self) -> list[Range]:
        """Return the offsets that are in the output for good, as ranges in order, joined.

        Offsets that the log did not have, when it was their turn, are covered too.
        """
        ...

    def last_end(self) -> int | None:
        """Return where `--since last` begins; None when nothing was exported yet.

        The end of the export that reached furthest; a hole below it is not filled.
        """
        ...

    def begin(self, job: ExportJob) -> AbstractContextManager[str]:
        """Give a folder of the store for unfinished files; it is cleaned up afterwards.

        What exports have left that were killed goes too, where that is certain.

        Raises:
            OutputChangedError: `job.covered` is not what the output has now.
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
        """Add the files of a job to the output, all or none; called once, inside `begin`.

        When it returns, `job.ranges` are covered, durably. When the process dies in it,
        whether they are is for `covered` to say: nothing in between is ever seen.

        Args:
            job: What `begin` was called with.
            files: What was written, in any order.
            gaps: Offsets of `job.ranges` that the log does not have. Those outside of the
                files completely; those inside of a file may be left out (`missing` counts
                them).
            corrupt: Damaged parts, likewise. What is left outside of the files was not asked
                for, if `job.include` is not `all`; else it is a fault of the caller's.

        Raises:
            OutputChangedError: Another export was first; nothing of this one is in the output.
        """
        ...
