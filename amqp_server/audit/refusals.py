"""Sums up refused logins, so that guessing passwords does not fill the audit log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.audit.actor import Actor

WINDOW_SECONDS_MIN: Final = 1.0
"""Seconds after the first refusal of an address until the others are reported as a sum."""
WINDOW_SECONDS_MAX: Final = 600.0
"""The same once it has gone on for long: each window is twice as long as the one before."""
ADDRESSES_MAX: Final = 16
"""Addresses that are told apart at the same time; all others share one sum."""
USERS_MAX: Final = 8
"""User names that one sum lists."""
OTHER_ADDRESSES: Final = "other addresses"


class Timer(Protocol):
    """A call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it."""


@dataclass(slots=True)
class _Window:
    """Refusals of one address since the last report."""

    seconds: float
    timer: Timer
    count: int = 0
    reason: str = ""
    users: dict[str, None] = field(default_factory=dict)


class Refusals:
    """Reports the first refusal of an address at once, and later ones as sums.

    The event loop owns it.

    Args:
        report: Called with the address and the details of a sum.
        call_later: Calls a function after some seconds.
    """

    def __init__(
        self,
        report: Callable[[str, dict[str, object]], None],
        call_later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._report = report
        self._call_later = call_later
        self._windows: dict[str, _Window] = {}

    def is_first(self, actor: Actor, reason: str) -> bool:
        """Note a refusal; return whether it should be reported by itself."""
        address = actor.peer.rpartition(":")[0] or actor.peer
        if address not in self._windows and len(self._windows) >= ADDRESSES_MAX:
            address = OTHER_ADDRESSES
        window = self._windows.get(address)
        if window is None:
            self._windows[address] = _Window(
                WINDOW_SECONDS_MIN, self._end_later(address, WINDOW_SECONDS_MIN)
            )
            return address != OTHER_ADDRESSES or self._count(address, actor, reason)
        return self._count(address, actor, reason)

    def finish(self) -> None:
        """Report what is not reported yet, and stop all timers."""
        for address, window in self._windows.items():
            window.timer.cancel()
            self._sum_up(address, window)
        self._windows.clear()

    def _count(self, address: str, actor: Actor, reason: str) -> bool:
        window = self._windows[address]
        window.count += 1
        window.reason = reason
        if len(window.users) < USERS_MAX:
            window.users[actor.user] = None
        return False

    def _end_later(self, address: str, seconds: float) -> Timer:
        return self._call_later(seconds, lambda: self._end(address))

    def _end(self, address: str) -> None:
        window = self._windows.pop(address)
        if window.count:
            self._sum_up(address, window)
            seconds = min(2 * window.seconds, WINDOW_SECONDS_MAX)
            self._windows[address] = _Window(seconds, self._end_later(address, seconds))

    def _sum_up(self, address: str, window: _Window) -> None:
        if window.count:
            details = {
                "count": window.count,
                "seconds": window.seconds,
                "reason": window.reason,
                "users": list(window.users),
            }
            self._report(address, details)
