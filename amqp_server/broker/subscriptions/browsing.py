"""Browsing: a consumer gets copies of all messages of a queue and takes none from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.message_states import states_of
from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.storing.stamped_run import StampedRun
from amqp_server.broker.subscriptions.subscription import Subscription
from amqp_server.broker.transfers.message_headers import as_run_with_header, with_header
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from amqp_server.broker.consuming.source import Delivered
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.protocol.tables import Table

BROWSE = "x-browse"
"""Consumer argument: whether the consumer browses."""
STATE_HEADER = "x-browse-state"
"""Header with the state of a message: `ready`, `unacked` or `settled`."""


def browses(arguments: Table) -> bool:
    """Return whether the checked arguments of a consumer ask for browsing."""
    value = arguments.get(BROWSE)
    return value is not None and value.value is True


class BrowseSubscription(Subscription):
    """A subscription that adds the state of each message at the moment of its delivery.

    It works on queues of any type. The queue does not count it as a consumer.
    """

    is_counted = False

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages with their offsets and states."""
        del redelivered
        end = start + len(messages)
        states = states_of(self.queue.message_states(start, end), range(start, end))
        values = [FieldValue(b"S", state.value.encode()) for state in states]
        if len(messages) == 1:
            (message,) = messages_of(messages)
            return StampedRun(as_run_with_header(message, STATE_HEADER, values[0]), start)
        stated = [
            with_header(message, STATE_HEADER, value)
            for message, value in zip(messages_of(messages), values, strict=True)
        ]
        return StampedRun(stated, start)
