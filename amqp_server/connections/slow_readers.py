"""Cuts off clients that do not read, before their unread octets use up the memory.

Unread octets keep the memory alarm on, and blocking publishers does not free them: only their
clients could, by reading. So while the alarm is on, each check of the memory also looks at the
connections:

* If unread octets exceed their part of the watermark (`Limits.unread_fraction_max`), the broker
  closes slow readers, those with the most unread octets first, until the others are within it.
* A *slow reader* has unread octets, and its system has acknowledged none of them for
  `Limits.slow_reader_checks_max` checks in a row. A client that reads is none; one that reads a few
  kilobytes a second may look like one, because systems acknowledge larger pieces.

The socket is closed at once: a connection.close would wait behind what the client does not read.
The messages that it has not acknowledged return to their queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Reader(Protocol):
    """A connection whose client should read."""

    @property
    def unread_bytes(self) -> int:
        """Bytes that are kept for the client until it reads."""

    @property
    def taken_bytes(self) -> int:
        """Bytes that its system has acknowledged: they grow when the client reads."""

    def cut_off(self, reason: str) -> None:
        """Close the socket at once, and log why."""


class _Look(NamedTuple):
    """State of a reader at the last check.

    Attributes:
        taken_bytes: Its `taken_bytes`.
        idle_checks: Checks in a row before which it had taken nothing new.
    """

    taken_bytes: int
    idle_checks: int


class SlowReaders:
    """Looks for slow readers while memory is low. The event loop owns it.

    Args:
        connections: All connections; may change at any time.
        unread_bytes_max: Unread bytes of all connections that the alarm tolerates.
        idle_checks_max: Checks after which a client that has taken nothing is a slow reader.

    Attributes:
        closed_count: Connections that were closed for this reason.
    """

    def __init__(
        self, connections: Iterable[Reader], unread_bytes_max: int, idle_checks_max: int
    ) -> None:
        self.closed_count = 0
        self._connections = connections
        self._unread_bytes_max = unread_bytes_max
        self._idle_checks_max = idle_checks_max
        self._seen: dict[Reader, _Look] = {}
        self._is_looking = False

    def look(self) -> Iterator[None]:
        """Check all connections once, one in each step. A check beside another does nothing."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            yield from self._check()
        finally:
            self._is_looking = False

    def forget(self) -> None:
        """Forget what was seen: the memory alarm is over."""
        self._seen = {}

    def _check(self) -> Iterator[None]:
        unread_bytes = 0
        seen: dict[Reader, _Look] = {}
        slow: list[tuple[int, Reader]] = []
        for connection in self._connections:
            count = connection.unread_bytes
            if count:
                look = seen[connection] = self._look_at(connection)
                unread_bytes += count
                if look.idle_checks >= self._idle_checks_max:
                    slow.append((count, connection))
            yield
        self._seen = seen
        slow.sort(key=_unread_bytes_of, reverse=True)
        for count, connection in slow:
            if unread_bytes <= self._unread_bytes_max:
                return
            if connection.taken_bytes != seen[connection].taken_bytes:
                # It has read since this check began.
                continue
            unread_bytes -= count
            self.closed_count += 1
            connection.cut_off(
                f"memory is low, and the client reads nothing of the {count} bytes that wait for it"
            )
            yield

    def _look_at(self, connection: Reader) -> _Look:
        taken_bytes = connection.taken_bytes
        before = self._seen.get(connection)
        if before is None or before.taken_bytes != taken_bytes:
            return _Look(taken_bytes, 0)
        return _Look(taken_bytes, before.idle_checks + 1)


def _unread_bytes_of(slow: tuple[int, Reader]) -> int:
    return slow[0]
