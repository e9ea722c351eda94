"""Writes of message stores, on behalf of the clients that they are made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.turn import Turn
    from appendlog import Flusher
    from appendlog.flushing.requests import Request


class Writes(Protocol):
    """Accepts the requests of a store for its log."""

    def submit(self, request: Request) -> None:
        """Accept a request; its result arrives later, on the event loop."""


class ClientWrites:
    """Submits requests on behalf of the client whose task runs now.

    So the clients share the disk as they share the event loop: a client that writes one log does
    not wait for one that writes hundreds.

    Args:
        flusher: Carries out the requests.
        turn: Turn that runs the tasks of all clients.
    """

    def __init__(self, flusher: Flusher, turn: Turn) -> None:
        self._flusher = flusher
        self._turn = turn

    def submit(self, request: Request) -> None:
        """Accept a request; its result arrives later, on the event loop."""
        self._flusher.submit(request, self._turn.current_line)
