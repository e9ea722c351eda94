"""Which body each offset of a queue has: once seen, for ever."""

from __future__ import annotations


class Offsets:
    """What readers of a queue have seen.

    Args:
        queue: Its name.
        is_stream: Whether every offset must be there; offsets of other queues may be gone.

    Attributes:
        queue: As given.
        is_stream: As given.
        next_offset: Behind the last one that was seen.
    """

    def __init__(self, queue: str, *, is_stream: bool) -> None:
        self.queue = queue
        self.is_stream = is_stream
        self.next_offset = 0
        self._bodies: dict[int, bytes] = {}

    def __len__(self) -> int:
        """Return how many offsets were seen."""
        return len(self._bodies)

    def is_new(self, offset: int, body: bytes) -> bool:
        """Note a delivery; return whether its offset is seen for the first time.

        Raises:
            AssertionError: The offset had another body, or one before it was left out.
        """
        known = self._bodies.get(offset)
        if known is not None:
            assert known == body, f"{self.queue}: offset {offset} was {known!r} and is {body!r}"
            return False
        assert offset >= self.next_offset, f"{self.queue}: {offset} comes late"
        if self.is_stream:
            assert offset == self.next_offset, f"{self.queue}: {self.next_offset} was left out"
        self.next_offset = offset + 1
        self._bodies[offset] = body
        return True
