"""Start-up: say loudly what a checkpoint that cannot be read means for the messages."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.definitions import QUEUES

if TYPE_CHECKING:
    from metadata.loading import LoadReport
    from offsets import CheckpointRecovery

logger = logging.getLogger(__name__)


def log_lost_checkpoint(recovery: CheckpointRecovery, report: LoadReport) -> None:
    """Log one line if settled messages come back because of what happened to the files.

    A server that has had a queue has written a checkpoint: before it listens for the first time.

    Args:
        recovery: What reading the checkpoint files found.
        report: The metadata documents.
    """
    damaged = [path.name for path in recovery.damaged_files]
    if recovery.rounds and damaged:
        logger.error(
            "checkpoint damaged files=%s rounds_read=%d: what was settled in rounds that cannot be "
            "read comes back, and every message is marked redelivered",
            damaged,
            recovery.rounds,
        )
    elif not recovery.rounds and any(each.kind == QUEUES for each in report.documents):
        logger.error(
            "no checkpoint can be read damaged_files=%s: every message in the logs comes back, "
            "settled or not, marked redelivered",
            damaged,
        )
