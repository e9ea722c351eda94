"""Start-up: a part of the data directory that is missing is refused, or given up for good."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.errors import StartupError
from amqp_server.logs_set_aside import set_logs_aside
from amqp_server.missing_parts import Part, missing_parts, refusal
from offsets import known_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from uuid import UUID

    from amqp_server.group_recovery import RecoveredGroups
    from amqp_server.missing_parts import MissingPart
    from amqp_server.start_report import QueueReport
    from appendlog import FileSystem
    from metadata.loading import LoadReport
    from offsets import QueueCheckpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """What was missing, and is given up.

    Attributes:
        parts: The parts of the directory.
        logs: What was in each log that was set aside, because nothing says whose it is.
    """

    parts: list[MissingPart] = field(default_factory=list)
    logs: list[QueueReport] = field(default_factory=list)

    @property
    def has_definitions(self) -> bool:
        """Whether the definitions are among it: no log is in its place then."""
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
    """Look for parts that are missing, and go on without those that are accepted. Blocks.

    What recovery itself writes makes it final: the logs go on behind what is lost, `/` has its
    definition again, and a round of checkpoints is there.

    Args:
        storage_path: The data directory; nothing in it was changed by this start.
        filesystem: For what is moved.
        accepted: Parts that may be given up.
        report: What was found of the definitions.
        checkpoints: The last settlement known of each queue.
        groups: The same of consumer groups.
        has_checkpoints: Whether there is a checkpoint file, readable or not.

    Raises:
        StartupError: A part is missing that is not accepted, or the disk refused.
    """
    ends = known_ends([*checkpoints.values(), *groups])
    missing = missing_parts(storage_path, report, ends, has_checkpoints=has_checkpoints)
    refused = [each for each in missing if each.part not in accepted]
    if refused:
        raise StartupError(refusal(storage_path, refused))
    for each in missing:
        logger.error("given up part=%s: %s", each.part, each.text)
    accepted_loss = AcceptedLoss(missing)
    if accepted_loss.has_definitions:
        try:
            accepted_loss.logs.extend(set_logs_aside(storage_path, filesystem, checkpoints))
        except OSError as error:
            raise StartupError(
                f"cannot move the logs of {storage_path} to quarantine: {error}"
            ) from error
    return accepted_loss
