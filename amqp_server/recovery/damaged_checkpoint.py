"""Start-up: logs what an unreadable checkpoint means for the messages."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.definitions import QUEUES

if TYPE_CHECKING:
    from metadata.loading import LoadReport
    from offsets import CheckpointRecovery

logger = logging.getLogger("amqp_server.lost_checkpoint")


def log_lost_checkpoint(recovery: CheckpointRecovery, report: LoadReport) -> None:
    """Log one line if settled messages return because checkpoint files are damaged or missing.

    A server writes a checkpoint before it listens for the first time. So a directory with a queue
    but without a checkpoint has lost it.

    Args:
        recovery: Result of reading the checkpoint files.
        report: The metadata documents.
    """
    damaged = [path.name for path in recovery.damaged_files]
    if recovery.rounds and damaged:
        logger.error(
            "checkpoint damaged files=%s rounds_read=%d: messages that were settled in unreadable "
            "rounds return, and every message is marked redelivered",
            damaged,
            recovery.rounds,
        )
    elif not recovery.rounds and any(each.kind == QUEUES for each in report.documents):
        logger.error(
            "no checkpoint can be read damaged_files=%s: every message in the logs returns, "
            "settled or not, and is marked redelivered",
            damaged,
        )
