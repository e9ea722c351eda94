"""What was published to a virtual host, for tests that look back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_server.testing.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue

MESSAGES_MAX: Final = 10_000
"""Messages that are recorded; the oldest are forgotten."""
BYTES_MAX: Final = 16 << 20
"""Bytes of the recorded messages; the oldest are forgotten."""


class PublishRecord:
    """The last messages that were published, and where they went. The broker's loop owns it.

    Attributes:
        forgotten_count: Messages that had to be forgotten.
    """

    def __init__(self) -> None:
        self.forgotten_count = 0
        self._messages: deque[tuple[bytes, tuple[str, ...]]] = deque()
        self._bytes = 0

    def note(self, queues: Sequence[Queue], messages: Sequence[bytes]) -> None:
        """Record a batch of messages that went to some queues."""
        names = tuple(queue.name for queue in queues)
        for message in messages:
            self._messages.append((message, names))
            self._bytes += len(message)
        while self._messages and (len(self._messages) > MESSAGES_MAX or self._bytes > BYTES_MAX):
            message, _ = self._messages.popleft()
            self._bytes -= len(message)
            self.forgotten_count += 1

    def messages(self) -> list[Message]:
        """Return all recorded messages in the order in which they were published."""
        return [Message.decode(octets, queues) for octets, queues in self._messages]
