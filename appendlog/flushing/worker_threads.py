"""A few threads for what waits for the disk, begun when there is something for them."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

logger = logging.getLogger(__name__)

Work = Callable[[], None]


class WorkerThreads:
    """At most `count` threads. They end with the process: a hung disk must not keep it alive.

    Args:
        name: Of the threads.
        count: Of them at most, >= 1.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._threads: list[threading.Thread] = []
        self._submitted: SimpleQueue[Work | None] = SimpleQueue()

    def submit(self, work: Work) -> None:
        """Let one of the threads do something; called by one thread at a time."""
        self._submitted.put(work)
        if len(self._threads) < self._count:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Return when all that was submitted is done and the threads have ended."""
        for _ in self._threads:
            self._submitted.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (work := self._submitted.get()) is not None:
            try:
                work()
            except Exception:
                # Not a reason for the next one to wait for ever.
                logger.exception("worker failed thread=%s", threading.current_thread().name)
