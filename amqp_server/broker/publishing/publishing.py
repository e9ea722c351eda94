"""The publishing half of a channel: messages come in, confirms and returns go out."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol
from weakref import ref

from amqp_server.access.permissions import Right
from amqp_server.broker.consuming.direct_reply import reply_keys_of
from amqp_server.broker.publishing.confirms import PublisherConfirms
from amqp_server.broker.publishing.enqueue import enqueue
from amqp_server.broker.publishing.guarded_targets import GuardedTargets
from amqp_server.broker.publishing.publish_batch import (
    BARRIERS_MAX,
    PublishBatch,
    barrier_count,
    barriers_in_steps,
    barriers_of,
    by_queue,
    by_queue_in_steps,
    count_incoming,
    may_refuse,
    parts_of,
    put_into,
)
from amqp_server.broker.publishing.publish_checks import (
    RequestingChannel,
    check_header_values,
    checked,
)
from amqp_server.broker.rights import when_answered
from amqp_server.broker.routing.carbon_copies import may_have_copies, take_copies
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.steps import result_of
from amqp_server.broker.transactions.transaction import DeferredPublish
from amqp_server.broker.transfers.large_body import with_body, without_large_body
from amqp_server.protocol.constants import ReplyCode
from amqp_server.protocol.errors import AccessRefused, AmqpError
from amqp_server.protocol.framing import CHECKED_PROPERTIES
from amqp_server.protocol.large_delivery import content_of
from amqp_server.protocol.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
)
from amqp_server.protocol.property_octets import HEADERS
from appendlog.layout.message import HAS_HEADERS, routing_key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.counters.channel_counters import ChannelCounters
    from amqp_server.broker.counters.publish_pair import PublishPair
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.publishing.confirms import Barrier, Share
    from amqp_server.broker.publishing.publish_batch import Group
    from amqp_server.broker.publishing.publish_targets import PublishTarget, PublishTargets
    from amqp_server.broker.publishing.target_queue import TargetQueue
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.transactions.pending_commits import PendingCommits
    from amqp_server.broker.transactions.transaction import Transaction
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.large_delivery import Octets
    from amqp_server.protocol.methods import Method

STEP_KEYS: Final = 16
"""Routing keys that are looked up in one step, if their routes are known."""
STEP_QUEUES: Final = 64
"""Most queues that get messages in one step."""
STEP_LOOKS: Final = 512
"""Messages that queues look at in one step, if they do: for a priority, a lifetime or a size."""


class PublishingBroker(Protocol):
    """The broker, as publishes see it."""

    @property
    def turn(self) -> Turn:
        """Turn of the event loop."""

    @property
    def config(self) -> ServerConfig:
        """Settings and limits."""

    @property
    def storage(self) -> QueueStorage:
        """Opens the logs of queues, and knows which queues are in a commit."""

    @property
    def commits(self) -> PendingCommits:
        """Carries out transactions, one at a time."""


class PublishingChannel(RequestingChannel, Protocol):
    """A channel, as its publishing half sees it."""

    @property
    def number(self) -> int:
        """Number of the channel in its connection."""

    @property
    def virtual_host(self) -> VirtualHost:
        """Virtual host that the connection opened."""

    @property
    def broker(self) -> PublishingBroker:
        """Broker of the whole server."""

    @property
    def counters(self) -> ChannelCounters:
        """Counters of the channel."""

    @property
    def transaction(self) -> Transaction | None:
        """Transaction that defers publishes; None unless the client selected them."""

    def send(self, method: Method) -> None:
        """Send a method without content on this channel."""

    def write(self, octets: Octets) -> None:
        """Send frames; those that are in pieces are not copied together."""


class Publishing:
    """The publishes of one channel, and their confirms and returns.

    Publishes that may take long are done in steps. Such a method returns an iterator: each step
    does a part of the work, and the caller takes all steps before the channel's next frame. Between
    two steps other clients are served, so a queue may disappear. None means that all is done.

    Args:
        channel: Channel that publishes.

    Attributes:
        confirms: Confirms of the channel; None until the client selects them.
        task_queue: Task queue of the client.
        is_refusing: Whether every publish is answered with `basic.nack`, if confirms are on.
    """

    def __init__(self, channel: PublishingChannel) -> None:
        self.confirms: PublisherConfirms | None = None
        self.is_refusing = False
        # The channel owns this object: a reference back would make both garbage in a cycle.
        self._channel_ref = ref(channel)
        self._virtual_host = channel.virtual_host
        self._counters = channel.counters
        # Of publishes to the exchange that was used last.
        self._pair: PublishPair | None = None
        self._client = channel.client
        self.task_queue = channel.client.task_queue
        self._broker = channel.broker
        self._rights = channel.client.rights
        self._rules = self._rights.rules
        self._generation = -1
        self._targets: PublishTargets | GuardedTargets = channel.virtual_host.publish_targets
        self._visits_max = channel.broker.config.limits.route_visits_max

    @property
    def _channel(self) -> PublishingChannel:
        channel = self._channel_ref()
        assert channel is not None, "only an open channel publishes and gets confirms"
        return channel

    def close(self) -> None:
        """Forget the publishes that are not confirmed yet."""
        self.confirms = None
        self._pair = None

    def select_confirms(self) -> Iterator[None]:
        """Confirm what is published from now on, that is after the last step."""
        if self.confirms is None:
            yield from self._counters.begin_confirms()
            if not self._counters.has_ended:
                self.confirms = PublisherConfirms()

    def publish_run(
        self, method_payload: bytes, messages: list[bytes], checked_flags: int, message_flags: int
    ) -> Iterator[None] | None:
        """Route and enqueue messages that share one publish frame.

        Args:
            method_payload: Payload of that frame.
            messages: Messages, in the order in which they were published.
            checked_flags: Flags of the properties to look at; see `framing.checked_flags_of`.
            message_flags: Flags octet that all of them have; `HAS_HEADERS` may differ.

        Returns:
            The steps that are left, or None.

        Raises:
            AmqpError: The exchange is missing or refuses them, and no message was enqueued; or one
                message is refused, and only those before it were enqueued.
        """
        if self.is_refusing and self.confirms is not None:
            self.confirms.add(len(messages), (), refused=True)
            self._broker.turn.mark(self)
            return None
        if self._generation != self._rules.generation:
            self._look_at_rights()
        target = self._targets.find_known(method_payload)
        if target is None:
            return self._publish_on_new_route(
                method_payload, messages, checked_flags, message_flags
            )
        return self._publish_to(target, messages, checked_flags, message_flags)

    def _publish_on_new_route(
        self, method_payload: bytes, messages: list[bytes], checked_flags: int, message_flags: int
    ) -> Iterator[None]:
        """Find a route, which may take long, and publish on it."""
        target = yield from self._targets.find_in_steps(method_payload, self._visits_max)
        yield from self._publish_to(target, messages, checked_flags, message_flags) or ()

    def _publish_to(
        self,
        target: PublishTarget,
        messages: list[bytes],
        checked_flags: int,
        message_flags: int,
    ) -> Iterator[None] | None:
        fault = None
        steps: Iterator[None] | None
        if checked_flags & CHECKED_PROPERTIES:
            messages, fault = checked(messages, checked_flags, self._channel)
        if target.routes_singly or checked_flags & HEADERS:
            steps = self._publish_singly(target, messages, message_flags)
        elif not messages:
            steps = None
        elif self._virtual_host.firehose is None:
            steps = self._enqueue(target, target.queues, target.reply_keys, messages, message_flags)
        else:
            way = target.queues, target.reply_keys
            steps = self._trace_and_enqueue(target, *way, messages, message_flags)
        if fault is None:
            return steps
        return _raise_after(steps or (), fault)

    def publish_batch(
        self,
        method_payloads: Sequence[bytes],
        messages: list[bytes],
        checked_flags: int,
        message_flags: int,
    ) -> Iterator[None] | None:
        """Route and take in neighbours that each have a publish frame of their own.

        In their order, as `publish_run` does each; what goes into the same queues goes together.

        Returns:
            The steps that are left, or None. A step raises AmqpError as `publish_run` does; the
            messages before that one were taken in.
        """
        if self._generation != self._rules.generation:
            self._look_at_rights()
        if self.is_refusing or self._channel.transaction is not None or checked_flags & HEADERS:
            pairs = zip(method_payloads, messages, strict=True)
            return self._publish_apart(pairs, checked_flags, message_flags)
        if not checked_flags:
            return self._publish_checked(method_payloads, messages, message_flags)
        good, fault = checked(messages, checked_flags, self._channel)
        steps = self._publish_checked(method_payloads[: len(good)], good, message_flags)
        if fault is None:
            return steps
        bad = slice(len(good), len(good) + 1)
        pairs = zip(method_payloads[bad], messages[bad], strict=True)
        return chain(steps or (), self._publish_apart(pairs, checked_flags, message_flags))

    def _publish_checked(
        self, method_payloads: Sequence[bytes], messages: list[bytes], message_flags: int
    ) -> Iterator[None] | None:
        """Route and take in neighbours whose properties are checked; see `publish_batch`."""
        pairs = zip(method_payloads, messages, strict=True)
        batch = PublishBatch(message_flags)
        recent, find_known = self._targets.recent(), self._targets.find_known
        searched = 0
        for payload, message in pairs:
            target = recent.get(payload)
            if target is None or target.routes_version != target.exchange.routes_version:
                target = find_known(payload)
                searched += 1
                if searched % STEP_KEYS == 0 and self._broker.turn.time_slice.is_over:
                    target = None
            if target is None or not target.is_plain:
                rest = chain(((payload, message),), pairs)
                return self._publish_mixed(batch, rest)
            batch.add(target, message)
        return self._enqueue_batch(batch, len(messages))

    def check_target(self, method_payload: bytes) -> None:
        """Check the arguments of a publish before its content arrives.

        Raises:
            AmqpError: The exchange is missing or refuses publishes, or an argument is invalid.
        """
        if self._generation != self._rules.generation:
            self._look_at_rights()
        self._targets.check(method_payload)

    def _recent_now(self) -> dict[bytes, PublishTarget]:
        """Return the targets that are allowed now: permissions may have changed between steps."""
        if self._generation != self._rules.generation:
            self._look_at_rights()
        return self._targets.recent()

    def _look_at_rights(self) -> None:
        """Choose the targets again, because permissions have changed."""
        self._generation = self._rules.generation
        targets = self._virtual_host.publish_targets
        may_publish_all = self._rights.grants.may_publish_all
        self._targets = (
            targets if may_publish_all else GuardedTargets(targets, self._rights, self._client)
        )

    def throttle_if_full(self, queues: Iterable[Queue]) -> None:
        """Stop reading from the client while one of the queues has no room."""
        for queue in queues:
            if queue.store.throttles_publishers:
                queue.throttle(self._client)

    def release_confirms(self) -> None:
        """Confirm or refuse every publish whose result became known since the last call."""
        if self.confirms is None:
            return
        resolved = self.confirms.resolved_tag
        for result in self.confirms.release():
            multiple = result.last_tag > resolved + 1
            resolved = result.last_tag
            if result.refused:
                self._channel.send(
                    BasicNack(delivery_tag=result.last_tag, multiple=multiple, requeue=False)
                )
            else:
                self._channel.send(BasicAck(delivery_tag=result.last_tag, multiple=multiple))

    def refuse_confirms(self, queue: TargetQueue) -> None:
        """Refuse the publishes that are not safe in a queue whose log has failed."""
        if self.confirms is not None:
            self.confirms.refuse(queue)

    @property
    def awaits_confirms(self) -> bool:
        """Whether publishes of this channel still wait for their confirm."""
        return self.confirms is not None and len(self.confirms) > 0

    def run_turn(self) -> None:
        """Confirm the publishes that had no barriers to wait for."""
        self.release_confirms()

    def _publish_apart(
        self, pairs: Iterable[tuple[bytes, bytes]], checked_flags: int, message_flags: int
    ) -> Iterator[None]:
        """Publish messages with frames of their own one after the other."""
        for payload, message in pairs:
            yield from self.publish_run(payload, [message], checked_flags, message_flags) or ()
            yield

    def _publish_mixed(
        self, batch: PublishBatch, pairs: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[None]:
        """Publish messages with frames of their own, some of which need more than their queues.

        Args:
            batch: Messages before them, which are not in their queues yet.
            pairs: Publish frames and messages whose properties are checked.
        """
        recent = self._targets.recent()
        try:
            for payload, message in pairs:
                target = recent.get(payload)
                if target is None or target.routes_version != target.exchange.routes_version:
                    target = self._targets.find_known(payload) or (
                        yield from self._targets.find_in_steps(payload, self._visits_max)
                    )
                    # Finding a route may take long.
                    yield
                    recent = self._recent_now()
                if target.is_plain:
                    batch.add(target, message)
                else:
                    yield from self._enqueue_batch(batch) or ()
                    yield from self.publish_run(payload, [message], 0, batch.flags) or ()
                    recent = self._recent_now()
        finally:
            yield from self._enqueue_batch(batch) or ()

    def _publish_singly(
        self, target: PublishTarget, messages: list[bytes], flags: int
    ) -> Iterator[None]:
        """Publish messages that may have different routes; consecutive ones with one together.

        Raises:
            AmqpError: A message cannot be routed; those before it were enqueued.
        """
        run: list[bytes] = []
        way: tuple[Sequence[Queue], tuple[str, ...]] = (), ()
        try:
            for message in messages:
                queues, reply_keys, stored = yield from self._way_of(target, message)
                if run and (queues, reply_keys) != way:
                    # Not twice, also if a queue of ours fails to take it.
                    whole, run = run, []
                    yield from self._trace_and_enqueue(target, *way, whole, flags)
                way = queues, reply_keys
                run.append(stored)
                yield
        finally:
            if run:
                yield from self._trace_and_enqueue(target, *way, run, flags)

    def _way_of(
        self, target: PublishTarget, message: bytes
    ) -> Steps[tuple[Sequence[Queue], tuple[str, ...], bytes]]:
        """Return a message's queues and reply keys, and the form in which the queues store it."""
        copies: tuple[str, ...] = ()
        front = taken = message
        body: memoryview | None = None
        if message[0] & HAS_HEADERS:
            limits = self._broker.config.limits
            has_copies = may_have_copies(message)
            if has_copies or target.routes_singly:
                check_header_values(message, limits.header_values_max)
            if has_copies:
                front, body = without_large_body(message)
                copies, taken = take_copies(front, limits.copies_max)
        for key in copies:
            try:
                require = partial(self._rights.require_topic, Right.WRITE, target.exchange, key)
                yield from when_answered(self._client, require)
            except AccessRefused as error:
                raise error.with_method(*BasicPublish.ids) from None
            if self._broker.turn.time_slice.is_over:
                yield
        # First the queues, then the copy: the exchange may be deleted while a large body is copied.
        if copies or target.routes_singly:
            keys = (routing_key_of(message).decode("utf-8", "surrogateescape"), *copies)
            envelope = Envelope(keys, taken, self._visits_max)
            routing = self._virtual_host.routing
            queues: Sequence[Queue] = yield from routing.route_in_steps(target.exchange, envelope)
            reply_keys = reply_keys_of(target.exchange, keys)
            if copies and queues == (self._virtual_host.delay_queues.get(target.exchange),):
                # The delay queue stores the message unchanged; `BCC` is removed after the delay.
                taken = front
        else:
            queues, reply_keys = target.queues, target.reply_keys
        if taken is front:
            return queues, reply_keys, message
        stored = taken if body is None else (yield from with_body(taken, body))
        return queues, reply_keys, stored

    def _trace_and_enqueue(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        flags: int,
    ) -> Iterator[None]:
        """Tell the firehose of messages, if it is on; then put them into their queues."""
        if (firehose := self._virtual_host.firehose) is not None:
            yield from firehose.trace_publishes(self._channel, queues, messages)
        yield from self._enqueue(target, queues, reply_keys, messages, flags) or ()

    def _enqueue(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        flags: int,
    ) -> Iterator[None] | None:
        """Put messages into their queues; return the steps left, or None."""
        if self._channel.transaction is not None:
            deferred = DeferredPublish(target, queues, reply_keys, messages, flags)
            self._channel.transaction.publish(deferred)
            return None
        if self._broker.storage.queues_in_commit and any(queue.is_in_commit for queue in queues):
            return self._enqueue_later(target, queues, reply_keys, messages, flags)
        if len(messages) > 1 and any(queue.refuses_when_full for queue in queues):
            return self._enqueue_apart(target, queues, reply_keys, messages, flags)
        if len(messages) > 1 and len(messages) * len(queues) > STEP_LOOKS and _look_at(queues):
            return self._enqueue_in_parts(target, queues, reply_keys, messages, flags)
        if len(queues) > STEP_QUEUES:
            return self._enqueue_in_steps(target, queues, reply_keys, messages, flags)
        barriers, refusing = enqueue(queues, messages, flags, target.exchange)
        self.throttle_if_full(queues)
        self._record_enqueued(
            target, queues, reply_keys, messages, barriers, is_refused=bool(refusing)
        )
        return None

    def _enqueue_later(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        flags: int,
    ) -> Iterator[None]:
        """Put messages into queues of which some are in a commit, when it has ended."""
        yield from self._broker.commits.until_released(self._client, queues)
        yield from self._enqueue(target, queues, reply_keys, messages, flags) or ()

    def _enqueue_apart(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        flags: int,
    ) -> Iterator[None]:
        """Put messages one by one into queues, of which some may refuse some of them."""
        for message in messages:
            yield from self._enqueue(target, queues, reply_keys, [message], flags) or ()
            yield

    def _enqueue_in_parts(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        flags: int,
    ) -> Iterator[None]:
        """Put some of the messages at a time into queues that look at each of them."""
        for at in range(0, len(messages), STEP_LOOKS):
            part = messages[at : at + STEP_LOOKS]
            yield from self._enqueue_in_steps(target, queues, reply_keys, part, flags)

    def _enqueue_in_steps(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        flags: int,
    ) -> Iterator[None]:
        """Put messages into many queues, one in each step."""
        barriers: list[Barrier] = []
        is_refused = False
        for queue in queues:
            if queue.is_in_commit:
                yield from self._broker.commits.until_released(self._client, (queue,))
            awaited, refusing = enqueue((queue,), messages, flags, target.exchange)
            barriers += awaited
            is_refused |= bool(refusing)
            self.throttle_if_full((queue,))
            yield
        self._record_enqueued(target, queues, reply_keys, messages, barriers, is_refused=is_refused)
        self._apply_progress_between({barrier.queue for barrier in barriers})

    def _record_enqueued(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        reply_keys: tuple[str, ...],
        messages: list[bytes],
        barriers: list[Barrier],
        *,
        is_refused: bool,
    ) -> None:
        """Return messages that are in no queue, or wait until the others are safe."""
        if (watch := self._virtual_host.publish_watch) is not None:
            watch(queues, messages)
        replied = reply_keys and self._virtual_host.replies.deliver(reply_keys, messages)
        pair = self._pair
        if pair is None or pair.exchange is not target.exchange:
            pair = self._pair = self._counters.publishes_to(target.exchange)
        pair.publish += len(messages)
        if not (queues or replied):
            self._count_lost(target, len(messages))
            if target.mandatory:
                self.basic_return(messages)
        if self.confirms is not None:
            self._await_barriers(len(messages), barriers, refused=is_refused)

    def count(self, target: PublishTarget, count: int) -> None:
        """Count messages that were published, and that a queue or a consumer of replies got."""
        pair = self._pair
        if pair is None or pair.exchange is not target.exchange:
            pair = self._pair = self._counters.publishes_to(target.exchange)
        pair.publish += count

    def count_unroutable(self, target: PublishTarget, count: int) -> None:
        """Count messages that were published and went nowhere."""
        self.count(target, count)
        self._count_lost(target, count)

    def _count_lost(self, target: PublishTarget, count: int) -> None:
        assert self._pair is not None, "they are counted as published before"
        if target.mandatory:
            self._pair.return_unroutable += count
        else:
            self._pair.drop_unroutable += count

    def _count_batch(self, groups: Sequence[Group], count: int, *, has_unroutable: bool) -> None:
        """Count messages that were published to one exchange."""
        self.count(groups[0][0], count)
        if has_unroutable:
            for target, messages in groups:
                if not target.queues:
                    self._count_lost(target, len(messages))

    def _count_shares(self, groups: Sequence[Group]) -> list[Share]:
        """Count messages that were published to several exchanges; return how many to each."""
        shares: list[Share] = []
        for target, messages in groups:
            if target.queues:
                self.count(target, len(messages))
            else:
                self.count_unroutable(target, len(messages))
            assert self._pair is not None, "it has counted them"
            shares.append((self._pair, len(messages)))
        return shares

    def _apply_progress_between(self, queues: Iterable[TargetQueue]) -> None:
        """Apply what the disk reported between the steps of a publish, before it was recorded."""
        for queue in queues:
            if queue.is_failed:
                self.refuse_confirms(queue)
        self._broker.turn.mark(self)

    def _await_barriers(
        self,
        count: int,
        barriers: Sequence[Barrier],
        *,
        refused: bool = False,
        shares: Sequence[Share] = (),
    ) -> None:
        assert self.confirms is not None, "only a channel with confirms waits for barriers"
        self.confirms.add(count, barriers, refused=refused, counters=self._pair, shares=shares)
        for barrier in barriers:
            barrier.queue.waiting_confirms.add(self)
        if not barriers:
            self._broker.turn.mark(self)

    def _await_batch(
        self,
        groups: Sequence[Group],
        count: int,
        barriers: Sequence[Barrier],
        refusing: Sequence[Queue],
        shares: Sequence[Share],
    ) -> None:
        """Wait for the barriers of neighbours, which may be taken apart if a log fails."""
        if not barriers and not refusing:
            self._await_barriers(count, (), shares=shares)
            return
        assert self.confirms is not None, "only a channel with confirms waits for barriers"
        self.confirms.add_batch(parts_of(groups), barriers, refusing, self._pair, shares)
        for barrier in barriers:
            barrier.queue.waiting_confirms.add(self)
        if refusing:
            self._broker.turn.mark(self)

    def _enqueue_batch(self, batch: PublishBatch, count: int = 0) -> Iterator[None] | None:
        """Put neighbours into their queues, leave the batch empty; return the steps left, or None.

        Args:
            batch: The neighbours.
            count: How many there are; 0: they are still to be counted.
        """
        # The queues count what they take of one exchange. Of several, it is counted afterwards.
        exchange = None if batch.has_more_exchanges else batch.exchange
        has_unroutable = batch.has_unroutable
        groups = batch.take()
        if not groups:
            return None
        if self._virtual_host.firehose is not None:
            return self._trace_and_enqueue_groups(groups, batch.flags)
        if len(groups) == 1:
            ((target, messages),) = groups
            return self._enqueue(target, target.queues, (), messages, batch.flags)
        if self._virtual_host.publish_watch is not None:
            return self._enqueue_groups_apart(groups, batch.flags)
        if barrier_count(groups) > BARRIERS_MAX:
            return self._enqueue_groups_in_steps(groups, batch.flags)
        queued: dict[Queue, list[bytes]] = {}
        by_queue(groups, queued)
        if len(queued) > STEP_QUEUES or (
            sum(map(len, queued.values())) > STEP_LOOKS and _look_at(queued)
        ):
            return self._enqueue_groups_in_steps(groups, batch.flags)
        if may_refuse(queued):
            return self._enqueue_groups_apart(groups, batch.flags)
        if self._broker.storage.queues_in_commit and any(queue.is_in_commit for queue in queued):
            return self._enqueue_groups_in_steps(groups, batch.flags)
        starts: dict[Queue, int] = {}
        for queue, messages in queued.items():
            put_into(queue, messages, batch.flags, starts, exchange)
        self.throttle_if_full(starts)
        count = count or sum(len(messages) for _, messages in groups)
        shares: Sequence[Share] = ()
        if exchange is not None:
            self._count_batch(groups, count, has_unroutable=has_unroutable)
        else:
            shares = self._count_shares(groups)
            result_of(count_incoming(groups))
        if self.confirms is not None:
            barriers, refusing = barriers_of(queued, starts, batch.flags)
            self._await_batch(groups, count, barriers, refusing, shares)
        return None

    def _trace_and_enqueue_groups(self, groups: Sequence[Group], flags: int) -> Iterator[None]:
        """Do the same for each group as `_trace_and_enqueue`."""
        for target, messages in groups:
            yield from self._trace_and_enqueue(target, target.queues, (), messages, flags)

    def _enqueue_groups_apart(self, groups: Sequence[Group], flags: int) -> Iterator[None]:
        """Put the messages of each group into its queues, of which some may refuse them."""
        for target, messages in groups:
            yield from self._enqueue(target, target.queues, (), messages, flags) or ()
            yield

    def _enqueue_groups_in_steps(self, groups: Sequence[Group], flags: int) -> Iterator[None]:
        """Put the messages of all groups into many queues, one queue in each step."""
        queued: dict[Queue, list[bytes]] = {}
        yield from by_queue_in_steps(groups, queued)
        if may_refuse(queued):
            yield from self._enqueue_groups_apart(groups, flags)
            return
        exchange: Exchange | None = groups[0][0].exchange
        if any(target.exchange is not exchange for target, _ in groups):
            exchange = None
        starts: dict[Queue, int] = {}
        for queue, messages in queued.items():
            if queue.is_in_commit:
                yield from self._broker.commits.until_released(self._client, (queue,))
            put_into(queue, messages, flags, starts, exchange)
            self.throttle_if_full((queue,))
            yield
        count = sum(len(messages) for _, messages in groups)
        shares: Sequence[Share] = ()
        if exchange is not None:
            self._count_batch(groups, count, has_unroutable=True)
        else:
            shares = self._count_shares(groups)
            yield from count_incoming(groups)
        if self.confirms is None:
            return
        barriers, refusing = yield from barriers_in_steps(queued, starts, flags)
        if barrier_count(groups) > BARRIERS_MAX:
            self._await_barriers(count, barriers, refused=bool(refusing), shares=shares)
        else:
            self._await_batch(groups, count, barriers, refusing, shares)
        self._apply_progress_between(starts)

    def basic_return(self, messages: list[bytes]) -> None:
        """Return mandatory messages that no queue takes."""
        text = b"NO_ROUTE"
        head = (
            BasicReturn.identity + ReplyCode.NO_ROUTE.to_bytes(2, "big") + bytes([len(text)]) + text
        )
        for message in messages:
            self._channel.write(
                content_of(message, self._channel.number, head, b"", self._client.frame_max)
            )


def _look_at(queues: Iterable[Queue]) -> bool:
    """Return whether one of the queues looks at each message that it gets."""
    return any(queue.rules is not None for queue in queues)


def _raise_after(steps: Iterable[None], error: AmqpError) -> Iterator[None]:
    """Take all steps, then raise the error of the message behind them."""
    yield from steps
    try:
        raise error
    finally:
        # The error refers to this call, and the call would refer to the error: to nothing that may
        # be as large as the messages, and freed by a full garbage collection only.
        del error
