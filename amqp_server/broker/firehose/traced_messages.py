"""The messages of a delivery, as their client gets them; large bodies are shared, not copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.storing.message_run import MessageRun, messages_of
from amqp_server.broker.storing.stamped_run import StampedRun
from amqp_server.broker.transfers.large_body import without_large_body
from amqp_server.broker.transfers.message_headers import with_header
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.large_delivery import LargeMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.consuming.source import Delivered
    from amqp_server.broker.storing.message_run import Messages

    TracedMessage = tuple[bytes, memoryview | None]
    """A message; or one without its large body, and the body."""

_OFFSET_HEADER: Final = "x-stream-offset"


def traced_messages(delivered: Delivered) -> Iterator[TracedMessage]:
    """Return the messages of one delivery.

    What comes from the log is copied at once: its window may be read again before the last message
    is taken.
    """
    if isinstance(delivered, StampedRun):
        return _stamped(_apart(delivered.messages), delivered.first_offset)
    assert isinstance(delivered, list | MessageRun | LargeMessage), "there are no other runs"
    return _apart(delivered)


def _apart(messages: Messages | LargeMessage) -> Iterator[TracedMessage]:
    if isinstance(messages, LargeMessage):
        return iter([(messages.front, messages.body)])
    return map(without_large_body, messages_of(messages))


def _stamped(messages: Iterable[TracedMessage], first_offset: int) -> Iterator[TracedMessage]:
    for offset, (front, body) in enumerate(messages, first_offset):
        yield with_header(front, _OFFSET_HEADER, FieldValue(b"l", offset)), body
