"""The hidden queue of a delayed exchange: messages wait in it until their delay is over.

It works like any other queue, with its own log, checkpoints, retention and recovery. But no table
of names contains it, so that no client sees it, and it is deleted with its exchange. The delays are
kept as deadlines. Messages leave like dead letters: a message is settled here once it is safe in
the queues that it was routed to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_server.broker.queue import Queue
from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.routing.carbon_copies import may_have_copies, take_copies
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.transfers.delay import delay_ms, with_delay_negated
from amqp_server.broker.transfers.forwarder import Copy, Forwarder
from amqp_server.broker.transfers.large_body import with_body, without_large_body
from appendlog import LogIdentity
from appendlog.layout.message import HAS_HEADERS, routing_key_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.storing.opened_log import OpenedLog
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.transfers.transfer_order import TransferOrder
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost
    from appendlog import SegmentSummary

DELAY_QUEUE_NAME = "amq.delayed"
"""Name of all these queues in logs and log directories; no client can declare it."""


class DelayAttributes(MessageAttributes):
    """When each message is forwarded: `x-delay` milliseconds after it was published.

    Args:
        start: Offset of the first message that will be recorded.
    """

    def __init__(self, start: int) -> None:
        super().__init__(QueueSettings(), start)

    @property
    def is_needed(self) -> bool:
        """Whether every message must be recorded: each has a delay."""
        return True

    def record(self, start: int, messages: list[bytes], flags: int, now_ms: int) -> None:
        """Note the deadlines of messages from the offset `start` on, published at `now_ms`."""
        for offset, message in enumerate(messages, start):
            deadline_ms = now_ms + delay_ms(Envelope(("",), message).headers)
            self.deadlines.add(offset, offset + 1, deadline_ms)

    def needs_segment(self, summary: SegmentSummary) -> bool:
        """Return whether a segment holds messages, because each has a delay."""
        return summary.record_count > 0


class DelayedRelease:
    """Routes messages whose delay is over, through the exchange that delayed them.

    Args:
        virtual_host: Virtual host of the exchange.
        exchange: The delayed exchange.
    """

    keeps_unroutable = False

    def __init__(self, virtual_host: VirtualHost, exchange: Exchange) -> None:
        self._virtual_host = virtual_host
        self._exchange = exchange

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        """Return the steps to the message with its delay negated, and its target queues."""
        copies: tuple[str, ...] = ()
        body: memoryview | None = None
        if message[0] & HAS_HEADERS:
            message, body = without_large_body(message)
            message = with_delay_negated(message, Envelope(("",), message).headers)
            if may_have_copies(message):
                copies, message = take_copies(message)
        key = routing_key_of(message).decode("utf-8", "surrogateescape")
        envelope = Envelope((key, *copies), message)
        # First the queues, then the copy: the exchange may be deleted while a large body is copied.
        queues = yield from self._virtual_host.routing.route_in_steps(self._exchange, envelope)
        if body is not None:
            message = yield from with_body(message, body)
        return Copy(tuple(queues), message[0], message)

    def forget(self) -> None:
        """Do nothing: it remembers nothing."""


def fresh_delay_log(
    storage: QueueStorage, virtual_host: VirtualHost, exchange: Exchange, incarnation: UUID
) -> OpenedLog:
    """Return the empty log of a new exchange's hidden queue."""
    identity = LogIdentity(virtual_host.name, DELAY_QUEUE_NAME, incarnation)
    opened = storage.fresh_log(identity, storage.settings({}), is_journaled=exchange.durable)
    return replace(opened, attributes=DelayAttributes(opened.log.log_end_offset))


def end_delay_queues(virtual_host: VirtualHost, exchanges: list[Exchange]) -> list[Queue]:
    """Stop the hidden queues of deleted exchanges; return them to be discarded."""
    queues = [
        virtual_host.delay_queues.pop(exchange)
        for exchange in exchanges
        if exchange in virtual_host.delay_queues
    ]
    for queue in queues:
        queue.stop()
        queue.stop_forwarding()
    return queues


def make_delay_queue(
    virtual_host: VirtualHost,
    exchange: Exchange,
    incarnation: UUID,
    opened: OpenedLog,
    storage: QueueStorage,
    turn: Turn,
    order: TransferOrder,
    on_changed: Callable[[Queue], None],
) -> Queue:
    """Return the hidden queue of a delayed exchange; it is durable if the exchange is.

    Args:
        virtual_host: Virtual host of the exchange.
        exchange: The delayed exchange.
        incarnation: Identifier that differs from those of all other queues.
        opened: Log of the queue, with the `DelayAttributes` of its messages.
        storage: Source of the queue's message store; shared by all queues.
        turn: Turn at whose end the queue writes and forwards.
        order: Order of all forwarders of the server.
        on_changed: Called when the next round of checkpoints must include the queue.
    """
    assert isinstance(opened.attributes, DelayAttributes), "a delay queue needs deadlines"
    queue = Queue(
        virtual_host=virtual_host,
        name=DELAY_QUEUE_NAME,
        durable=exchange.durable,
        exclusive_owner=None,
        auto_delete=False,
        arguments={},
        settings=QueueSettings(),
        incarnation=incarnation,
        storage=storage,
        opened=opened,
        turn=turn,
        on_changed=on_changed,
    )
    queue.forwarder = Forwarder(queue, DelayedRelease(virtual_host, exchange), turn, order)
    return queue
