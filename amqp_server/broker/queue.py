"""A queue: a store, a ready order and a settlement, and the consumers they serve.

The three parts answer: where message N is, which comes next, what is done for good. A queue
moves offsets between them: each is ready, or unacked once, or settled (invariant I8).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.broker.consuming.dispatch import dispatch
from amqp_server.broker.consuming.single_active_consumer import rotation_for
from amqp_server.broker.loading_messages import LoadingMessages
from amqp_server.broker.orders.queue_order import queue_order
from amqp_server.broker.publishing.throttled_publishers import ThrottledPublishers
from amqp_server.broker.queue_settings import QueueType, queue_settings
from amqp_server.broker.rules.delivery_counts import DeliveryCounts
from amqp_server.broker.rules.delivery_limit_log import note_past_limit
from amqp_server.broker.rules.forced_removal import ForcedRemoval
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.rules.queue_rules import QueueRules
from amqp_server.broker.rules.stream_retention import stream_count
from amqp_server.broker.storing.refused_ranges import RefusedRanges
from amqp_server.broker.subscriptions.groups import Groups
from amqp_server.broker.subscriptions.subscriptions import Subscriptions
from amqp_server.broker.transfers.dead_letter import DeadLetters
from amqp_server.broker.transfers.deaths import DELIVERY_LIMIT
from amqp_server.broker.transfers.forwarder import Forwarder
from appendlog.layout.message import HAS_EXPIRATION, PERSISTENT, as_persistent
from offsets.delivery_counters import DeliveryCounters
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from uuid import UUID

    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.publishing.confirms import ConfirmWaiter
    from amqp_server.broker.rules.expiry_timer import ExpiryTimer
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.message_store import MessageStore
    from amqp_server.broker.storing.storage import OpenedLog, QueueStorage
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.config import Durability
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
        self.virtual_host = virtual_host
        self.name = name
        self.durable = durable
        self.exclusive_owner = exclusive_owner
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.settings = queue_settings(arguments)
        self.storage_settings = opened.settings
        self.incarnation = incarnation
        # Nothing leaves a stream but by retention, and every consumer has its own place.
        self.is_stream = self.settings.type is QueueType.STREAM
        self.consumers = rotation_for(self.settings)
        self.checkpointed_floor = opened.ack_floor
        self.checkpointed_recovery_point = 0
        self.is_deleted = self.is_checkpoint_due = self.is_checkpointed = False
        self.throttled_publishers = ThrottledPublishers(self)
        self.waiting_confirms: set[ConfirmWaiter] = set()
        self.refused_ranges = RefusedRanges(self)
        self.expiry_timer: ExpiryTimer | None = None
        self._storage, self._turn = storage, turn
        self._had_consumer = self.is_winding_up = False
        self.settlement = Settlement(opened.ack_floor, opened.acked_ranges)
        self.opened_settled = self.settlement.settled_count
        end = self.opened_end = opened.log.log_end_offset
        attributes = opened.attributes or MessageAttributes(self.settings, end)
        self.ready, limit = queue_order(self.settings, attributes, end)
        self.delivery_counts: DeliveryCounts | None = None
        if counted := [run for run in opened.redeliveries if run[2]]:
            self.delivery_counts = DeliveryCounts(self.settings.delivery_limit, counted)
        self.counters, self.refused_count = DeliveryCounters(), 0
        self.refusal_told_seconds = 0.0
        self.delivery_limit_told = False
        self.loading = LoadingMessages(self, opened, attributes)
        self.store: MessageStore = storage.make_store(
            opened, self.settlement, is_durable=self.is_journaled, owner=self
        )
        self.rules: QueueRules | None = None
        if (
            attributes.is_needed
            or limit is not None
            or attributes.deadlines
            or self.loading.is_loading
        ):
            self.rules = QueueRules(self, attributes, limit, turn)
        self.refuses_when_full = limit is not None and self.settings.overflow.refuses
        self.forced_removal = ForcedRemoval(self)
        self.subscriptions = Subscriptions(self, turn)
        self.groups: Groups | None = None
        if self.is_stream:
            self.groups = Groups(self, turn, partial(storage.queues_to_checkpoint.add, self))
        self.forwarder: Forwarder | None = None
        if self.settings.dead_letter_exchange is not None:
            self.forwarder = Forwarder(self, DeadLetters(self), turn)

    @property
    def is_journaled(self) -> bool:
        """Whether its messages survive a restart: durable, and nobody's own."""
        return self.durable and self.exclusive_owner is None

    @property
    def is_durable(self) -> bool:
        """Whether all that can be read of it is on the disk."""
        return self.store.recovery_point >= self.store.end_offset

    @property
    def consumer_count(self) -> int:
        """Consumers, as clients count them."""
        return self.subscriptions.consumer_count if self.is_stream else len(self.consumers)

    @property
    def visible_end(self) -> int:
        """What has an offset is shown below this one only (I9), exclusive."""
        return self.store.recovery_point if self.is_journaled else self.store.end_offset

    @property
    def durability(self) -> Durability | None:
        """What a confirm of its persistent messages means; None: nothing here survives."""
        return self.storage_settings.durability if self.is_journaled else None

    @property
    def delivered_watermark(self) -> int:
        """All offsets that were ever delivered are below this one."""
        return (self.loading if self.loading.is_loading else self.ready).delivered_end

    @property
    def ready_count(self) -> int:
        """Messages that wait to be delivered, those too that nobody has looked at yet."""
        if self.is_stream:
            return stream_count(self.settlement, self.visible_end)
        return len(self.ready) + self.loading.count

    def publish(self, messages: list[bytes], flags: int) -> int:
        """Take messages in, in order; return the offset after them.

        A transient message of a durable queue is in the log too, but nobody waits for it. In a
        stream no message is transient.

        Args:
            messages: At least one; shared with other queues, not changed.
            flags: The flags octet that all of them have.
        """
        rules = self.rules
        if rules is None and flags & HAS_EXPIRATION and not self.is_stream:
            attributes = MessageAttributes(self.settings, self.store.end_offset)
            rules = self.rules = QueueRules(self, attributes, None, self._turn)
        if rules is not None:
            rules.note(self.store.end_offset, messages, flags)
        if self.is_stream and not flags & PERSISTENT:
            messages, flags = list(map(as_persistent, messages)), flags | PERSISTENT
        is_persistent = bool(flags & PERSISTENT) and self.is_journaled
        end_offset = self.store.append(messages, persistent=is_persistent)
        # Also what waits for a slot: it is accepted, so every count and rule has to see it.
        self.ready.extend(end_offset)
        if not self.is_journaled:
            self.subscriptions.wake()
        self._turn.mark(self)
        self._storage.relieve_memory()
        return end_offset

    def run_turn(self) -> None:
        """Write what is new, deliver what may be delivered."""
        if self.is_deleted:
            if self.forwarder is not None:
                self.forwarder.run_turn()
            return
        if self.store.run_journal(more_input=self._storage.more_input):
            self._turn.mark(self)
        if not self.is_winding_up and self._serve():
            self._turn.mark(self)
        if self.forwarder is not None:
            self.forwarder.run_turn()

    def bring_up_to_date(self) -> None:
        """Deliver, expire and drop what is due now: a count is asked, or consumers change."""
        while self._serve():
            pass

    def _serve(self) -> bool:
        """Deliver what may be delivered, with what the rules do before and after.

        Returns:
            Whether there is more to do at once.
        """
        if self.loading.is_loading:
            return False
        rules = self.rules
        if rules is not None and rules.before_delivery():
            return True
        if len(self.ready) and len(self.consumers) and dispatch(self):
            return True
        return rules is not None and rules.after_delivery()

    def wake(self) -> None:
        """Dispatch at the end of the turn: a consumer can take more."""
        self._turn.mark(self)

    def settle(self, start: int, end: int) -> None:
        """Be done with `[start, end)` for good; it must be unacked."""
        settled = self.settlement.settle(start, end)
        assert settled == end - start or start < self.forced_removal.end, "I8: settled twice"
        assert self.settlement.ack_floor <= self.store.end_offset, "I2: settled what is not there"
        if not self.is_checkpoint_due:
            self._note_dirty()
        self.store.release(self.settlement.ack_floor)

    def drop(self, start: int, end: int, reason: str) -> None:
        """Be done with `[start, end)`, neither ready nor unacked any more, unless it is wanted.

        With a dead-letter exchange the messages are settled when they are safe elsewhere.

        Args:
            start: First offset.
            end: Exclusive.
            reason: Why, in the words of `dead_letter`.
        """
        if self.forwarder is None:
            self.settle(start, end)
        else:
            self.forwarder.add(start, end, reason)

    def read_run(self, start: int, end: int) -> Messages:
        """Return what is at hand of `[start, end)`, which was taken from `ready.peek()`."""
        return self.store.read_run(start, end)

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Messages:
        """Return messages as a consumer gets them: with how often they came back, if it counts."""
        if not redelivered:
            return messages
        if self.delivery_counts is None or self.settings.type is not QueueType.QUORUM:
            return messages
        return self.delivery_counts.tell(start, messages)

    def requeue(self, start: int, end: int) -> None:
        """Make the unacked `[start, end)` ready again, in its place, marked redelivered."""
        self._turn.mark(self)
        start = self.forced_removal.drop_returned(start, end)
        if start == end:
            return
        counts = self.delivery_counts
        if counts is None:
            counts = self.delivery_counts = DeliveryCounts(self.settings.delivery_limit)
        for low, high, is_over in counts.add(start, end):
            if is_over:
                note_past_limit(self, high - low)
                self.drop(low, high, DELIVERY_LIMIT)
            else:
                self.ready.requeue(low, high)
        counts.prune(self.settlement)
        if not self.is_checkpoint_due:
            self._note_dirty()
        if self.rules is not None:
            self.rules.came_back(start, end)
        self._turn.mark(self)

    def purge(self) -> int:
        """Settle all that is ready and return how many messages that was."""
        count = self.loading.purge()
        for taken in self.ready.take_all():
            self.settle(taken.start, taken.end)
            count += len(taken)
        return count

    def note_use(self) -> None:
        """Take note that somebody declares it, gets from it or ends to consume from it."""
        if self.expiry_timer is not None:
            self.expiry_timer.renew()

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
        else:
            # Another one may be active now, or the highest that can take something.
            self._turn.mark(self)
        return self.auto_delete and self._had_consumer and len(self.consumers) == 0

    def store_moved(self) -> None:
        """Pass on what the store has learnt: new room, new safety, new messages at hand."""
        self.subscriptions.wake()
        waiting, self.waiting_confirms = self.waiting_confirms, set()
        for publishing in waiting:
            publishing.release_confirms()
            if publishing.awaits_confirms:
                self.waiting_confirms.add(publishing)
        self.throttled_publishers.resume()
        if not self.is_deleted:
            self._storage.queues_to_checkpoint.add(self)
        self._turn.mark(self)

    @property
    def is_being_read(self) -> bool:
        """Whether it has consumers that do not wait for held publishers: for themselves."""
        return self.throttled_publishers.leave_some_of(self.consumers)

    def store_failed(self) -> None:
        """Refuse the publishes that wait for the disk: nothing more gets there now."""
        self.store.is_failed = True
        self._storage.failed_stores.add(self.store)
        self.refused_ranges.refuse_waiting()
        self.store_moved()

    def store_reopened(self) -> None:
        """Let the next checkpoint say what it could not while the recovery point stood still."""
        self.is_checkpoint_due = True

    def store_lost(self, start: int, end: int) -> None:
        """Settle offsets whose records cannot be read, so that nobody waits for them."""
        if self.forwarder is not None:
            self.forwarder.lose(start, end)
        for taken in self.ready.take_range(start, end):
            self.settle(taken.start, taken.end)
            logger.error(
                "records lost queue=%s vhost=%s from=%d to=%d",
                *(self.name, self.virtual_host.name, taken.start, taken.end),
            )

    def redeliveries(self, end: int) -> list[tuple[int, int, int]]:
        """Return runs of messages below `end` that came back, and how often; some are settled."""
        if self.delivery_counts is None:
            return []
        return self.delivery_counts.runs(self.settlement.ack_floor, end)

    async def drain(self) -> None:
        """Let nothing more expire or leave, and return when what is leaving has arrived.

        The server is stopping: what leaves later would be in two queues after the next start.
        """
        self.is_winding_up = True
        if self.forwarder is not None:
            self.forwarder.stop()
            await self.forwarder.until_settled()

    async def until_left(self) -> None:
        """Return when no message of the deleted queue waits to become a dead letter."""
        if self.forwarder is not None:
            await self.forwarder.until_sent()

    def stop_forwarding(self) -> None:
        """Let no message become a dead letter any more: there is nothing to read them from."""
        if self.forwarder is not None:
            self.forwarder.stop()

    def stop(self) -> None:
        """Let nothing happen to the queue any more, but that what is leaving leaves."""
        self.is_deleted = True
        self.subscriptions.stop()
        if self.groups is not None:
            self.groups.stop()
        self.loading.abandon()
        if self.expiry_timer is not None:
            self.expiry_timer.cancel()
        if self.rules is not None:
            self.rules.stop()

    def _note_dirty(self) -> None:
        """Let the next checkpoint say what is settled, and what came back."""
        self.is_checkpoint_due = True
        self._storage.queues_to_checkpoint.add(self)
