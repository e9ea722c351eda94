"""What an output has of a queue, from its last manifest and one listing."""

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
    """What the log has that the output does not.

    Attributes:
        log_start: Lowest offset of the log.
        durable_end: Everything below it is on the disk.
        offsets: That an export would add now.
        lost: Offsets that are in neither: the log has let them go before they were exported.
    """

    log_start: int
    durable_end: int
    offsets: int
    lost: int


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """What an output has of one queue.

    Attributes:
        vhost: Its virtual host.
        queue: Its name.
        incarnation: Of the queue, as text; empty where the output no longer knows it.
        total: The sum of all exports.
        manifests: How many there are; of a table, commits that its history has.
        unfinished_files: Files of runs that are not committed: running, or killed.
        unfinished_bytes: Their size.
    """

    vhost: str
    queue: str
    incarnation: str
    total: Total
    manifests: int
    unfinished_files: int
    unfinished_bytes: int


def output_status(manifests: Manifests) -> OutputStatus:
    """Return what there is of a queue; complete commits that were cut short.

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
    """Return what a table has of queues.

    Of the files that it does not have only older versions of it know whether they need them, so
    none is told to be unfinished.

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
        status: Of one queue in it.
        log: Of the queue of the same name.
        log_start: Lowest offset of the log.
        durable_end: End of what is on the disk.

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
