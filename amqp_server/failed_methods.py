"""What the log says of a method that could not be carried out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from appendlog import LogError
from metadata.errors import DocumentWriteError, StorageUnavailableError
from offsets import CheckpointFailedError, RedoFailedError

if TYPE_CHECKING:
    from amqp_server.protocol.methods import Method

logger = logging.getLogger(__name__)

_OF_THE_DISK = (
    CheckpointFailedError,
    DocumentWriteError,
    LogError,
    RedoFailedError,
    StorageUnavailableError,
)


def log_failed_method(peer: str, method: Method, error: BaseException) -> None:
    """Log why a method failed: one line for what the disk did, a traceback for a mistake of ours.

    Args:
        peer: The client.
        method: What it asked for.
        error: What came of it.
    """
    if isinstance(error, _OF_THE_DISK):
        logger.error("method failed peer=%s method=%s error=%s", peer, method.name, error)
    else:
        logger.error("method failed peer=%s method=%s", peer, method.name, exc_info=error)
