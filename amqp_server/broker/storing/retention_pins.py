"""Parts of logs that stay on the disk though they are settled: somebody is reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from amqp_server.broker.queue import Queue


class RetentionPins:
    """All pins of a server. The event loop owns it; retention and compaction ask it."""

    def __init__(self) -> None:
        self._by_queue: dict[Queue, list[RetentionPin]] = {}

    def pin(self, queue: Queue, offset: int) -> RetentionPin:
        """Return a pin on what a queue's log has from `offset` on, until its context ends."""
        return RetentionPin(self._by_queue, queue, offset)

    def low_offset(self, queue: Queue) -> int | None:
        """Return the offset from which on a queue's log stays as it is; None: nobody pins it."""
        pins = self._by_queue.get(queue)
        return min(pin.offset for pin in pins) if pins else None


class RetentionPin:
    """One reader's claim on the end of a log; a context manager.

    Args:
        by_queue: All pins.
        queue: Whose log.
        offset: What lies below it may go.
    """

    def __init__(
        self, by_queue: dict[Queue, list[RetentionPin]], queue: Queue, offset: int
    ) -> None:
        self.offset = offset
        self._by_queue = by_queue
        self._queue = queue

    def __enter__(self) -> Self:
        """Begin to pin."""
        self._by_queue.setdefault(self._queue, []).append(self)
        return self

    def move(self, offset: int) -> int:
        """Let what lies below `offset` go; it only grows. Returns it."""
        assert offset >= self.offset, "what was let go may be gone"
        self.offset = offset
        return offset

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go."""
        pins = self._by_queue[self._queue]
        pins.remove(self)
        if not pins:
            del self._by_queue[self._queue]
