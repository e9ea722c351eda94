"""A channel: publishes in, deliveries out, and what is outstanding in both directions.

Publishes and acknowledgements arrive in runs and are handled a run at a time, publishes in
`publishing`. All other methods go to `connections/handlers`, one function each.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from itertools import chain
from operator import attrgetter
from struct import pack
from typing import TYPE_CHECKING, Final

from amqp_server.broker.consuming.delivery_timeouts import DeliveryTimeouts
from amqp_server.broker.consuming.delivery_times import MARK_SECONDS, DeliveryTimes
from amqp_server.broker.consuming.requeueing import STEP_MESSAGES, Requeueing
from amqp_server.broker.consuming.unacked import STEP_RUNS, UnackedRuns
from amqp_server.broker.counters.channel_counters import ChannelCounters
from amqp_server.broker.events.channel_events import report_channel_closed, report_consumer_deleted
from amqp_server.broker.firehose.traced_messages import traced_messages
from amqp_server.broker.job import Job
from amqp_server.broker.merged_ranges import merged
from amqp_server.broker.publishing.publish_answers import PublishAnswers
from amqp_server.broker.publishing.publishing import Publishing
from amqp_server.broker.queue import Queue
from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.broker.transfers.deaths import REJECTED
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.large_delivery import (
    LargeMessage,
    apart,
    content_of,
    deliveries_of,
)
from amqp_server.protocol.methods import BasicAck, BasicGetOk, method_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.direct_reply import ReplyConsumer
    from amqp_server.broker.consuming.source import Delivered, Source
    from amqp_server.broker.consuming.unacked import UnackedRun
    from amqp_server.broker.events.events import Events
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.transactions.transaction import Transaction
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.large_delivery import Octets
    from amqp_server.protocol.methods import Method


logger = logging.getLogger("amqp_server.broker.channel")

MANY_RUNS = 1024
"""Runs of unacked deliveries above which one acknowledgement is cut into parts."""
STEP_RANGES = 32
"""Most ranges of delivery tags that are settled in one step."""


_source_of: Final = attrgetter("source")


class Channel:
    """One open channel of one client.

    Args:
        number: Channel number, 1 to channel_max.
        client: Connection that the channel belongs to.
        virtual_host: Virtual host that the connection opened.
        broker: Broker of the whole server.
    """

    def __init__(
        self, number: int, client: Client, virtual_host: VirtualHost, broker: Broker
    ) -> None:
        self.number = number
        self.client = client
        self.virtual_host = virtual_host
        self.broker = broker
        self.consumers: dict[str, Consumer] = {}
        self.unacked = UnackedRuns()
        self.transaction: Transaction | None = None
        self.prefetch = 0
        self.prefetch_global = 0
        self.last_queue_name: str | None = None
        self.unused_queue_name = ""
        self.is_closed = False
        self.counters = ChannelCounters(
            client.name, number, virtual_host, broker.storage.counted_channels
        )
        self.publishing = Publishing(self, self._publish_answers())
        self.reply_consumer: ReplyConsumer | None = None
        self._delivered_tag = 0
        # Messages from basic.get that are not acknowledged.
        self._unacked_gets = 0
        self._woken_in_turn = -1
        self._pause_count = 0
        self._paused_in_turn = -1
        self._timeouts: DeliveryTimeouts | None = None
        self._times: DeliveryTimes | None = None
        self._timed_turn = -1
        self._next_mark_seconds = 0.0
        self._unacked_max = broker.config.limits.unacked_messages_per_channel_max
        # The channel gets no more deliveries than that.
        self._unacked_limit = self._unacked_max

    @property
    def events(self) -> Events:
        """Tells what happens to the channel."""
        return self.broker.events

    @property
    def is_deliverable(self) -> bool:
        """Whether deliveries may be sent now."""
        return self.client.is_writable and not self.is_closed and not self._pause_count

    def pause_deliveries(self) -> None:
        """Deliver nothing until `resume_deliveries`, while an operation goes on in steps.

        Otherwise recover would never end, and deliveries would come before the reply.
        """
        self._pause_count += 1
        self._paused_in_turn = self.broker.turn.number

    def resume_deliveries(self) -> None:
        """Deliver again."""
        self._pause_count -= 1
        if self._paused_in_turn != self.broker.turn.number:
            # Consumers had their turn during that time, and got nothing.
            self.wake_consumers()

    @property
    def credit(self) -> int:
        """Deliveries that the channel as a whole may send now, beside its unacked ones."""
        if self.is_closed or self._pause_count or not self.client.is_writable:
            return 0
        return max(self._unacked_limit - self.unacked.count, 0)

    def set_prefetch_global(self, count: int) -> None:
        """Limit the unacked deliveries of all consumers together; 0 = no limit."""
        self.prefetch_global = count
        self._limit_unacked()

    def _limit_unacked(self) -> None:
        """Apply the limits to the number of messages from basic.get."""
        limit = self._unacked_max
        if self.prefetch_global:
            # Messages from basic.get do not count for the prefetch limit, as in RabbitMQ.
            limit = min(self.prefetch_global + self._unacked_gets, limit)
        self._unacked_limit = limit

    def send(self, method: Method) -> None:
        """Send a method without content on this channel."""
        self.client.write(method_frame(self.number, method))

    def _publish_answers(self) -> PublishAnswers:
        """Return what tells the client what became of its publishes."""
        return PublishAnswers(self.number, self.client)

    def reply(self, method: Method) -> None:
        """Send a reply, after the replies to earlier methods on the same connection."""
        self.client.reply_in_order(partial(self._reply, method))

    def _reply(self, method: Method) -> None:
        if not self.is_closed:
            self.send(method)

    def deliver(
        self, consumer: Consumer, first_offset: int, messages: Delivered, *, redelivered: bool
    ) -> None:
        """Send messages with consecutive offsets to a consumer of this channel.

        If it raises an exception, it has changed nothing before.
        """
        count = len(messages)
        first_tag = self._delivered_tag + 1
        places = (self.number, consumer.tag_octets, first_tag, redelivered, self.client.frame_max)
        octets: Octets
        if isinstance(messages, list):
            octets = deliveries_of(messages, *places)
        else:
            octets = messages.encode(*places)
        self._delivered_tag += count
        source, counters = consumer.source, consumer.counters
        if redelivered:
            counters.redelivered += count
        if consumer.no_ack:
            counters.deliver_no_ack += count
            source.settle(first_offset, first_offset + count)
        else:
            counters.deliver += count
            consumer.unacked += count
            self.unacked.add(first_tag, count, source, first_offset, consumer)
            if self._timed_turn != self.broker.turn.number:
                self._record_time(first_tag)
            if consumer.timeout_ms:
                self._record_delivery(first_tag, consumer.timeout_ms)
        self.client.write(octets)
        if self.virtual_host.firehose is not None:
            steps = self.traces(consumer.queue.name, messages, redelivered=redelivered)
            turn = self.broker.turn
            Job(turn, self.client.task_queue, steps, "trace").start(turn.time_slice)

    def traces(self, queue_name: str, messages: Delivered, *, redelivered: bool) -> Iterator[None]:
        """Return the steps that tell the firehose of messages that were delivered, if it is on."""
        firehose = self.virtual_host.firehose
        if firehose is None:
            return iter(())
        copies = traced_messages(messages)
        return firehose.trace_deliveries(self, queue_name, copies, redelivered=redelivered)

    def deliver_replies(self, consumer_tag: bytes, messages: list[bytes]) -> None:
        """Send direct replies; the client does not acknowledge them."""
        for run in apart(messages):
            first_tag = self._delivered_tag + 1
            self._delivered_tag += len(run)
            places = (self.number, consumer_tag, first_tag, False, self.client.frame_max)
            self.client.write(deliveries_of(run, *places))

    def encode_get_ok(
        self, message: Messages | LargeMessage, *, redelivered: bool, left: int
    ) -> Octets:
        """Return the octets of a `basic.get-ok` with the next delivery tag.

        Args:
            message: One message.
            redelivered: Whether it was delivered before.
            left: Messages that stay ready in the queue.
        """
        head = BasicGetOk.identity + pack(">QB", self._delivered_tag + 1, redelivered)
        places = (self.number, head, pack(">I", left), self.client.frame_max)
        if isinstance(message, LargeMessage):
            return message.encode_content(*places)
        first = message[0] if isinstance(message, list) else messages_of(message)[0]
        return content_of(first, *places)

    def record_get(self, queue: Queue, offset: int, *, no_ack: bool, redelivered: bool) -> None:
        """Record one message taken with `basic.get`; it has the next delivery tag."""
        self._delivered_tag += 1
        if not queue.is_marked_changed:
            queue.mark_changed()
        counters = self.counters.deliveries_of(queue)
        if redelivered:
            counters.redelivered += 1
        if no_ack:
            counters.get_no_ack += 1
            queue.settle(offset, offset + 1)
        else:
            counters.get += 1
            self.unacked.add(self._delivered_tag, 1, queue, offset, None)
            self._unacked_gets += 1
            if self.prefetch_global:
                self._limit_unacked()
            if self._timed_turn != self.broker.turn.number:
                self._record_time(self._delivered_tag)

    def age_seconds(self, tag: int) -> float:
        """Return about how long ago a delivery that is not acknowledged went out."""
        if self._times is None:
            return 0.0
        return self._times.age_seconds(tag, self.broker.turn.clock.monotonic())

    def _record_time(self, first_tag: int) -> None:
        """Record when deliveries go out; called once in a turn, seldom more than a comparison."""
        turn = self.broker.turn
        self._timed_turn = turn.number
        now_seconds = turn.clock.monotonic()
        if now_seconds < self._next_mark_seconds:
            return
        self._next_mark_seconds = now_seconds + MARK_SECONDS
        if self._times is None:
            self._times = DeliveryTimes()
        oldest = self.unacked.first_tag
        self._times.record(first_tag, now_seconds, first_tag if oldest is None else oldest)

    def settle_ranges(self, ranges: list[int]) -> Iterator[None] | None:
        """Settle acknowledged tags: flat pairs first, last; first 0 means all up to last.

        Returns:
            The steps that are left, or None. Other clients are served between two steps.

        Raises:
            PreconditionFailed: A tag is not outstanding; the ones before it are settled.
        """
        if len(ranges) == 2:
            return self._settle_range(ranges[0], ranges[1])
        for at in range(0, len(ranges), 2):
            if at == 2 * STEP_RANGES:
                return self._settle_rest(ranges[at:])
            steps = self._settle_range(ranges[at], ranges[at + 1])
            if steps is not None:
                return chain(steps, self._settle_rest(ranges[at + 2 :]))
        return None

    def _settle_rest(self, ranges: list[int]) -> Iterator[None]:
        for at in range(0, len(ranges), 2):
            yield
            yield from self._settle_range(ranges[at], ranges[at + 1]) or ()

    def _settle_range(self, first_tag: int, last_tag: int) -> Iterator[None] | None:
        if self.unacked.count > MANY_RUNS and self.unacked.run_count > MANY_RUNS:
            if first_tag == 0:
                return self.resolve_up_to(Outcome.ACKNOWLEDGED, last_tag)
            if last_tag - first_tag >= MANY_RUNS:
                return self._settle_long_range(first_tag, last_tag)
        runs = self.take_unacked(first_tag, last_tag)
        if self.transaction is not None or len(runs) > STEP_RUNS:
            return self.resolve(Outcome.ACKNOWLEDGED, runs)
        self.settle(runs)
        return None

    def _settle_long_range(self, first_tag: int, last_tag: int) -> Iterator[None]:
        for tag in range(first_tag, last_tag + 1, MANY_RUNS):
            yield from self._settle_range(tag, min(tag + MANY_RUNS - 1, last_tag)) or ()
            yield

    def resolve_up_to(self, outcome: Outcome, last_tag: int | None) -> Iterator[None]:
        """Apply the client's outcome of all deliveries up to a tag, in steps, or defer it.

        Args:
            outcome: What happens to them.
            last_tag: Tag of the last of them; None: all deliveries.

        Raises:
            PreconditionFailed: The tag is not outstanding; nothing was done.
        """
        if last_tag is not None and not self.unacked.has(last_tag):
            raise PreconditionFailed(f"unknown delivery tag {last_tag}", *BasicAck.ids)
        parts = iter(partial(self.unacked.take_some, last_tag), [])
        if self.transaction is None:
            yield from self._apply_in_steps(outcome, parts)
            return
        for part in parts:
            self.transaction.defer(outcome, part)
            yield

    def take_unacked(self, first_tag: int, last_tag: int) -> list[UnackedRun]:
        """Remove and return deliveries; `first_tag` 0 means all up to `last_tag`.

        Raises:
            PreconditionFailed: A tag is not outstanding; the ones before it are settled.
        """
        if first_tag == 0:
            runs = self.unacked.take_up_to(last_tag)
            missing = last_tag if runs is None else None
        else:
            runs, missing = self.unacked.take_range(first_tag, last_tag)
        if missing is not None:
            deque(self.resolve(Outcome.ACKNOWLEDGED, runs or []) or (), maxlen=0)
            raise PreconditionFailed(f"unknown delivery tag {missing}", *BasicAck.ids)
        assert runs is not None, "there must be runs or a missing tag"
        return runs

    def resolve(self, outcome: Outcome, runs: list[UnackedRun]) -> Iterator[None] | None:
        """Apply the client's outcome of deliveries, or defer it until the commit.

        Returns:
            The steps that are left, or None.
        """
        if self.transaction is not None:
            self.transaction.defer(outcome, runs)
            return None
        if len(runs) > STEP_RUNS or (
            outcome is Outcome.REQUEUED and sum(run.count for run in runs) > STEP_MESSAGES
        ):
            return self._apply_in_steps(outcome, [runs])
        self.apply(outcome, runs)
        return None

    def requeue_unacked(self) -> Iterator[None]:
        """Requeue all unacked deliveries, in steps."""
        return self.requeue_in_steps(iter(self.unacked.take_some, []))

    def requeue_in_steps(self, parts: Iterable[list[UnackedRun]]) -> Iterator[None]:
        """Requeue deliveries that are not among `unacked` any more, in steps."""
        requeueing = Requeueing()
        failures: dict[Source, Exception] = {}
        # A consumer would get later messages before earlier ones.
        self.pause_deliveries()
        try:
            for part in parts:
                for at in range(0, len(part), STEP_RUNS):
                    runs = part[at : at + STEP_RUNS]
                    for source in requeueing.add(runs):
                        source.begin_work()
                    self._restore_credit(runs)
                    yield
            for source, ranges in requeueing.steps():
                try:
                    if not source.is_deleted and source not in failures:
                        source.requeue_all(ranges)
                except Exception as error:
                    # What was gathered for the others returns all the same.
                    logger.exception("requeue failed source=%r", source)
                    failures[source] = error
                yield
            for failure in failures.values():
                raise failure
        finally:
            self.resume_deliveries()
            for source in requeueing.sources:
                source.end_work()
            # Some may have waited for the channel's limit, and no single step has reached it.
            self.wake_consumers()

    def _apply_in_steps(
        self, outcome: Outcome, parts: Iterable[list[UnackedRun]]
    ) -> Iterator[None]:
        """Apply an outcome to some runs in each step."""
        if outcome is Outcome.REQUEUED:
            yield from self.requeue_in_steps(parts)
            return
        try:
            for part in parts:
                for at in range(0, len(part), STEP_RUNS):
                    self.apply(outcome, part[at : at + STEP_RUNS])
                    yield
        finally:
            # Some may have waited for the channel's limit, and no single step has reached it.
            self.wake_consumers()

    def apply(self, outcome: Outcome, runs: list[UnackedRun]) -> None:
        """Apply an outcome to deliveries."""
        match outcome:
            case Outcome.ACKNOWLEDGED:
                self.settle(runs)
            case Outcome.REJECTED:
                self.reject(runs)
            case Outcome.REQUEUED:
                self.requeue(runs)

    def requeue(self, runs: list[UnackedRun]) -> None:
        """Return unacked deliveries to their places in their queues."""
        self._restore_credit(runs)
        for source, ranges in _by_source(runs).items():
            if not source.is_deleted:
                source.requeue_all(merged(ranges))

    def settle(self, runs: list[UnackedRun]) -> None:
        """Settle deliveries that were acknowledged."""
        self._restore_credit(runs)
        if len(runs) == 1:
            (run,) = runs
            if not run.source.is_deleted:
                self._count_ack(run)
                run.source.settle(run.first_offset, run.first_offset + run.count)
            return
        for run in runs:
            if not run.source.is_deleted:
                self._count_ack(run)
        for source, ranges in _by_source(runs).items():
            if not source.is_deleted:
                for start, end in merged(ranges):
                    source.settle(start, end)

    def _count_ack(self, run: UnackedRun) -> None:
        if run.consumer is not None:
            counters = run.consumer.counters
        else:
            assert isinstance(run.source, Queue), "only queues have basic.get"
            counters = self.counters.deliveries_of(run.source)
        counters.ack += run.count
        if self.is_closed:
            # A commit, or the rest of an ack: the channel may have counted everything else.
            counters.fold()

    def reject(self, runs: list[UnackedRun]) -> None:
        """Drop or dead-letter deliveries that a consumer rejected."""
        self._restore_credit(runs)
        for run in runs:
            if not run.source.is_deleted:
                run.source.drop(run.first_offset, run.end_offset, REJECTED)

    def wake_consumers(self) -> None:
        """Wake the sources of all consumers, because there may be more credit or room."""
        # A channel may have thousands of consumers, and its client may ask for this thousands of
        # times in one turn.
        if self._woken_in_turn != self.broker.turn.number:
            self._woken_in_turn = self.broker.turn.number
            # Thousands of consumers may have the same source.
            for source in dict.fromkeys(map(_source_of, self.consumers.values())):
                source.wake()
        if self.reply_consumer is not None:
            self.reply_consumer.wake()

    def report_ended(self, consumer: Consumer) -> None:
        """Report that a consumer of this channel has ended."""
        report_consumer_deleted(self, consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """End a consumer; its unacked deliveries stay with the channel."""
        del self.consumers[consumer.tag]
        self.report_ended(consumer)
        if consumer.source.remove_consumer(consumer):
            assert isinstance(consumer.source, Queue), "only a queue is deleted with its consumers"
            self.broker.delete_unused(consumer.source)

    def remove_reply_consumer(self) -> None:
        """Stop the delivery of direct replies."""
        if self.reply_consumer is not None:
            self.virtual_host.replies.remove(self.reply_consumer)
            self.reply_consumer = None

    def close(self) -> Iterator[None]:
        """End the channel at once; requeue its messages and remove its consumers in steps.

        The caller takes all steps before the client gets the close, so that a quick reconnect finds
        its messages, and none of its old consumers.
        """
        self.end()
        return self.release()

    def end(self) -> None:
        """Send no delivery and no confirm from now on."""
        if self.is_closed:
            return
        # As in RabbitMQ, what is safe by now is confirmed before the channel closes.
        self.publishing.release_confirms()
        self.is_closed = self.counters.has_ended = True
        self.publishing.close()
        if self._timeouts is not None:
            self._timeouts.cancel()
            self._timeouts = None

    def release(self) -> Iterator[None]:
        """Return the steps that requeue all unacked messages and then remove all consumers."""
        yield from self.counters.end()
        if self.transaction is not None:
            yield from self.transaction.roll_back()
        yield from self.requeue_unacked()
        # The first one of a dict whose first ones were removed is a search.
        for consumer in list(self.consumers.values()):
            # Between two steps the deletion of a queue may have removed it.
            if self.consumers.get(consumer.tag) is consumer:
                self.remove_consumer(consumer)
                yield
        self.remove_reply_consumer()
        report_channel_closed(self)

    def roll_back(self, transaction: Transaction) -> Iterator[None]:
        """Roll a transaction of the channel back, in steps."""
        yield from transaction.roll_back()
        if self._timeouts is not None:
            self._timeouts.on_rollback()

    def _record_delivery(self, first_tag: int, timeout_ms: int) -> None:
        if self._timeouts is None:
            self._timeouts = DeliveryTimeouts(self, self.broker.turn)
        self._timeouts.record(first_tag, timeout_ms)

    def _restore_credit(self, runs: list[UnackedRun]) -> None:
        if len(runs) == 1 and self.unacked.count + runs[0].count < self._unacked_limit:
            # One run, and nobody waits for the limit of the channel: most of the time.
            (run,) = runs
            consumer = run.consumer
            if consumer is None:
                self._unacked_gets -= run.count
                if self.prefetch_global:
                    self._limit_unacked()
            else:
                consumer.unacked -= run.count
                if consumer.aside_of is not None:
                    consumer.aside_of.take_back(consumer)
                consumer.source.on_credit_restored()
            return
        counts: dict[Consumer, int] = {}
        gets = 0
        for run in runs:
            if run.consumer is None:
                gets += run.count
            else:
                # The consumer that was served last comes last.
                counts[run.consumer] = counts.pop(run.consumer, 0) + run.count
        was_full = self.unacked.count + gets + sum(counts.values()) >= self._unacked_limit
        if gets:
            self._unacked_gets -= gets
            if self.prefetch_global:
                self._limit_unacked()
        if was_full:
            # The channel's other consumers have waited too, and come first now. Otherwise the
            # consumer that acknowledges would be served again and again.
            self._move_to_end(counts)
            self.wake_consumers()
        for consumer, count in counts.items():
            consumer.unacked -= count
            if consumer.aside_of is not None:
                consumer.aside_of.take_back(consumer)
            # Not the run's source: a group may have moved to another position since.
            consumer.source.on_credit_restored()

    def _move_to_end(self, served: Iterable[Consumer]) -> None:
        for consumer in served:
            if self.consumers.get(consumer.tag) is consumer:
                del self.consumers[consumer.tag]
                self.consumers[consumer.tag] = consumer


def _by_source(runs: list[UnackedRun]) -> dict[Source, list[tuple[int, int]]]:
    """Return the ranges of offsets of some runs, by the source that they came from."""
    ranges: dict[Source, list[tuple[int, int]]] = {}
    for run in runs:
        ranges.setdefault(run.source, []).append((run.first_offset, run.end_offset))
    return ranges
