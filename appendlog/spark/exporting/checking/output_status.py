"""What an output has of a queue, from its last manifest and one listing."""

from dataclasses import dataclass

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import Manifest
from appendlog.spark.exporting.committing.manifests import Manifests
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
        last: The last manifest; its `total` is the sum of all.
        unfinished_files: Files of runs that are not committed: running, or killed.
        unfinished_bytes: Their size.
    """

    last: Manifest
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
    return OutputStatus(last, len(sizes), sum(sizes))


def lag_of(last: Manifest, log: QueueLog, log_start: int, durable_end: int) -> Lag:
    """Return how far an output is behind the log.

    Args:
        last: Its last manifest.
        log: Of the queue of the same name.
        log_start: Lowest offset of the log.
        durable_end: End of what is on the disk.

    Raises:
        OutputError: The queue was deleted and declared again since.
    """
    if last.incarnation != log.incarnation:
        raise OutputError(
            f"queue {log.queue!r}: its incarnation is {log.incarnation}, that of the output "
            f"{last.incarnation}: it was deleted and declared again"
        )
    first = min(log_start, *(start for start, _ in last.total.covered[:1]), log_start)
    missing = subtract_ranges([(first, durable_end)], last.total.covered)
    offsets = offsets_in(missing)
    lost = offsets_in((start, min(end, log_start)) for start, end in missing if start < log_start)
    return Lag(log_start, durable_end, offsets - lost, lost)
