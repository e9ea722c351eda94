"""Record of the publishes to a virtual host, for tests that look back."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue

    Published = tuple[bytes, tuple[str, ...]]
    """A message as the broker stores it, and the names of the queues that it went to."""

MESSAGES_MAX: Final = 10_000
"""Messages that are recorded; the oldest are forgotten."""
BYTES_MAX: Final = 16 << 20
"""Bytes of the recorded messages; the oldest are forgotten, but never the last."""


class PublishRecord:
    """The last messages that were published, and where they went. The broker's loop owns it.

    Attributes:
        count: Messages that were ever recorded.
    """

    def __init__(self) -> None:
        self.count = 0
        self._messages: deque[Published] = deque()
        self._bytes = 0

    def note(self, queues: Sequence[Queue], messages: Sequence[bytes]) -> None:
        """Record a batch of messages that went to some queues."""
        names = tuple(queue.name for queue in queues)
        for message in messages:
            self._messages.append((message, names))
            self._bytes += len(message)
        self.count += len(messages)
        kept = self._messages
        while len(kept) > 1 and (len(kept) > MESSAGES_MAX or self._bytes > BYTES_MAX):
            message, _ = self._messages.popleft()
            self._bytes -= len(message)

    def since(self, count: int) -> list[Published]:
        """Return the messages that were recorded after the first `count`, and not forgotten."""
        forgotten = self.count - len(self._messages)
        return list(islice(self._messages, max(count - forgotten, 0), None))
