"""A queue: stores messages, decides which is next, and delivers them to its consumers.

Three parts share the work. The store knows where a message is. The ready order knows which
message is next. The settlement knows which messages are done for good. The queue moves offsets
between these parts: an offset is ready, or unacked once, or settled (invariant I8).
"""

from __future__ import annotations

import asyncio
import logging
from heapq import merge
from typing import TYPE_CHECKING, Final

from amqp_server.base.config import Durability
from amqp_server.broker.consuming.dispatch import dispatch
from amqp_server.broker.consuming.single_active_consumer import rotation_for
from amqp_server.broker.counters.consumer_waits import ConsumerWaits
from amqp_server.broker.counters.delivery_counters import DeliveryCounters
from amqp_server.broker.counters.incoming_pair import IncomingPair
from amqp_server.broker.job import Job
from amqp_server.broker.loading_messages import LoadingMessages
from amqp_server.broker.merged_ranges import merged
from amqp_server.broker.message_states import message_states
from amqp_server.broker.orders.queue_order import queue_order
from amqp_server.broker.policies.effective_policy import NO_POLICY
from amqp_server.broker.publishing.refusal_log import RefusalLog
from amqp_server.broker.publishing.throttled_publishers import ThrottledPublishers
from amqp_server.broker.queue_settings import Overflow, QueueType
from amqp_server.broker.rules.delivery_counts import DeliveryCounts, log_past_limit
from amqp_server.broker.rules.forced_removal import ForcedRemoval
from amqp_server.broker.rules.message_attributes import MessageAttributes, body_bytes
from amqp_server.broker.rules.queue_rules import QueueRules
from amqp_server.broker.rules.rule_changes import change_rules
from amqp_server.broker.storing.window_reader import wake
from amqp_server.broker.subscriptions.subscriptions import Subscriptions
from amqp_server.broker.transfers.deaths import DELIVERY_LIMIT, MAXLEN
from appendlog.layout.message import HAS_EXPIRATION, PERSISTENT
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from uuid import UUID

    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.counters.dead_letter_counts import DeadLetterCounts
    from amqp_server.broker.counters.delivery_pair import DeliveryPair
    from amqp_server.broker.counters.owners import CountedExchange
    from amqp_server.broker.message_states import StateRun
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.publishing.target_queue import ConfirmWaiter
    from amqp_server.broker.publishing.throttled_publishers import Throttled
    from amqp_server.broker.queue_part import Namespace
    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.broker.rules.expiry_timer import ExpiryTimer
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.message_store import MessageStore
    from amqp_server.broker.storing.opened_log import OpenedLog
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from amqp_server.broker.storing.store_owner import StoreProgress
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.broker.transfers.forwarder import Forwarder
    from amqp_server.broker.turn import TaskQueue, Turn
    from amqp_server.protocol.large_delivery import LargeMessage
    from amqp_server.protocol.tables import Table

logger = logging.getLogger("amqp_server.broker.queue")

INCOMING_MAX: Final = 256
"""Exchanges whose messages a queue counts apart; for one more it forgets the first."""
_FROM_NO_CLIENT: Final = IncomingPair(None)
"""Counts for all queues the messages that no client published; its counts are not shown."""
PURGE_STEP_OFFSETS = 1024
"""Offsets that one step of a purge looks at."""


