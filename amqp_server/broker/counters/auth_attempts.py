"""How many logins were tried, by protocol."""

from __future__ import annotations

from typing import Final

AMQP: Final = "amqp091"
HTTP: Final = "http"


class AuthAttempts:
    """Counters of logins since the process began."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def count(self, protocol: str, *, accepted: bool) -> None:
        """Count a login that was accepted or refused; `protocol` is one of the constants."""
        self._counts.setdefault(protocol, [0, 0])[accepted] += 1

    def of(self, protocol: str) -> dict[str, int]:
        """Return the counters of a protocol, by the names of RabbitMQ."""
        failed, succeeded = self._counts.get(protocol, (0, 0))
        return {
            "auth_attempts": failed + succeeded,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": succeeded,
        }
