"""A flusher whose owner is an event loop in a thread of its own, for tests that wait themselves."""

import asyncio
import threading
from collections.abc import Callable, Hashable

from appendlog import Flusher, FlushResult
from appendlog.flushing.flusher import PARALLEL_MAX
from appendlog.flushing.requests import Request
from tests.limits import HANG_SECONDS


class DrivenFlusher:
    """See the module. Any thread but the loop's may use it.

    Args:
        on_results: Called in the loop's thread.
        parallel_max: As that of `Flusher`.
    """

    def __init__(
        self, on_results: Callable[[list[FlushResult]], None], parallel_max: int = PARALLEL_MAX
    ) -> None:
        self._flusher = Flusher(on_results, parallel_max)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Begin to write."""
        self._call(lambda: self._flusher.start(self._loop.add_reader))

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Submit a request, of which the result may be reported before this returns."""
        self._call(lambda: self._flusher.submit(request, charged_client))

    def close(self) -> None:
        """Return when everything submitted is reported, and all threads have ended."""
        closed = threading.Event()

        def on_closed() -> None:
            self._loop.remove_reader(self._flusher.fileno)
            closed.set()

        self._call(lambda: self._flusher.close(on_closed))
        assert closed.wait(HANG_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_SECONDS)
        self._loop.close()

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        if self._loop.is_closed():
            function()
            return
        asyncio.run_coroutine_threadsafe(call(), self._loop).result(HANG_SECONDS)
