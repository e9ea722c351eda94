"""Filters of publisher confirms: held, turned into refusals, or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.testing.faults.faulty_connection import FaultyConnection
    from amqp_server.testing.faults.frames import Frame
    from amqp_server.testing.faults.scope import Scope


class HeldConfirms:
    """Holds confirms until `release`.

    Args:
        scope: Connections that are meant.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._held: dict[FaultyConnection, list[Frame]] = {}

    def take(self, connection: FaultyConnection, frame: Frame) -> Sequence[Frame]:
        """Hold a confirm; pass on all other frames."""
        if frame.is_confirm and self._scope.covers(connection.vhost):
            self._held.setdefault(connection, []).append(frame)
            return ()
        if frame.closes_connection:
            self._held.pop(connection, None)
        elif frame.closes_channel and connection in self._held:
            # A confirm on a closed channel is an error of the broker.
            kept = [held for held in self._held[connection] if held.channel != frame.channel]
            self._held[connection] = kept
        return (frame,)

    def release(self) -> None:
        """Send what is held, to each client in its order."""
        held, self._held = self._held, {}
        for connection, frames in held.items():
            if frames and connection.is_open:
                connection.write(b"".join(frame.octets for frame in frames))


class NackedConfirms:
    """Turns each confirm into basic.nack.

    Args:
        scope: Connections that are meant.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def take(self, connection: FaultyConnection, frame: Frame) -> Sequence[Frame]:
        """Pass on the frame, or a nack in its place."""
        if frame.is_confirm and self._scope.covers(connection.vhost):
            return (frame.as_nack(),)
        return (frame,)
