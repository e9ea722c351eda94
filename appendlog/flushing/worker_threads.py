"""A few threads for work that waits for the disk, started when there is work."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

logger = logging.getLogger("appendlog.flushing.worker_threads")

Work = Callable[[], None]


class WorkerThreads:
    """At most `count` threads. They are daemons: a hung disk must not keep the process alive.

    What is submitted before the start waits for it.

    Args:
        name: Prefix of the threads' names.
        count: Maximum number of threads, >= 1.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._threads: list[threading.Thread] = []
        self._submitted: SimpleQueue[Work | None] = SimpleQueue()

    def start(self) -> None:
        """Start the first thread.

        Raises:
            RuntimeError: The system has no thread left.
        """
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def submit(self, work: Work) -> None:
        """Run a function in one of the threads; called by one thread at a time."""
        self._submitted.put(work)
        if 0 < len(self._threads) < self._count:
            # Without a further thread the work waits for those that are there.
            with suppress(RuntimeError):
                self.start()

    def close(self) -> None:
        """Wait until all submitted work is done and the threads have ended."""
        for _ in self._threads:
            self._submitted.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (work := self._submitted.get()) is not None:
            try:
                work()
            except Exception:
                # This thread must live on: the next work would wait for it without end.
                logger.exception("worker failed thread=%s", threading.current_thread().name)
            # A thread that waits must keep nothing alive.
            del work
