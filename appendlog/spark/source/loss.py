"""Decides what a stream does if messages are gone that it should read: stop, or warn."""

import logging
from uuid import UUID

from appendlog.spark.errors import StreamDataLossError

logger = logging.getLogger("appendlog.spark.source.loss")


class LossPolicy:
    """Handles losses as the option `failOnDataLoss` says. One for each stream.

    Args:
        is_fatal: Whether a loss ends the stream; otherwise each is logged once, as a warning.
    """

    def __init__(self, is_fatal: bool) -> None:
        self._is_fatal = is_fatal
        self._logged: set[str] = set()

    def removed(self, queue: str, start: int, end: int) -> None:
        """Report that retention has removed the offsets `[start, end)` before they were read.

        Raises:
            StreamDataLossError: Losses are fatal.
        """
        reason = f"offsets [{start}, {end}) are not in the log any more: retention removed them"
        self._report(queue, reason, f"continues at offset {end}")

    def replaced(self, queue: str, read: UUID, found: UUID) -> None:
        """Report that a queue was deleted and declared again.

        Raises:
            StreamDataLossError: Losses are fatal.
        """
        reason = (
            f"deleted and declared again: the stream has read incarnation {read}, found {found}, "
            "whose offsets are others"
        )
        self._report(queue, reason, "continues at the beginning of the new log")

    def deleted(self, queue: str, read: UUID) -> None:
        """Report that a queue was deleted.

        Raises:
            StreamDataLossError: Losses are fatal.
        """
        reason = f"deleted: the stream has read incarnation {read}, found no queue of that name"
        self._report(queue, reason, "continues without it")

    def shortened(self, queue: str, offset: int, end: int) -> None:
        """Report that a log ends below an offset that was read.

        Raises:
            StreamDataLossError: Losses are fatal.
        """
        reason = (
            f"the stream has read up to offset {offset}, after the durable end {end} of the "
            "log: start the server once to recover it after a power cut, or it was restored "
            "from an older copy"
        )
        self._report(queue, reason, f"waits until the log has offset {offset}")

    def _report(self, queue: str, reason: str, otherwise: str) -> None:
        if self._is_fatal:
            raise StreamDataLossError(queue, reason, otherwise)
        message = f"queue {queue!r}: {reason}; the stream {otherwise}"
        if message not in self._logged:
            self._logged.add(message)
            logger.warning("%s", message)
