"""Browsing: a consumer that looks at all that a queue has, and takes nothing from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.message_states import message_states, states_of
from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.storing.stamped_run import StampedRun
from amqp_server.broker.subscriptions.subscription import Subscription
from amqp_server.broker.transfers.message_headers import with_header
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from amqp_server.broker.consuming.delivered import Delivered
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.protocol.tables import Table

BROWSE = "x-browse"
"""Whether a consumer only looks."""
STATE_HEADER = "x-browse-state"
"""What has become of a message: `ready`, `unacked` or `settled`."""


def browses(arguments: Table) -> bool:
    """Return whether the checked arguments of a consumer say that it only looks."""
    value = arguments.get(BROWSE)
    return value is not None and value.value is True


class BrowseSubscription(Subscription):
    """One that tells the state of each message, at the moment at which it is sent.

    It may be on a queue of any type, and the queue knows nothing of it: it counts nowhere.
    """

    is_counted = False

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages with their offsets and states."""
        del redelivered
        end = start + len(messages)
        states = states_of(message_states(self.queue, start, end), range(start, end))
        stated = [
            with_header(message, STATE_HEADER, FieldValue(b"S", state.value.encode()))
            for message, state in zip(messages_of(messages), states, strict=True)
        ]
        return StampedRun(stated, start)
