"""Errors of methods that could not be carried out: for the log and for the client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.storing.failed_stores import is_temporary
from amqp_server.protocol.errors import PreconditionFailed
from appendlog import LogError
from metadata.errors import DocumentWriteError, StorageUnavailableError
from offsets import CheckpointFailedError, RedoFailedError

if TYPE_CHECKING:
    from amqp_server.protocol.methods import Method

logger = logging.getLogger("amqp_server.failed_methods")

_OF_THE_DISK = (
    CheckpointFailedError,
    DocumentWriteError,
    LogError,
    RedoFailedError,
    StorageUnavailableError,
)


def as_refusal(error: BaseException | None) -> BaseException | None:
    """Return a channel error if the cause is temporary; return any other error unchanged.

    If no more files can be open, or the disk has no room or no inodes, a definition is not written.
    The client may declare it again later, so the connection need not be closed.
    """
    if isinstance(error, DocumentWriteError) and is_temporary(error.cause):
        reason = f"the definition was not written: {error.cause.strerror}; try again later"
        return PreconditionFailed(reason)
    return error


def log_failed_method(peer: str, method: Method, error: BaseException) -> None:
    """Log why a method failed: one line for a disk error, a traceback for a programming error.

    Args:
        peer: Name of the client's connection.
        method: The method that failed.
        error: Its error.
    """
    if isinstance(error, _OF_THE_DISK):
        logger.error("method failed peer=%s method=%s error=%s", peer, method.name, error)
    else:
        logger.error("method failed peer=%s method=%s", peer, method.name, exc_info=error)
