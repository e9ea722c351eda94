"""An event loop on a thread of its own, which other threads hand coroutines to."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    ResultT = TypeVar("ResultT")


class LoopThread:
    """Runs coroutines on uvloop, or on asyncio's loop where uvloop is not installed.

    The thread is a daemon: a test run that forgets to close it can end.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._ending = asyncio.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; return when its loop runs."""
        self._thread.start()
        self._has_begun.wait()

    def submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Run a coroutine on the loop; return the future of its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """End the loop, its worker threads and the thread; a second call does nothing."""
        if self._thread.is_alive():
            # An exception of a signal handler may have ended the wait in `start`.
            self._has_begun.wait()
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            self._loop = runner.get_loop()
            runner.run(self._wait_for_end())

    async def _wait_for_end(self) -> None:
        self._has_begun.set()
        await self._ending.wait()
        # Both loops close a socket one turn after its transport.
        await asyncio.sleep(0)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # pragma: no cover - every installation has it
        return None
    return uvloop.new_event_loop
