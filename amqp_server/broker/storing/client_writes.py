"""Writes of message stores, on behalf of the clients that they are made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from amqp_server.broker.turn import Turn
    from appendlog import Flusher
    from appendlog.flushing.requests import Request


class Writes(Protocol):
    """Accepts the requests of a store for its log."""

    def submit(self, request: Request, payer: Hashable = None) -> None:
        """Accept a request; its result arrives later, on the event loop.

        Args:
            request: Request to carry out.
            payer: Line of the client that published what is written; None: not known.
        """


class ClientWrites:
    """Submits requests on behalf of the clients that they are made for.

    So the clients share the disk as they share the event loop: a client that writes one log does
    not wait for one that writes hundreds. The publisher pays, not the client whose task runs when
    the write begins: many writes begin in the server's own line, because a timer, a result of the
    disk or a memory alarm asks for them, and there each would wait for those of all other clients.

    Args:
        flusher: Carries out the requests.
        turn: Turn that runs the tasks of all clients.
    """

    def __init__(self, flusher: Flusher, turn: Turn) -> None:
        self._flusher = flusher
        self._turn = turn

    def submit(self, request: Request, payer: Hashable = None) -> None:
        """Accept a request; its result arrives later, on the event loop.

        Args:
            request: Request to carry out.
            payer: Line of the client that published what is written; None: the client whose task
                runs now pays.
        """
        self._flusher.submit(request, self._turn.current_line if payer is None else payer)
