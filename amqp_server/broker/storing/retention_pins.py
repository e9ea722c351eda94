"""Parts of logs that retention keeps although they are settled, because a reader needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from amqp_server.broker.queue import Queue


class RetentionPins:
    """All pins of a server. The event loop owns it; retention and compaction read it."""

    def __init__(self) -> None:
        self._by_queue: dict[Queue, list[RetentionPin]] = {}

    def pin(self, queue: Queue, offset: int) -> RetentionPin:
        """Return a context manager that pins a queue's log from `offset` on."""
        return RetentionPin(self._by_queue, queue, offset)

    def low_offset(self, queue: Queue) -> int | None:
        """Return the offset from which retention leaves the log unchanged; None without a pin."""
        pins = self._by_queue.get(queue)
        return min(pin.offset for pin in pins) if pins else None


class RetentionPin:
    """One reader's claim on the end of a log; a context manager.

    Args:
        by_queue: All pins of the server.
        queue: Queue whose log is pinned.
        offset: Offset below which retention may remove messages.
    """

    def __init__(
        self, by_queue: dict[Queue, list[RetentionPin]], queue: Queue, offset: int
    ) -> None:
        self.offset = offset
        self._by_queue = by_queue
        self._queue = queue

    def __enter__(self) -> Self:
        """Start to pin the log."""
        self._by_queue.setdefault(self._queue, []).append(self)
        return self

    def move(self, offset: int) -> int:
        """Release what lies below `offset`, which never decreases; return `offset`."""
        assert offset >= self.offset, "retention may have removed what was released"
        self.offset = offset
        return offset

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the whole log."""
        pins = self._by_queue[self._queue]
        pins.remove(self)
        if not pins:
            del self._by_queue[self._queue]
