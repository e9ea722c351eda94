"""Writes of message stores, each charged to the client that published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from amqp_server.broker.turn import Turn
    from appendlog.flushing.requests import Request


class Writes(Protocol):
    """Accepts the requests of a store for its log."""

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Accept a request; its result arrives later, on the event loop.

        Args:
            request: Request to carry out.
            charged_client: Task queue of the client that published what is written; None: not
                known.
        """


class ClientWrites:
    """Submits requests, each charged to the client that published what it writes.

    So the clients share the disk as they share the event loop: a client that writes one log does
    not wait for one that writes hundreds. The publisher is charged, not the client whose task runs
    when the write begins: many writes begin in the server's own task queue, because a timer, a
    result of the disk or a memory alarm asks for them. There each would wait for those of all
    other clients.

    Args:
        flusher: Carries out the requests.
        turn: Turn that runs the tasks of all clients.
    """

    def __init__(self, flusher: Writes, turn: Turn) -> None:
        self._flusher = flusher
        self._turn = turn

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Accept a request; its result arrives later, on the event loop.

        Args:
            request: Request to carry out.
            charged_client: Task queue of the client that published what is written; None: the
                client whose task runs now.
        """
        self._flusher.submit(
            request, self._turn.current_task_queue if charged_client is None else charged_client
        )
