"""Publishes that wait while an alarm is on, and the methods that must stay behind them.

While memory or disk is low, the broker *parks* what a connection publishes: it keeps the events
until the alarm or the connection ends. The rules:

* A channel keeps the order of its frames: all methods that follow a parked publish wait behind
  it. Only what consuming needs passes (basic.ack, nack, reject, recover, qos, consume, cancel,
  get, channel.flow), because consuming ends an alarm. If another method waits too, only basic.ack,
  nack and reject pass: a basic.consume may need the queue.declare before it. On a transactional
  channel nothing passes, because its acknowledgements belong to the commit.
* connection.close waits behind everything that is parked. A close of a connection or a channel
  waits at most `CLOSE_WAIT_SECONDS`. The broker then handles what is parked before it despite the
  alarm. So closing loses nothing, and a client that opens a connection a message is slowed down.
* A connection may park `bytes_max` (plus the rest of the same read), and all connections together
  as much as `ParkedBudget` allows. Above that the broker stops reading the socket. When the disk
  is low, it keeps reading channels with confirms instead, and answers their publishes with
  basic.nack until the alarm ends.

Source: RabbitMQ, rabbit_reader (publish_received, maybe_block), which stops reading at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, assert_never

from amqp_server.protocol.framing import (
    AckRun,
    BrokenFrame,
    ContentBody,
    ContentHeader,
    HeartbeatFrame,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from amqp_server.protocol.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelClose,
    ChannelFlow,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    TxSelect,
    method_frame,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.client import Client
    from amqp_server.protocol.framing import Event

logger = logging.getLogger("amqp_server.parked_publishes")

CLOSE_WAIT_SECONDS = 2.0
"""Seconds that a close waits for the end of an alarm."""
_EVENT_BYTES = 128
"""Bytes counted for each message and method beside its octets: Python objects cost memory."""
_TAG_BYTES = 40
_FULL = "parked"
"""Reason not to read: the budget for parked publishes is used up."""


_CONTENT_FRAMES = (ContentHeader, ContentBody)
_PUBLISHES = (PublishRun, PublishRow)
_ANSWER_IDS = {method.identity for method in (BasicAck, BasicNack, BasicReject)}
_PASSING_IDS = _ANSWER_IDS | {
    method.identity
    for method in (
        BasicRecover,
        BasicRecoverAsync,
        BasicQos,
        BasicConsume,
        BasicCancel,
        BasicGet,
        ChannelFlow,
    )
}


class Publisher(Protocol):
    """The session whose publishes are parked.

    Attributes:
        name: Name of the connection in log lines.
    """

    name: str

    @property
    def channels(self) -> dict[int, Channel]:
        """Its open channels, by number."""

    def write(self, octets: bytes) -> None:
        """Send frames."""

    def pause_reading(self, reason: object) -> None:
        """Stop reading until every reason is lifted."""

    def resume_reading(self, reason: object) -> None:
        """Lift one reason for not reading."""

    def capability(self, name: str) -> bool:
        """Return whether the client has declared a capability."""

    def awaits_content(self, number: int) -> bool:
        """Return whether the content of a publish is incomplete on a channel."""

    def handle_again(self, events: Iterable[Event]) -> None:
        """Handle events, in this order, before all other waiting ones."""


class ParkedBudget:
    """Bytes that all connections together have parked.

    Args:
        bytes_max: Upper limit in bytes.
    """

    def __init__(self, bytes_max: int) -> None:
        self.held_bytes = 0
        self.bytes_max = bytes_max


class ParkedPublishes:
    """Parked events of one connection.

    Its session passes itself to each method: a reference back would make both garbage in a cycle.

    Args:
        bytes_max: Bytes that this connection may park.
        budget: Bytes that all connections have parked; shared with them.

    Attributes:
        is_watching: Whether an alarm is on: the session must call `parks` for each event.
        is_blocked: Whether the connection has published since the alarm began.
        held_bytes: Bytes parked now.
    """

    def __init__(self, bytes_max: int, budget: ParkedBudget) -> None:
        self.is_watching = False
        self.is_blocked = False
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._budget = budget
        self._reason = ""
        self._refuses = False
        self._is_closing = False
        self._events: dict[int, list[Event]] = {}
        # Methods that wait on a channel beside publishes: later methods may depend on them.
        self._methods: defaultdict[int, set[bytes]] = defaultdict(set)
        # Channels whose close has waited long enough; their numbers may be used again.
        self._closing_channels: dict[int, Channel] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}

    # The alarm

    def raise_alarm(self, publisher: Publisher, reason: str, *, refuses_confirmed: bool) -> None:
        """Park publishes from now on.

        Args:
            publisher: The session.
            reason: Text of the connection.blocked that the client gets when it publishes.
            refuses_confirmed: Whether publishes on channels with confirms are answered with
                basic.nack when there is no room to park more.
        """
        if self._is_closing:
            return
        self.is_watching = True
        self._reason = reason
        self._refuses = refuses_confirmed
        if not refuses_confirmed:
            _stop_refusing(publisher)
        if self._is_full:
            self._make_room(publisher)

    def lift_alarm(self, publisher: Publisher) -> None:
        """Handle the parked events, in their order, before any event that arrives now."""
        self.is_watching = False
        self._closing_channels.clear()
        _stop_refusing(publisher)
        if self.is_blocked:
            self.is_blocked = False
            logger.info("connection unblocked peer=%s", publisher.name)
            if publisher.capability("connection.blocked"):
                publisher.write(method_frame(0, ConnectionUnblocked()))
        self._release(publisher, list(self._events))

    # Events

    def parks(self, publisher: Publisher, event: Event) -> bool:
        """Park an event if it has to wait; return whether it has to."""
        number = event.channel
        channel = publisher.channels.get(number)
        if number in self._events:
            if self._passes(channel, event):
                return False
        elif not self._begins_to_wait(publisher, channel, event):
            return False
        self._park(publisher, number, event)
        return True

    def _begins_to_wait(self, publisher: Publisher, channel: Channel | None, event: Event) -> bool:
        """Return whether this event is the first to be parked on its channel, or on channel 0."""
        if event.channel == 0:
            return bool(self._events) and event.identity == ConnectionClose.identity
        if channel is None or channel.publishing.is_refusing:
            return False
        if self._closing_channels.get(channel.number) is channel:
            return False
        if publisher.awaits_content(channel.number):
            # The message began before the alarm: methods that pass must not split its content.
            return False
        if event.identity != BasicPublish.identity or isinstance(event, _CONTENT_FRAMES):
            return False
        if not self.is_blocked:
            self._block(publisher)
        return True

    def _passes(self, channel: Channel | None, event: Event) -> bool:
        if isinstance(event, BrokenFrame | HeartbeatFrame):
            return True
        if channel is None:
            return bool(event.channel)
        if channel.transaction is not None:
            return False
        waiting = self._methods.get(channel.number)
        if event.identity in _ANSWER_IDS:
            return waiting is None or TxSelect.identity not in waiting
        return waiting is None and event.identity in _PASSING_IDS

    def _block(self, publisher: Publisher) -> None:
        self.is_blocked = True
        logger.warning("connection blocked peer=%s reason=%s", publisher.name, self._reason)
        if publisher.capability("connection.blocked"):
            publisher.write(method_frame(0, ConnectionBlocked(reason=self._reason)))

    def _park(self, publisher: Publisher, number: int, event: Event) -> None:
        self._events.setdefault(number, []).append(event)
        parked_bytes = cost_bytes(event)
        self.held_bytes += parked_bytes
        self._budget.held_bytes += parked_bytes
        if isinstance(event, MethodFrame) and event.identity != BasicPublish.identity:
            self._methods[number].add(event.identity)
        close_id = ChannelClose.identity if number else ConnectionClose.identity
        if event.identity == close_id and number not in self._timers:
            self._timers[number] = asyncio.get_running_loop().call_later(
                CLOSE_WAIT_SECONDS, self._end_close_wait, publisher, number
            )
        if self._is_full:
            self._make_room(publisher)

    @property
    def _is_full(self) -> bool:
        is_over = self._budget.held_bytes > self._budget.bytes_max
        return self.held_bytes > (0 if is_over else self._bytes_max)

    def _make_room(self, publisher: Publisher) -> None:
        if self._refuses:
            for number in list(self._events):
                channel = publisher.channels.get(number)
                if channel is not None and channel.publishing.confirms is not None:
                    channel.publishing.is_refusing = True
                    self._release(publisher, [number])
        if self._is_full:
            publisher.pause_reading(_FULL)

    # The end of waiting

    def _end_close_wait(self, publisher: Publisher, number: int) -> None:
        """Handle what is parked before a close that has waited long enough."""
        if number == 0:
            self.handle_all(publisher)
            return
        channel = publisher.channels.get(number)
        if channel is not None:
            self._closing_channels[number] = channel
        self._release(publisher, [number])

    def handle_all(self, publisher: Publisher) -> None:
        """Handle everything that is parked: the connection is about to close."""
        self._is_closing = True
        self.is_watching = False
        self._release(publisher, list(self._events))

    def _release(self, publisher: Publisher, numbers: list[int]) -> None:
        """Handle the parked events of some channels; those of channel 0 come last."""
        events: list[Event] = []
        for number in sorted(numbers, key=lambda number: number == 0):
            events += self._take(number)
        if not self._is_full:
            publisher.resume_reading(_FULL)
        if events:
            publisher.handle_again(events)

    def forget(self, publisher: Client, number: int) -> None:
        """Drop the parked events of a channel that was closed with an error."""
        if self._take(number) and not self._is_full:
            publisher.resume_reading(_FULL)

    def end(self, name: str) -> None:
        """Drop all parked events: the client is gone."""
        dropped = sum(map(_message_count, [e for each in self._events.values() for e in each]))
        if dropped:
            logger.warning(
                "publishes dropped peer=%s count=%d reason=%s",
                name,
                dropped,
                f"connection lost while {self._reason}",
            )
        for number in list(self._events):
            self._take(number)
        self._closing_channels.clear()
        self.is_watching = False
        self._is_closing = True

    def _take(self, number: int) -> list[Event]:
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()
        self._methods.pop(number, None)
        events = self._events.pop(number, [])
        freed_bytes = sum(map(cost_bytes, events))
        self.held_bytes -= freed_bytes
        self._budget.held_bytes -= freed_bytes
        return events


def _stop_refusing(publisher: Publisher) -> None:
    for channel in publisher.channels.values():
        channel.publishing.is_refusing = False


def _message_count(event: Event) -> int:
    if isinstance(event, _PUBLISHES):
        return len(event.messages)
    return isinstance(event, MethodFrame) and event.identity == BasicPublish.identity


def cost_bytes(event: Event) -> int:
    """Return about how many bytes of memory an event that waits takes."""
    match event:
        case PublishRun():
            return sum(map(len, event.messages)) + _EVENT_BYTES * (1 + len(event.messages))
        case PublishRow():
            octets = sum(map(len, event.method_payloads)) + sum(map(len, event.messages))
            return octets + _EVENT_BYTES * (1 + 2 * len(event.messages))
        case AckRun():
            return _EVENT_BYTES + _TAG_BYTES * len(event.ranges)
        case MethodFrame() | ContentHeader() | ContentBody():
            return _EVENT_BYTES + len(event.payload)
        case BrokenFrame():
            return _EVENT_BYTES + len(event.text)
        case HeartbeatFrame():
            return _EVENT_BYTES
        case _:
            assert_never(event)
