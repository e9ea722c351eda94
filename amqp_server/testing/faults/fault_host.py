"""The broker, as its faults use it: they act on its event loop, from any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from amqp_server.server import Server

    ResultT = TypeVar("ResultT")


class FaultHost(Protocol):
    """A broker of a test."""

    def submit(self, make: Callable[[Server], Coroutine[Any, Any, ResultT]]) -> Future[ResultT]:
        """Call a coroutine function with the server that runs, on the broker's loop.

        Raises:
            BrokerStateError: The broker does not run.
        """
