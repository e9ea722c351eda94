"""Start-up: refuses a start without a part of the directory, unless its loss is accepted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.base.errors import StartupError
from amqp_server.recovery.logs_set_aside import set_logs_aside
from amqp_server.recovery.missing_parts import Part, missing_parts, refusal
from offsets import known_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from uuid import UUID

    from amqp_server.recovery.group_recovery import RecoveredGroups
    from amqp_server.recovery.missing_parts import MissingPart
    from amqp_server.recovery.start_report import QueueReport
    from appendlog import FileSystem
    from metadata.loading import LoadReport
    from offsets import QueueCheckpoint

logger = logging.getLogger("amqp_server.accepted_loss")


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """Missing parts of a data directory whose loss the operator has accepted.

    Attributes:
        parts: The missing parts.
        logs: A report for each log that was moved to quarantine because no definition names it.
    """

    parts: list[MissingPart] = field(default_factory=list)
    logs: list[QueueReport] = field(default_factory=list)

    @property
    def has_definitions(self) -> bool:
        """Whether the definitions are lost, so that every log was moved to quarantine."""
        return any(each.part is Part.DEFINITIONS for each in self.parts)


def accept_loss(
    storage_path: Path,
    filesystem: FileSystem,
    accepted: Collection[Part],
    report: LoadReport,
    checkpoints: Mapping[UUID, QueueCheckpoint],
    groups: RecoveredGroups,
    *,
    has_checkpoints: bool,
) -> AcceptedLoss:
    """Find missing parts and continue without those whose loss is accepted. Blocks.

    Recovery then makes the loss final: logs continue above the lost offsets, `/` gets a definition
    again, and a round of checkpoints is written.

    Args:
        storage_path: The data directory; this start has not changed it yet.
        filesystem: File operations for what is moved.
        accepted: Parts whose loss is accepted.
        report: Result of loading the definitions.
        checkpoints: The last known settlement of each queue, by incarnation.
        groups: The last known state of each consumer group.
        has_checkpoints: Whether there is a checkpoint file, readable or not.

    Raises:
        StartupError: A missing part is not accepted as lost, or the disk refused a move.
    """
    ends = known_ends([*checkpoints.values(), *groups])
    missing = missing_parts(storage_path, report, ends, has_checkpoints=has_checkpoints)
    refused = [each for each in missing if each.part not in accepted]
    if refused:
        raise StartupError(refusal(storage_path, refused))
    for each in missing:
        logger.error("loss accepted part=%s: %s", each.part, each.text)
    accepted_loss = AcceptedLoss(missing)
    if accepted_loss.has_definitions:
        try:
            accepted_loss.logs.extend(set_logs_aside(storage_path, filesystem, checkpoints))
        except OSError as error:
            raise StartupError(
                f"cannot move the logs of {storage_path} to quarantine: {error}"
            ) from error
    return accepted_loss
