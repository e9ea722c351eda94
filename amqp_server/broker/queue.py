"""A queue: a store, a ready order and a settlement, and the consumers they serve.

Each of the three parts answers one question: where message N is, which comes next, what is
done for good. A queue moves offsets between them, and every offset is ready, or unacked
once, or settled (invariant I8).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.dispatch import ConsumerRotation, dispatch
from amqp_server.broker.message_store import MessageStore
from amqp_server.broker.plain_order import PlainOrder
from amqp_server.broker.queue_settings import queue_settings
from appendlog.message import PERSISTENT
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from uuid import UUID

    from amqp_server.broker.client import Client
    from amqp_server.broker.consumer import Consumer
    from amqp_server.broker.publishing import Publishing
    from amqp_server.broker.queue_lease import QueueLease
    from amqp_server.broker.storage import OpenedLog, QueueStorage
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table

logger = logging.getLogger(__name__)


class Queue:
    """One queue of one virtual host. The event loop owns it.

    Args:
        virtual_host: Where it lives.
        name: Its name there.
        durable: Whether it survives a restart of the server.
        exclusive_owner: The client it belongs to alone, or None.
        auto_delete: Whether it goes when its last consumer does.
        arguments: The arguments it was declared with.
        incarnation: Tells it from a later queue of the same name.
        storage: What stores need.
        opened: Its log and what is known of it.
        turn: Where it asks for its turn.
    """

    def __init__(
        self,
        *,
        virtual_host: VirtualHost,
        name: str,
        durable: bool,
        exclusive_owner: Client | None,
        auto_delete: bool,
        arguments: Table,
        incarnation: UUID,
        storage: QueueStorage,
        opened: OpenedLog,
        turn: Turn,
    ) -> None:
        """Make a queue whose ready messages are the unsettled ones of its log."""
        self.virtual_host = virtual_host
        self.name = name
        self.durable = durable
        self.exclusive_owner = exclusive_owner
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.settings = queue_settings(arguments)
        self.incarnation = incarnation
        self.consumers = ConsumerRotation()
        self.is_deleted = False
        self.checkpointed_floor = opened.ack_floor
        self.is_checkpoint_due = False
        self.stalled_publishers: set[Client] = set()
        self.waiting_confirms: set[Publishing] = set()
        self.lease: QueueLease | None = None
        self._storage = storage
        self._turn = turn
        self._had_consumer = False
        self.settlement = Settlement(opened.ack_floor, opened.acked_ranges)
        end = opened.log.log_end_offset
        self.ready = PlainOrder(end)
        for start, stop in self.settlement.unsettled_ranges(opened.ack_floor, end):
            self._recover(start, stop, opened.delivered_watermark)
        self.store: MessageStore = storage.make_store(
            opened.log, self.settlement, is_durable=self.is_journaled, owner=self
        )

    @property
    def is_journaled(self) -> bool:
        """Whether its messages survive a restart: durable, and nobody's own."""
        return self.durable and self.exclusive_owner is None

    @property
    def delivered_watermark(self) -> int:
        """All offsets that were ever delivered are below this one."""
        return self.ready.delivered_end

    def publish(self, messages: list[bytes], flags: int) -> int:
        """Take messages in, in order; return the offset after them.

        A transient message of a durable queue is in the log too, but nobody waits for it.

        Args:
            messages: At least one; shared with other queues, not changed.
            flags: The flags octet that all of them have.
        """
        is_persistent = bool(flags & PERSISTENT) and self.is_journaled
        end_offset = self.store.append(messages, persistent=is_persistent)
        self.ready.extend(self.store.cursor)
        self._turn.mark(self)
        self._storage.relieve_memory()
        return end_offset

    def run_turn(self) -> None:
        """Write what is new, deliver what may be delivered."""
        if self.is_deleted:
            return
        if self.store.run_journal(more_input=self._storage.more_input):
            self._turn.mark(self)
        if len(self.ready) and len(self.consumers) and dispatch(self):
            self._turn.mark(self)

    def wake(self) -> None:
        """Dispatch at the end of the turn: a consumer can take more."""
        self._turn.mark(self)

    def settle(self, start: int, end: int) -> None:
        """Be done with `[start, end)` for good; it must be unacked."""
        settled = self.settlement.settle(start, end)
        assert settled == end - start, "I8: settled twice"
        assert self.settlement.ack_floor <= self.store.end_offset, "I2: settled what is not there"
        self.is_checkpoint_due = True
        self.store.release(self.settlement.ack_floor)

    def requeue(self, start: int, end: int) -> None:
        """Make the unacked `[start, end)` ready again, in its place, marked redelivered."""
        self.ready.give_back(start, end)
        self._turn.mark(self)

    def purge(self) -> int:
        """Settle all that is ready and return how many messages that was."""
        count = 0
        for taken in self.ready.take_all():
            self.settle(taken.start, taken.end)
            count += len(taken)
        return count

    def note_use(self) -> None:
        """Take note that somebody declares it, gets from it or ends to consume from it."""
        if self.lease is not None:
            self.lease.renew()

    def add_consumer(self, consumer: Consumer) -> None:
        """Begin to serve a consumer at the end of the turn."""
        self.consumers.add(consumer)
        self._had_consumer = True
        self._turn.mark(self)

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Stop serving a consumer; return whether the queue should be deleted now."""
        self.consumers.remove(consumer)
        if len(self.consumers) == 0:
            self.note_use()
        return self.auto_delete and self._had_consumer and len(self.consumers) == 0

    def store_moved(self) -> None:
        """Pass on what the store has learnt: new room, new safety, new messages at hand."""
        self.ready.extend(self.store.cursor)
        waiting, self.waiting_confirms = self.waiting_confirms, set()
        for publishing in waiting:
            publishing.release_confirms()
            if publishing.awaits_confirms:
                self.waiting_confirms.add(publishing)
        if self.stalled_publishers and not self.store.is_stalled:
            stalled, self.stalled_publishers = self.stalled_publishers, set()
            for client in stalled:
                client.resume_reading(self)
        self._turn.mark(self)

    def refuse_waiting(self) -> None:
        """Refuse the publishes that wait for the disk: nothing more will get there."""
        self.store.is_failed = True
        self.store_moved()

    def store_lost(self, start: int, end: int) -> None:
        """Settle offsets whose records cannot be read, so that nobody waits for them."""
        for taken in self.ready.take_range(start, end):
            self.settle(taken.start, taken.end)
            logger.error(
                "records lost queue=%s vhost=%s from=%d to=%d",
                self.name,
                self.virtual_host.name,
                taken.start,
                taken.end,
            )

    def _recover(self, start: int, end: int, delivered_watermark: int) -> None:
        delivered_end = min(max(start, delivered_watermark), end)
        if start < delivered_end:
            self.ready.give_back(start, delivered_end)
        if delivered_end < end:
            self.ready.give_back(delivered_end, end, redelivered=False)
