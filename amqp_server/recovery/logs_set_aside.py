"""Moves logs without definitions to quarantine when the operator accepts that loss."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from amqp_server.recovery.quarantine import Quarantine
from amqp_server.recovery.start_report import QueueReport
from appendlog import Log, LogError, LogReader, RecoveryReport
from appendlog.files.descriptors import Descriptors
from appendlog.files.dry_run import DryRunFileSystem
from appendlog.options import LogOptions
from metadata.log_directories import find_logs
from metadata.names import LOGS_NAME
from offsets import Settlement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from appendlog import FileSystem, LogIdentity
    from offsets import QueueCheckpoint


def set_logs_aside(
    storage_path: Path, filesystem: FileSystem, checkpoints: Mapping[UUID, QueueCheckpoint]
) -> list[QueueReport]:
    """Move all logs to quarantine and report what was in each. Blocks.

    Args:
        storage_path: The data directory; it has no definitions.
        filesystem: File operations for the moves.
        checkpoints: Settlement of each log, by incarnation: settled messages do not count as lost.

    Returns:
        A report for each log, with its directory in quarantine.

    Raises:
        OSError: A log cannot be moved. It stays in its place; those before it are moved.
    """
    quarantine = Quarantine(storage_path, filesystem)
    by_name = {str(incarnation): state for incarnation, state in checkpoints.items()}
    reports: list[QueueReport] = []
    for log in find_logs(storage_path / LOGS_NAME, filesystem).check():
        if log.is_deleted:
            # The start removes it anyway.
            continue
        found = _look_into(log.path, by_name.get(log.path.name))
        target = quarantine.take(log.path)
        if found.recovery is not None:
            found.recovery.directory = target
        reports.append(found)
    return reports


def _look_into(directory: Path, checkpoint: QueueCheckpoint | None) -> QueueReport:
    vhost, name = directory.parent.parent.name, directory.parent.name
    try:
        with LogReader(directory) as reader:
            identity = reader.identity
        if identity is None:
            return QueueReport(vhost, name, recovery=RecoveryReport(directory))
        vhost, name = identity.vhost, identity.queue
        return QueueReport(vhost, name, recovery=_recovered(directory, identity, checkpoint))
    except (LogError, OSError) as error:
        return QueueReport(vhost, name, error=f"moved to quarantine, could not be read: {error}")


def _recovered(
    directory: Path, identity: LogIdentity, checkpoint: QueueCheckpoint | None
) -> RecoveryReport:
    """Return what a start would find in a log, with all its unsettled messages as lost."""
    with DryRunFileSystem() as unchanged:
        options = LogOptions(descriptors=Descriptors(capacity=4))
        log, report = Log.open(directory, identity, options, unchanged)
        start, end = log.log_start_offset, log.log_end_offset
        log.close()
    settlement = Settlement()
    if checkpoint is not None:
        settlement = Settlement(checkpoint.ack_floor, checkpoint.acked_ranges)
    report.lost = settlement.unsettled_ranges(start, end)
    report.noted = []
    return report