class Queue:
    """One queue of one virtual host. The event loop owns it.

    Args:
        virtual_host: Virtual host that the queue belongs to.
        name: Name of the queue; unique in its virtual host.
        durable: Whether the queue survives a restart of the server.
        exclusive_owner: Client that alone may use the queue, or None.
        auto_delete: Whether the broker deletes the queue when its last consumer goes.
        arguments: Arguments that the queue was declared with.
        settings: What these arguments ask for.
        incarnation: Identifier that differs from those of later queues with the same name.
        storage: Source of the queue's message store; shared by all queues.
        opened: Log of the queue, and what its checkpoint says about it.
        turn: Turn at whose end the queue writes and dispatches.
        on_changed: Called when the next round of checkpoints must include the queue.

    Attributes:
        awaits_disk: Whether confirms of persistent messages wait for the disk.
        confirmed_end: All persistent messages below it may be confirmed (I3, exclusive), as far as
            the disk has answered.
        is_failed: Whether the log accepts no more writes; publishes are refused.
        publish_refused_count: Messages refused since the start because the queue was full or its
            log had failed.
        policy: What the policies of its virtual host give to it; `settings` have it already.
        is_journaled: Whether messages survive a restart: the queue is durable and not exclusive.
        consumer_waits: How long ready messages have waited for consumers with credit.
        dead_letter_counts: Counts what is rejected, expires or is dropped; None in hidden queues.
        purge_under_way: The last purge that dropped messages, until the disk has it, or None.
        is_paused: Whether an operator has paused it: it delivers nothing, and takes publishes.
        makes_persistent: Whether the queue stores every message as persistent.
        is_hidden: Whether it is in no table of names: the messages of a delayed exchange.
        is_marked_changed: Whether the queue is marked as changed; see `ChangedQueues`.
        has_new_attributes: Whether what seldom changes, such as the policy, has changed too.
        changed_in: Generation of its last change; `ChangedQueues` sets it.
        attributes_in: Generation of the last change of what seldom changes; likewise.
        number: Number of the queue in reports of changes; 0 before the first.
        rewrites_tried: Live records of its segments when they were rewritten last, by base offset;
            see `Compactor`.
    """

    makes_persistent = False
    is_hidden = True
    is_marked_changed = False
    has_new_attributes = True
    changed_in = 0
    attributes_in = 0
    number = 0
    rewrites_tried: dict[int, int] | None = None
    _incoming = _FROM_NO_CLIENT
    _incoming_pairs: dict[CountedExchange, IncomingPair] | None = None
    _delivery_pairs: dict[DeliveryPair, None] | None = None

    def __init__(
        self,
        *,
        virtual_host: Namespace,
        name: str,
        durable: bool,
        exclusive_owner: Client | None,
        auto_delete: bool,
        arguments: Table,
        settings: QueueSettings,
        incarnation: UUID,
        storage: QueueStorage,
        opened: OpenedLog,
        turn: Turn,
        on_changed: Callable[[Queue], None],
    ) -> None:
        self.virtual_host = virtual_host
        self.name = name
        self.durable = durable
        self.exclusive_owner = exclusive_owner
        self.is_journaled = durable and exclusive_owner is None
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.settings = settings
        self.policy = NO_POLICY
        self.storage_settings = opened.settings
        self.incarnation = incarnation
        self.consumers = rotation_for(self.settings)
        self.checkpointed_floor = opened.ack_floor
        self.checkpointed_recovery_point = 0
        self.is_deleted = False
        self.is_gone = False
        self.is_paused = False
        self.is_checkpoint_due = False
        self.is_checkpointed = False
        self._throttled_publishers: ThrottledPublishers | None = None
        self.waiting_confirms: set[ConfirmWaiter] = set()
        self.expiry_timer: ExpiryTimer | None = None
        self.purge_under_way: Future[None] | None = None
        self._storage = storage
        self._turn = turn
        self._on_changed = on_changed
        self._task_queue: TaskQueue | None = None
        self._had_consumer = False
        self.is_draining = False
        self._work_count = 0
        self._end_before_commit: int | None = None
        self._expiry_waiters: list[asyncio.Future[None]] = []
        self.settlement = Settlement(opened.ack_floor, opened.acked_ranges)
        self.opened_settled = self.settlement.settled_count
        end = opened.log.log_end_offset
        self.opened_end = end
        attributes = opened.attributes or MessageAttributes(self.settings, end)
        self.ready, limit = queue_order(self.settings, attributes, end)
        self.delivery_counts: DeliveryCounts | None = None
        if counted := [run for run in opened.redeliveries if run[2]]:
            self.delivery_counts = DeliveryCounts(self.settings.delivery_limit, counted)
        self.counters = DeliveryCounters()
        self.consumer_waits = ConsumerWaits()
        self.dead_letter_counts: DeadLetterCounts | None = None
        self.publish_refused_count = 0
        self._refusal_log: RefusalLog | None = None
        self._is_delivery_limit_logged = False
        self.loading = LoadingMessages(self, opened, attributes)
        self.store: MessageStore = storage.make_store(
            opened, self.settlement, is_journaled=self.is_journaled, owner=self
        )
        self.awaits_disk = self.durability not in {None, Durability.NONE}
        self.is_failed = False
        self.confirmed_end = self.store.confirmed_end
        self._readable_end = self.visible_end
        self.rules: QueueRules | None = None
        if (
            attributes.is_needed
            or limit is not None
            or attributes.deadlines
            or self.loading.is_loading
        ):
            self.rules = QueueRules(self, attributes, limit, turn)
        self.refuses_when_full = limit is not None and self.settings.overflow.refuses
        # Most queues never need these: they are made when they are asked for.
        self._forced_removal: ForcedRemoval | None = None
        self._subscriptions: Subscriptions | None = None
        # The creator of the queue sets it: it knows where the dead letters go.
        self.forwarder: Forwarder | None = None

    @property
    def subscriptions(self) -> Subscriptions:
        """Subscriptions that have consumers: of a stream, a group, or browsers."""
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(self._turn)
        return self._subscriptions

    @property
    def forced_removal(self) -> ForcedRemoval:
        """Drops unsettled messages whose segment is too old."""
        if self._forced_removal is None:
            self._forced_removal = ForcedRemoval()
        return self._forced_removal

    @property
    def force_removed_count(self) -> int:
        """Unsettled messages that were dropped since the server started."""
        return 0 if self._forced_removal is None else self._forced_removal.dropped_count

    def all_consumers(self) -> list[Consumer]:
        """Return all consumers, including those of subscriptions."""
        read_by = () if self._subscriptions is None else self._subscriptions.consumers()
        return [*self.consumers, *read_by]

    @property
    def groups(self) -> Groups | None:
        """Consumer groups; only a stream has some."""
        return None

    @property
    def is_synced(self) -> bool:
        """Whether every message of the queue is on the disk."""
        return self.store.recovery_point >= self.store.end_offset

    @property
    def consumer_count(self) -> int:
        """Consumers, as `queue.declare-ok` counts them."""
        return len(self.consumers)

    @property
    def visible_end(self) -> int:
        """End of the offsets that readers may see (I9, exclusive)."""
        if self._end_before_commit is not None and self.is_in_commit:
            return self._end_before_commit
        return self.store.readable_end

    @property
    def durability(self) -> Durability | None:
        """Guarantee of a persistent message's confirm; None: nothing survives a restart."""
        return self.storage_settings.durability if self.is_journaled else None

    @property
    def delivered_watermark(self) -> int:
        """End of all offsets that the queue has ever delivered (exclusive)."""
        return (self.loading if self.loading.is_loading else self.ready).delivered_end

    @property
    def has_dead_letters(self) -> bool:
        """Whether a message that is rejected, expires or is dropped becomes a dead letter."""
        return self.forwarder is not None and not self.forwarder.is_retired

    @property
    def ready_count(self) -> int:
        """Messages that wait for delivery, including those that are still loading after a start."""
        return len(self.ready) + self.loading.count

    @property
    def leaving_count(self) -> int:
        """Messages that are forwarded, or wait for a queue that takes them: dead letters."""
        return 0 if self.forwarder is None else self.forwarder.message_count

    @property
    def unacked_count(self) -> int:
        """Messages that consumers have."""
        settlement = self.settlement
        unsettled = self.store.end_offset - settlement.ack_floor - settlement.settled_above_floor
        return max(unsettled - self.ready_count - self.leaving_count, 0)

    @property
    def first_offset(self) -> int:
        """Offset of the oldest message that can be read, or of the first to come."""
        return self.store.log.log_start_offset

    def publish(
        self, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        """Append messages in order; return the offset after the last one.

        The log of a durable queue holds transient messages too, but confirms do not wait for
        them.

        Args:
            messages: At least one; other queues may share the list, so the queue never changes it.
            flags: Flags octet that all the messages have; `HAS_HEADERS` may differ.
            exchange: Exchange that a client has published them to; None: no client has.
        """
        incoming = self._incoming
        if incoming.exchange is not exchange:
            incoming = self._incoming_from(exchange)
        incoming.count += len(messages)
        rules = self.rules
        if rules is None and flags & HAS_EXPIRATION:
            attributes = MessageAttributes(self.settings, self.store.end_offset)
            rules = self.rules = QueueRules(self, attributes, None, self._turn)
        if rules is not None:
            rules.record(self.store.end_offset, messages, flags)
        is_persistent = bool(flags & PERSISTENT) and self.is_journaled
        self.store.charged_task_queue = self._turn.current_task_queue
        end_offset = self.store.append(messages, persistent=is_persistent)
        # Include messages that wait for a slot: the queue has accepted them, so every count and
        # rule has to see them.
        self.ready.extend(end_offset)
        if self._subscriptions is not None and not self.is_journaled:
            self._subscriptions.wake()
        self._turn.mark(self)
        if self._storage.pool.is_over:
            self._storage.relieve_memory()
        return end_offset

    def run_turn(self) -> None:
        """Apply the progress of the store, write new messages to the log, deliver ready ones."""
        if not self.is_marked_changed:
            self.mark_changed()
        if self.store.has_progressed:
            self._apply(self.store.take_progress())
        if self.is_deleted:
            if self.forwarder is not None:
                self.forwarder.run_turn()
            return
        # What a commit publishes is one write: a start that finds a damaged log counts what it has.
        is_writing = self._storage.queues_in_commit and self.is_in_commit
        if not is_writing and self.store.run_journal():
            self._turn.mark(self)
        if not self.is_draining and self._serve():
            self._turn.mark(self, self._task_queue)
        if self._expiry_waiters and (self.is_draining or not self._is_behind):
            wake(self._expiry_waiters)
        if self.forwarder is not None:
            self.forwarder.run_turn()
            if self.forwarder.is_retired and self.forwarder.is_idle:
                self.forwarder.stop()
                self.forwarder = None

    def bring_up_to_date(self) -> bool:
        """Deliver, expire and drop what is due, before a count or a consumer change.

        If the slice is over, messages that could be delivered stay ready, until the next turn.

        Returns:
            False if more messages have expired than one step removes, or while messages return or
            go in steps. The caller waits for `until_up_to_date`.
        """
        if self.store.has_progressed:
            self._apply(self.store.take_progress())
        while self._serve():
            # While the server stops, the turns expire nothing.
            if self._is_behind and not self.is_draining:
                self._turn.mark(self)
                return False
            if self._turn.time_slice.is_over:
                self._turn.mark(self, self._task_queue)
                break
        # As `is_at_work`, without the calls where there is no commit.
        is_at_work = self._work_count > 0 or (
            bool(self._storage.queues_in_commit) and self.is_in_commit
        )
        return not is_at_work or self.is_draining

    @property
    def delivers_on(self) -> bool:
        """Whether the slice was over before all was delivered that could be."""
        return self._task_queue is not None

    @property
    def is_at_work(self) -> bool:
        """Whether messages come, return or go in steps; nothing is delivered until the end."""
        return self._work_count > 0 or self.is_in_commit

    @property
    def _is_behind(self) -> bool:
        """Whether counts are not exact yet: messages expire, return or go."""
        return self.is_at_work or (self.rules is not None and self.rules.is_behind)

    def begin_work(self) -> None:
        """Deliver nothing until `end_work`: messages return, or go, in several steps.

        A consumer that was served between two steps would get messages out of order.
        """
        self._work_count += 1

    def end_work(self) -> None:
        """Deliver again: all messages have returned, or are gone."""
        self._work_count -= 1
        self._turn.mark(self)

    @property
    def is_in_commit(self) -> bool:
        """Whether a commit changes the queue: until its end no other client publishes to it."""
        in_commit = self._storage.queues_in_commit
        return bool(in_commit) and self in in_commit

    def change_settings(self, settings: QueueSettings, kept: StorageSettings) -> None:
        """Replace the settings of a queue whose messages are all loaded, because a policy changed.

        The next turn drops what exceeds a new length limit. Who calls it makes or ends the parts
        that the queue does not own: the forwarder and the expiry timer.

        Args:
            settings: New settings, of the same type of queue.
            kept: How the queue is kept on the disk from now on.
        """
        assert not self.loading.is_loading, "the attributes of some messages are still unknown"
        self.settings = settings
        if self.delivery_counts is not None:
            self.delivery_counts.change_limit(settings.delivery_limit)
        if kept != self.storage_settings:
            self._change_storage(kept)
        if settings.type is not QueueType.STREAM:
            change_rules(self, self._turn)
        self._turn.mark(self)

    def _change_storage(self, kept: StorageSettings) -> None:
        before, self.storage_settings = self.storage_settings, kept
        if kept.durability is not before.durability:
            self.awaits_disk = self.durability not in {None, Durability.NONE}
            self.store.change_durability(kept.durability)
        self.store.log.change_options(
            segment_bytes=kept.segment_bytes,
            segment_age_seconds=kept.segment_age_seconds,
            compression=kept.compression,
        )

    def hide_commit(self) -> None:
        """Hide from readers what the present commit publishes to the queue."""
        if self._end_before_commit is None:
            self._end_before_commit = self.visible_end

    def on_commit_ended(self) -> None:
        """Go on: the commit that changed the queue has ended."""
        self._end_before_commit = None
        self._turn.mark(self)
        if self._subscriptions is not None:
            self._subscriptions.wake()

    async def until_up_to_date(self) -> None:
        """Return when nothing more is due, or the queue is deleted, or the server is stopping."""
        while not (self.is_deleted or self.is_draining or self.bring_up_to_date()):
            waiter = asyncio.get_running_loop().create_future()
            self._expiry_waiters.append(waiter)
            await waiter

    def _serve(self) -> bool:
        """Deliver ready messages, and apply the queue's rules before and after.

        Returns:
            Whether there is more to do at once, in the task queue `_task_queue`.
        """
        if (
            self.loading.is_loading
            or self._work_count
            or (self._storage.queues_in_commit and self.is_in_commit)
        ):
            return False
        rules = self.rules
        if rules is not None and rules.before_delivery():
            return True
        if self.consumers.count and not self.is_paused and len(self.ready):
            consumer = dispatch(self, self._turn.time_slice)
            if consumer is None and len(self.ready):
                self.consumer_waits.begin()
            elif self.consumer_waits.since_seconds:
                self.consumer_waits.end()
            if consumer is not None:
                # A publisher is not charged for slow consumers, nor for a long queue.
                self._task_queue = consumer.channel.client.task_queue
                return True
        elif self.consumer_waits.since_seconds:
            self.consumer_waits.end()
        self._task_queue = None
        return rules is not None and rules.after_delivery()

    def set_paused(self, *, is_paused: bool) -> None:
        """Deliver nothing from now on, or deliver again; rules and publishes go on."""
        self.is_paused = is_paused
        self._turn.mark(self)
        if self._subscriptions is not None:
            self._subscriptions.wake()

    def wake(self, task_queue: TaskQueue | None = None) -> None:
        """Take a turn: a consumer can take more, or the store has progressed.

        Args:
            task_queue: Task queue to wait in; None: that of the task that runs now.
        """
        self._turn.mark(self, task_queue)

    def on_credit_restored(self) -> None:
        """Take a turn if there is something to deliver: a consumer can take more.

        The consumer of a queue that is served as fast as it is filled acknowledges when nothing is
        ready. Then a turn would do nothing.
        """
        if len(self.ready) or self.rules is not None or self.forwarder is not None:
            self._turn.mark(self)

    def settle(self, start: int, end: int) -> None:
        """Mark the unacked offsets `[start, end)` as done for good."""
        settled = self.settlement.settle(start, end)
        assert settled == end - start or self._is_force_removed(start), "I8: settled twice"
        if not self.is_checkpoint_due:
            self._mark_dirty()
        if not self.is_marked_changed:
            self.mark_changed()
        self.store.release(self.settlement.ack_floor)

    def _is_force_removed(self, offset: int) -> bool:
        return self._forced_removal is not None and offset < self._forced_removal.end

    def drop(self, start: int, end: int, reason: str) -> None:
        """Dead-letter or settle `[start, end)`, which is neither ready nor unacked any more.

        With a dead-letter exchange the messages are settled once their copies are safe.

        Args:
            start: First offset.
            end: Offset after the last one.
            reason: Reason of the dead letter; one of the constants of `deaths`.
        """
        if self.dead_letter_counts is not None:
            self.dead_letter_counts.count(self.settings, reason, end - start)
        if self.forwarder is None or self.forwarder.is_retired:
            self.settle(start, end)
        else:
            self.forwarder.add(start, end, reason)

    def readable_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the first part of `[start, end)` that readers get; it is empty if there is none.

        Settled messages are read too, as long as the log has them.
        """
        return start, end

    def read_run(self, start: int, end: int) -> Messages:
        """Return the messages in memory of `[start, end)`, which came from `ready.peek()`."""
        return self.store.read_run(start, end)

    def as_delivered(
        self, start: int, messages: Messages, *, redelivered: bool
    ) -> Messages | LargeMessage:
        """Return messages as a consumer gets them: a quorum queue adds `x-delivery-count`."""
        if not redelivered:
            return messages
        if self.delivery_counts is None or self.settings.type is not QueueType.QUORUM:
            return messages
        return self.delivery_counts.with_headers(start, messages)

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Make unacked messages ready again, in their old positions, as redelivered.

        Args:
            ranges: Ascending, disjoint and not empty; O(ranges, times the logarithm of the ranges
                that the queue keeps).
        """
        self._turn.mark(self)
        if self._forced_removal is not None:
            ranges = self._forced_removal.drop_returned(self, ranges)
        if not ranges:
            return
        counts = self.delivery_counts
        if counts is None:
            counts = self.delivery_counts = DeliveryCounts(self.settings.delivery_limit)
        kept: list[tuple[int, int]] = []
        for low, high, is_over in counts.add(ranges):
            if is_over:
                self._log_past_limit(high - low)
                self.drop(low, high, DELIVERY_LIMIT)
            else:
                kept.append((low, high))
        self.ready.requeue_all(kept)
        counts.prune(self.settlement)
        if not self.is_checkpoint_due:
            self._mark_dirty()
        if self.rules is not None:
            for start, end in ranges:
                self.rules.on_requeued(start, end)
        self._turn.mark(self)

    def _log_past_limit(self, count: int) -> None:
        if not self._is_delivery_limit_logged and self.settings.dead_letter_exchange is None:
            self._is_delivery_limit_logged = True
            limit = self.settings.delivery_limit
            log_past_limit(self.virtual_host.name, self.name, limit, count)

    def purge(self) -> Iterator[int]:
        """Settle all messages that are ready now, in steps; each returns how many it settled.

        Until the end the queue delivers nothing: consumers see all of it, or nothing. The caller
        must take all steps.
        """
        self.begin_work()
        return self._purge(self.store.end_offset)

    def _purge(self, end: int) -> Iterator[int]:
        try:
            yield from self.loading.purge(self)
            at = self.settlement.ack_floor
            while at < end and not self.is_deleted:
                to = min(at + PURGE_STEP_OFFSETS, end)
                taken = self.ready.take_range(at, to)
                for start, stop in merged([(ready.start, ready.end) for ready in taken]):
                    self.settle(start, stop)
                yield sum(map(len, taken))
                at = to
        finally:
            self.end_work()

    def message_states(self, start: int, end: int) -> list[StateRun]:
        """Return the states of `[start, end)` as ascending runs that cover all of it; see there."""
        if start >= end:
            return []
        ready = merge(self.loading.within(start, end), self.ready.within(start, end))
        return message_states(self.settlement, ready, start, end)

    def count_incoming(self, count: int, exchange: CountedExchange | None) -> None:
        """Count messages that were routed to the queue and that `publish` has not counted."""
        if exchange is not None:
            self._incoming_from(exchange).count += count
            self.mark_changed()

    def _incoming_from(self, exchange: CountedExchange | None) -> IncomingPair:
        """Return the counter of what comes from an exchange; the next messages may, too."""
        if exchange is None:
            self._incoming = _FROM_NO_CLIENT
            return self._incoming
        if self._incoming_pairs is None:
            self._incoming_pairs = {}
        pair = self._incoming_pairs.get(exchange)
        if pair is None:
            if len(self._incoming_pairs) >= INCOMING_MAX:
                self._forget_incoming(next(iter(self._incoming_pairs)))
            pair = self._incoming_pairs[exchange] = IncomingPair(exchange)
        self._incoming = pair
        return pair

    def _forget_incoming(self, exchange: CountedExchange) -> None:
        assert self._incoming_pairs is not None, "there is one to forget"
        pair = self._incoming_pairs.pop(exchange)
        pair.fold(self.virtual_host.counters)
        self._storage.counted_channels.reported.end(pair)

    def incoming_pairs(self) -> tuple[IncomingPair, ...]:
        """Return the counters of what has come from each exchange; at most `INCOMING_MAX`."""
        return () if self._incoming_pairs is None else tuple(self._incoming_pairs.values())

    def fold_incoming(self) -> None:
        """Bring the sums of the exchanges up to date; forget those that are deleted."""
        if self._incoming_pairs is None:
            return
        for exchange, pair in tuple(self._incoming_pairs.items()):
            if pair.is_unused:
                self._forget_incoming(exchange)
                if self._incoming is pair:
                    self._incoming = _FROM_NO_CLIENT
            else:
                pair.fold(self.virtual_host.counters)

    def add_delivery_pair(self, pair: DeliveryPair) -> None:
        """Add the counters of deliveries to one more channel."""
        if self._delivery_pairs is None:
            self._delivery_pairs = {}
        self._delivery_pairs[pair] = None

    def remove_delivery_pair(self, pair: DeliveryPair) -> None:
        """Remove the counters of deliveries to a channel; `counters` has what they counted."""
        if self._delivery_pairs is not None:
            self._delivery_pairs.pop(pair, None)

    def fold_deliveries(self) -> None:
        """Bring `counters` up to date. O(channels that the queue delivers to)."""
        for pair in () if self._delivery_pairs is None else tuple(self._delivery_pairs):
            pair.fold()

    def mark_changed(self) -> None:
        """Mark the queue as changed: what is shown of it has changed."""
        if not self.is_marked_changed:
            self.is_marked_changed = True
            self._storage.changed_queues.record(self)

    def mark_for_checkpoint(self) -> None:
        """Include the queue in the next round of checkpoints."""
        self._on_changed(self)

    def record_use(self) -> None:
        """Restart the expiry timer (`x-expires`): a client has used the queue."""
        if self.expiry_timer is not None:
            self.expiry_timer.renew()

    def add_consumer(self, consumer: Consumer) -> None:
        """Start to serve a consumer, from the end of this turn on."""
        self.consumers.add(consumer)
        self._had_consumer = True
        self._turn.mark(self)

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Stop serving a consumer; return whether the queue should be deleted now."""
        self.consumers.remove(consumer)
        self.mark_changed()
        if len(self.consumers) == 0:
            self.record_use()
        else:
            # The next consumer becomes active, or one of a lower priority gets its turn.
            self._turn.mark(self)
        return self.auto_delete and self._had_consumer and len(self.consumers) == 0

    def store_answered(self, progress: StoreProgress) -> None:
        """Apply the answer of the disk at once; the next write waits for a turn."""
        if not self.is_marked_changed:
            self.mark_changed()
        self._apply(progress)
        if not self.is_deleted:
            self._on_changed(self)
        for waiter in self.waiting_confirms:
            self._turn.mark(self, waiter.task_queue)
        # After that of a lone message a turn has nothing to do: it is written, confirmed, and with
        # a consumer.
        if not self.waiting_confirms and (
            self.rules is not None
            or self.forwarder is not None
            or self.is_deleted
            or self._expiry_waiters
            or self.store.awaits_turn
            or len(self.ready)
        ):
            self._turn.mark(self)

    def _apply(self, progress: StoreProgress) -> None:
        """React to the progress of the store; nothing else in the queue does."""
        has_grown = progress.readable_end > self._readable_end
        has_turned = progress.is_failed != self.is_failed
        self._readable_end = progress.readable_end
        self.confirmed_end = progress.confirmed_end
        self.is_failed = progress.is_failed
        for start, end in progress.lost:
            self._settle_lost(start, end)
        if has_turned and progress.is_failed:
            self._storage.failed_stores.add(self.store)
            for waiter in tuple(self.waiting_confirms):
                waiter.refuse_confirms(self)
        elif has_turned:
            # The failed log kept back the recovery point until now.
            self.is_checkpoint_due = True
        if has_grown and self._subscriptions is not None:
            self._subscriptions.wake()
        if self.waiting_confirms:
            waiting, self.waiting_confirms = self.waiting_confirms, set()
            for waiter in waiting:
                waiter.release_confirms()
                if waiter.awaits_confirms:
                    self.waiting_confirms.add(waiter)
        if self._throttled_publishers is not None and not self.store.throttles_publishers:
            self._throttled_publishers.resume()

    @property
    def is_being_read(self) -> bool:
        """Whether the queue has a consumer whose client is not throttled by this queue itself."""
        if self._throttled_publishers is None:
            return len(self.consumers) > 0
        return self._throttled_publishers.has_unthrottled(self.consumers)

    @property
    def is_stalled(self) -> bool:
        """Whether messages wait for room; more should not be published now."""
        return self.store.is_stalled

    def throttle(self, client: Throttled) -> None:
        """Stop reading from a publisher until the store has room."""
        if self._throttled_publishers is None:
            self._throttled_publishers = ThrottledPublishers()
        self._throttled_publishers.throttle(client)

    def refuses(self, message: bytes, flags: int) -> bool:
        """Return whether the full queue refuses a message; with `-dlx` it also dead-letters it.

        Source: RabbitMQ 3.10, `rabbit_amqqueue_process:maybe_deliver_or_enqueue`.
        """
        if self.has_room_for([message]):
            return False
        self.count_refused(1)
        if self.settings.overflow is Overflow.REJECT_PUBLISH_DLX and self.has_dead_letters:
            # The dead letter passes through the log, so that it is as safe as any other.
            start = self.store.end_offset
            end = self.publish([message], flags)
            for taken in self.ready.take_range(start, end):
                self.drop(taken.start, taken.end, MAXLEN)
        return True

    @property
    def has_length_limit(self) -> bool:
        """Whether its ready messages are limited, in number or in octets."""
        return self.settings.max_length is not None or self.settings.max_length_bytes is not None

    def has_room_for(self, messages: Sequence[bytes]) -> bool:
        """Return whether a queue that `refuses_when_full` has room for all these messages now."""
        rules = self.rules
        if rules is None:
            return True
        wanted = len(messages), sum(map(body_bytes, messages))
        if rules.has_room_for(*wanted):
            return True
        # A publish cannot wait, but it needs no more room than its messages take.
        while not self.bring_up_to_date() and not self.is_at_work:
            if rules.has_room_for(*wanted):
                return True
        return rules.has_room_for(*wanted)

    def count_refused(self, count: int) -> None:
        """Count messages that the queue refused, whose publishers got a nack or an error."""
        self.publish_refused_count += count
        self.mark_changed()

    def count_and_log_refused(self, count: int) -> None:
        """Count messages that the queue refused because its log has failed, and log it."""
        self.count_refused(count)
        if self._refusal_log is None:
            self._refusal_log = RefusalLog()
        self._refusal_log.count(self.virtual_host.name, self.name, count)

    def withdraw(self, start: int, end: int) -> None:
        """Settle refused messages of `[start, end)` that no consumer has.

        Their publisher repeats them. A message that a consumer already has cannot be recalled: the
        consumer settles it, or it is requeued like any other.
        """
        if self.is_deleted:
            return
        for taken in self.ready.take_range(start, end):
            self.settle(taken.start, taken.end)

    def awaits(self, end_offset: int, flags: int) -> bool:
        """Return whether messages with these flags, below `end_offset`, are not safe yet.

        False for messages that would not survive a restart anyway: a confirm does not wait for
        them.
        """
        return bool(flags & PERSISTENT) and self.awaits_disk and self.confirmed_end < end_offset

    def _settle_lost(self, start: int, end: int) -> None:
        """Settle offsets whose records cannot be read, so that no consumer waits for them."""
        if self.forwarder is not None:
            self.forwarder.lose(start, end)
        for taken in self.ready.take_range(start, end):
            self.settle(taken.start, taken.end)
            logger.error(
                "records lost queue=%s vhost=%s from=%d to=%d",
                self.name,
                self.virtual_host.name,
                taken.start,
                taken.end,
            )

    def redeliveries(self, end: int) -> list[tuple[int, int, int]]:
        """Return redelivered runs below `end` as (start, end, count); some may be settled."""
        if self.delivery_counts is None:
            return []
        return self.delivery_counts.runs(self.settlement.ack_floor, end)

    async def drain(self) -> None:
        """Stop expiry and dead-lettering; return when dead letters already on their way arrived.

        The server is stopping. A message that is forwarded after the last checkpoint would be in
        two queues after the next start.
        """
        self.is_draining = True
        if self.forwarder is not None:
            self.forwarder.stop()
            await self.forwarder.until_settled()

    async def until_dead_letters_sent(self) -> None:
        """Return when no message of the deleted queue waits to become a dead letter."""
        if self.forwarder is not None:
            await self.forwarder.until_sent()

    def stop_forwarding(self) -> None:
        """Stop dead-lettering: the messages cannot be read any more."""
        if self.forwarder is not None:
            self.forwarder.stop()
            if self.is_deleted:
                # The two refer to each other: only the garbage collector would free them.
                self.forwarder = None

    def stop(self) -> None:
        """Stop the queue. Dead letters that are already on their way still arrive."""
        self.is_deleted = True
        self.is_gone = True
        for exchange in tuple(self._incoming_pairs or ()):
            self._forget_incoming(exchange)
        self._incoming = _FROM_NO_CLIENT
        pairs, self._delivery_pairs = self._delivery_pairs, None
        if pairs:
            # Channels that live on would keep the queue.
            name = f"counters of queue {self.name!r}"
            Job(self._turn, self._turn.upkeep, _forgotten(pairs), name).start()
        self._storage.changed_queues.end(self)
        wake(self._expiry_waiters)
        if self._subscriptions is not None:
            self._subscriptions.stop()
        self.loading.abandon()
        if self.expiry_timer is not None:
            self.expiry_timer.cancel()
            self.expiry_timer = None
        if self.rules is not None:
            self.rules.stop()
            self.rules = None
        # Remembered routes and unacked deliveries may keep the queue itself for a while.
        end = self.store.end_offset
        ready = self.ready
        self.ready, _ = queue_order(self.settings, MessageAttributes(self.settings, end), end)
        self.delivery_counts = None
        if ready.free_some():
            name = f"end of queue {self.name!r}"
            Job(self._turn, self._turn.upkeep, _freed(ready), name).start()

    def _mark_dirty(self) -> None:
        """Make the next checkpoint write what is settled and what was redelivered."""
        self.is_checkpoint_due = True
        self._on_changed(self)


def _forgotten(pairs: Iterable[DeliveryPair]) -> Iterator[None]:
    """Return the steps in which the channels forget the counters of a deleted queue."""
    for pair in pairs:
        pair.channel.forget(pair)
        yield


def _freed(ready: ReadyOrder) -> Iterator[None]:
    """Return the steps that free the ready messages of a deleted queue."""
    while ready.free_some():
        yield
