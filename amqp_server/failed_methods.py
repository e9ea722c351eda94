"""What the log, or the client, is told of a method that could not be carried out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.protocol.errors import PreconditionFailed
from appendlog import LogError
from appendlog.files.open_files import is_for_want_of_files
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


def as_refusal(error: BaseException | None) -> BaseException | None:
    """Return the channel error that tells of a state which passes; any other error as it is.

    A definition that could not be written because no more files could be open is not there, and
    may be declared again: that is no reason to end the connection.
    """
    if isinstance(error, DocumentWriteError) and is_for_want_of_files(error.cause):
        reason = f"the definition was not written: {error.cause.strerror}; try again later"
        return PreconditionFailed(reason)
    return error


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
