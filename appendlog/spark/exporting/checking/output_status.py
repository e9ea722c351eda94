"""Reads the state of a queue in an output from its last manifest and one listing."""

from collections.abc import Sequence
from dataclasses import dataclass

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.checking.table_totals import total_of
from appendlog.spark.exporting.committing.manifest import Total
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.tables.table_contents import QueueState, TableContents
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import offsets_in, subtract_ranges


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets of the log that the output lacks.

    Attributes:
        log_start: Lowest offset of the log.
        durable_end: End of the offsets that are on the disk, exclusive.
        offsets: Number of offsets that an export would add now.
        lost: Number of offsets that retention removed before they were exported.
    """

    log_start: int
    durable_end: int
    offsets: int
    lost: int


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """State of one queue in an output.

    Attributes:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        incarnation: Identity of the queue, as text; empty if the output no longer has it.
        total: Sum of all exports.
        manifests: Number of manifests; for a table, of commits in its history.
        unfinished_files: Number of files of runs that are not committed: running or killed.
        unfinished_bytes: Size of these files in bytes.
    """

    vhost: str
    queue: str
    incarnation: str
    total: Total
    manifests: int
    unfinished_files: int
    unfinished_bytes: int


def output_status(manifests: Manifests) -> OutputStatus:
    """Return the state of a queue; completes commits that were interrupted.

    Raises:
        OutputError: The last manifest is missing or cannot be read.
        OSError: The store fails.
    """
    survey = manifests.survey()
    last = manifests.read(survey.manifests - 1)
    unfinished = set(manifests.complete(survey))
    sizes = [
        file.size_bytes
        for job in survey.jobs
        for file in job.files
        if job.number >= survey.manifests or file.path in unfinished
    ]
    return OutputStatus(
        last.vhost,
        last.queue,
        str(last.incarnation),
        last.total,
        survey.manifests,
        len(sizes),
        sum(sizes),
    )


def table_status(table: TableContents, states: Sequence[QueueState]) -> list[OutputStatus]:
    """Return the states of queues in a table.

    Older versions of the table may need files that the current one lacks, so no file counts as
    unfinished.

    Raises:
        OutputError: The table cannot be read.
    """
    files = table.files()
    return [
        OutputStatus(
            state.vhost,
            state.queue,
            state.incarnation or "",
            total_of(state, files),
            len(state.notes),
            0,
            0,
        )
        for state in states
    ]


def lag_of(status: OutputStatus, log: QueueLog, log_start: int, durable_end: int) -> Lag:
    """Return how far an output is behind the log.

    Args:
        status: State of the queue in the output.
        log: Log of the queue of the same name.
        log_start: Lowest offset of the log.
        durable_end: End of the offsets that are on the disk, exclusive.

    Raises:
        OutputError: The queue was deleted and declared again since.
    """
    if status.incarnation not in ("", str(log.incarnation)):
        raise OutputError(
            f"queue {log.queue!r}: its incarnation is {log.incarnation}, that of the output "
            f"{status.incarnation}: it was deleted and declared again"
        )
    covered = status.total.covered
    first = min(log_start, *(start for start, _ in covered[:1]), log_start)
    missing = subtract_ranges([(first, durable_end)], covered)
    offsets = offsets_in(missing)
    lost = offsets_in((start, min(end, log_start)) for start, end in missing if start < log_start)
    return Lag(log_start, durable_end, offsets - lost, lost)
