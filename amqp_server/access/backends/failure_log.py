"""Logs failures of a back end: the first at once, later ones as a count."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("amqp_server.access.backends.failure_log")

SECONDS_BETWEEN_LINES: Final = 5.0
"""Least time between two lines of one back end."""
REASON_CHARACTERS_MAX: Final = 300
"""Characters of a reason that are logged: it may quote what a server has answered."""


class FailureLog:
    """The failures of one back end.

    Args:
        backend: Its name, for the log.
        now: Returns seconds that never decrease.

    Attributes:
        count: Failures since the start.
        last_reason: Why the last one failed; empty before.
    """

    def __init__(self, backend: str, now: Callable[[], float]) -> None:
        self.count = 0
        self.last_reason = ""
        self._backend = backend
        self._now = now
        self._unlogged = 0
        self._next_line = -SECONDS_BETWEEN_LINES

    def note(self, what: str, reason: str) -> None:
        """Log that something was denied because the back end has failed.

        Args:
            what: Question that was asked, without secrets.
            reason: Why there is no answer.
        """
        self.count += 1
        self.last_reason = reason[:REASON_CHARACTERS_MAX]
        now = self._now()
        if now < self._next_line:
            self._unlogged += 1
            return
        self._next_line = now + SECONDS_BETWEEN_LINES
        logger.warning(
            "authentication back end failed backend=%s denied=%r reason=%r unlogged=%d",
            self._backend,
            what[:REASON_CHARACTERS_MAX],
            self.last_reason,
            self._unlogged,
        )
        self._unlogged = 0
