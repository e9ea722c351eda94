"""Faults that wait for one frame."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amqp_server.testing.faults.faulty_connection import FaultyConnection, FrameFilter
    from amqp_server.testing.faults.frames import Frame


class ArmedFault:
    """A fault that happens once, at the next frame that fits, unless it is cancelled before.

    Args:
        fits: Returns whether this is the frame.
        strike: Does what goes wrong; the frame itself is not sent.
        filters: Filters of all connections; it is one of them until it has happened.
    """

    def __init__(
        self,
        fits: Callable[[FaultyConnection, Frame], bool],
        strike: Callable[[FaultyConnection, Frame], None],
        filters: list[FrameFilter],
    ) -> None:
        self._fits = fits
        self._strike = strike
        self._filters = filters
        self._happened = threading.Event()
        filters.append(self)

    @property
    def has_happened(self) -> bool:
        """Whether the frame has come."""
        return self._happened.is_set()

    def wait(self, seconds_max: float | None = None) -> bool:
        """Return whether the fault has happened, as soon as it has, or after `seconds_max`."""
        return self._happened.wait(seconds_max)

    def cancel(self) -> None:
        """Let it not happen any more."""
        with suppress(ValueError):
            self._filters.remove(self)

    # amqp_server.testing.faults.faulty_connection.FrameFilter

    def take(self, connection: FaultyConnection, frame: Frame) -> Sequence[Frame]:
        """Strike if this is the frame; pass on all others."""
        if not self._fits(connection, frame):
            return (frame,)
        self.cancel()
        self._strike(connection, frame)
        self._happened.set()
        return ()


def reset(connection: FaultyConnection, frame: Frame) -> None:
    """Lose the frame and the connection."""
    connection.reset()


def cut_inside(connection: FaultyConnection, frame: Frame) -> None:
    """End the connection in the middle of the frame."""
    octets = frame.octets
    connection.cut(octets[: len(octets) // 2])
