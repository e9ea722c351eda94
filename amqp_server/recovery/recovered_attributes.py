"""The message attributes that the rules of a recovered queue need, and when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.rules.unloaded_attributes import AppendTimes, UnloadedAttributes

if TYPE_CHECKING:
    from amqp_server.base.clock import Clock
    from amqp_server.broker.definitions import QueueDefinition
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from appendlog import Log
    from offsets.settlement import Settlement


def recovered_attributes(
    log: Log, definition: QueueDefinition, settlement: Settlement, clock: Clock
) -> tuple[MessageAttributes | None, UnloadedAttributes | None]:
    """Return the known attributes of a queue's messages, and the reader for the others.

    A queue with a length limit has them read before it takes messages: what it may take depends on
    them, and the number of its messages is bounded.
    """
    floor, end = settlement.ack_floor, log.log_end_offset
    attributes = definition.attributes(floor)
    settings = definition.settings
    ttl_since_ns = definition.policy.ttl_since_ns
    if ttl_since_ns and not definition.is_delay_queue:
        # Messages from before the policy have the lifetime that the arguments give. Both times are
        # rounded, so one that is as old as the policy, to a millisecond or two, may have either.
        since_ms = AppendTimes(clock).since_ms(ttl_since_ns)
        attributes.limit_ttl(since_ms, definition.own_settings.message_ttl_ms)
    is_stream = settings.type is QueueType.STREAM
    expires = not is_stream and any(summary.max_expiry_ns for summary in log.summaries())
    if not attributes.is_needed and not expires:
        return None, None
    unread = UnloadedAttributes(log, attributes, settlement.unsettled_ranges(floor, end), clock)
    if settings.max_length is None and settings.max_length_bytes is None:
        return definition.attributes(end), unread
    while unread.read_some():
        pass
    attributes.close_gap(end)
    return attributes, None
