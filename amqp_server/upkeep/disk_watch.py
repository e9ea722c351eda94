"""Watches for a disk that hangs: a file operation that does not return.

A disk that fails says so, and the logs that it refused are marked as failed. One that hangs says
nothing: confirms wait, and so does whatever touches a file, also an event loop that does. So a
thread watches that touches none. It reports a stall and its end, and can end the process instead:
what cannot be written here another machine may be able to write, with the volume attached there.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.base.process_end import end_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from appendlog.files.operation import Operation

logger = logging.getLogger("amqp_server.disk_watch")

LOOK_SECONDS: Final = 0.25
"""Time between two looks: a stall is reported so much later at most, twice."""
LATE_SECONDS_MAX: Final = 1.0
"""Most that the time since the last look counts: a process that was stopped is no hung disk.

A machine that is suspended, and one that is far too busy, stop the threads of the disk as well.
"""
EXIT_DISK_STALL: Final = 74
"""Exit code of a server that ends because its disk hangs (EX_IOERR of C)."""
_STOP_SECONDS_MAX: Final = 1.0


class Stall(NamedTuple):
    """A disk that does not answer.

    Attributes:
        operation: The operation that has waited longest.
        seconds: How long it has waited since a look saw it first, without the time that the process
            was stopped.
        late_count: Number of operations that have waited longer than the limit.
    """

    operation: Operation
    seconds: float
    late_count: int


class DiskWatch:
    """Looks again and again which file operations have not returned.

    Args:
        sources: Each returns the operations under way, in any thread, without a lock that an
            operation holds.
        limit_seconds: Time after which one that has not returned is a stall.
        report: Called in the thread of the watch when a stall begins, and with None at its end.
        exits: Whether the process ends instead, at once.
    """

    def __init__(
        self,
        sources: Sequence[Callable[[], Iterable[Operation]]],
        limit_seconds: float,
        report: Callable[[Stall | None], None],
        *,
        exits: bool = False,
    ) -> None:
        self.limit_seconds = limit_seconds
        self._sources = sources
        self._report = report
        self._exits = exits
        self._now_seconds = 0.0
        self._looked_seconds = 0.0
        # When a look saw each operation first.
        self._seen: dict[Hashable, float] = {}
        self._is_stalled = False
        self._began_seconds = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="amqp-disk-watch", daemon=True)

    def start(self) -> None:
        """Begin to look.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._thread.start()

    def stop(self) -> None:
        """End; nothing is reported afterwards."""
        self._stopping.set()
        if self._thread.ident is not None:
            # It may wait for a log that is on the same disk.
            self._thread.join(_STOP_SECONDS_MAX)

    def look(self, now_seconds: float) -> None:
        """Look once; called by one thread at a time.

        Args:
            now_seconds: Time of a steady clock.
        """
        since_seconds = now_seconds - self._looked_seconds
        self._looked_seconds = now_seconds
        self._now_seconds = now_seconds = self._now_seconds + min(since_seconds, LATE_SECONDS_MAX)
        under_way = [each for source in self._sources for each in source()]
        seen = {each.key: self._seen.get(each.key, now_seconds) for each in under_way}
        self._seen = seen
        late = [each for each in under_way if now_seconds - seen[each.key] >= self.limit_seconds]
        if late and not self._is_stalled:
            oldest = min(late, key=lambda each: seen[each.key])
            self._is_stalled = True
            self._began_seconds = seen[oldest.key]
            self._begin(Stall(oldest, now_seconds - seen[oldest.key], len(late)))
        elif self._is_stalled and not late:
            self._is_stalled = False
            self._report(None)
            seconds = now_seconds - self._began_seconds
            logger.warning("disk answers again seconds=%.1f", seconds)

    def _begin(self, stall: Stall) -> None:
        # First the report: the log may be on the same disk.
        if self._exits:
            end_at_once(EXIT_DISK_STALL, partial(_log, stall, "the process ends"))
            return
        self._report(stall)
        _log(stall, "confirms wait, publishers are blocked")

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self.look(monotonic())
            except Exception:
                # A watch that has ended says nothing any more.
                logger.exception("disk not watched")


def _log(stall: Stall, note: str) -> None:
    logger.error(
        "disk does not answer operation=%s path=%s seconds=%.1f operations=%d note=%s",
        stall.operation.name,
        stall.operation.path,
        stall.seconds,
        stall.late_count,
        note,
    )
