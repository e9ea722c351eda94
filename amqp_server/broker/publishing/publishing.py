"""The publishing half of a channel: messages come in, confirms and returns go out."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.publishing.confirms import PublisherConfirms
from amqp_server.broker.publishing.enqueue import enqueue_each
from amqp_server.broker.publishing.guarded_targets import GuardedTargets
from amqp_server.broker.publishing.message_targets import MessageTargets
from amqp_server.broker.publishing.publish_batch import (
    PublishBatch,
    by_queue,
    common_exchange,
    count_incoming,
    look_at_each,
    may_refuse,
    message_count,
    parts_of,
    pieces_of,
)
from amqp_server.broker.publishing.publish_checks import RequestingChannel, checked
from amqp_server.broker.transactions.transaction import DeferredPublish
from amqp_server.protocol.property_octets import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.counters.channel_counters import ChannelCounters
    from amqp_server.broker.counters.publish_pair import PublishPair
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.publishing.confirms import Barrier, Share
    from amqp_server.broker.publishing.publish_answers import PublishAnswers
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
    from amqp_server.protocol.errors import AmqpError

STEP_KEYS: Final = 16
"""Routing keys that are looked up in one step, if their routes are known."""
STEP_QUEUES = 64
"""Most queues that get messages in one step."""
STEP_LOOKS = 512
"""Messages that queues look at in one step, if they do: for a priority, a lifetime or a size."""
BARRIERS_MAX: Final = 2048
"""Most barriers of a batch that may be taken apart; one group has as many as queues."""
_DONE: Final = object()


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


class Publishing:
    """The publishes of one channel, and their confirms and returns.

    A target is found for each message, and neighbours that go the same way become a group
    (`publish_batch`). The groups are put into their queues. Then they are counted, and returned or
    confirmed.

    All of it is done in steps: each does a part of the work, and the caller takes all steps before
    the channel's next frame. Between two steps other clients are served, so a queue may disappear.
    A short publish takes one step, at once: then a method returns None, not the steps left.

    The channel passes itself to each publish: a reference back would make both garbage in a cycle.

    Args:
        channel: Channel that publishes.
        answers: Tells the client what became of its publishes.

    Attributes:
        confirms: Confirms of the channel; None until the client selects them.
        task_queue: Task queue of the client.
        is_refusing: Whether every publish is answered with `basic.nack`, if confirms are on.
    """

    def __init__(self, channel: PublishingChannel, answers: PublishAnswers) -> None:
        self.confirms: PublisherConfirms | None = None
        self.is_refusing = False
        self._answers = answers
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
        self._message_targets = MessageTargets(channel.virtual_host, channel.broker, channel.client)

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
        self,
        channel: PublishingChannel,
        method_payload: bytes,
        messages: list[bytes],
        checked_flags: int,
        message_flags: int,
    ) -> Iterator[None] | None:
        """Route and enqueue messages that share one publish frame.

        Args:
            channel: The channel.
            method_payload: Payload of that frame.
            messages: Messages, in the order in which they were published.
            checked_flags: Flags of the properties to look at; see `framing.checked_flags_of`.
            message_flags: Flags octet that all of them have; `HAS_HEADERS` may differ.

        Returns:
            The steps that are left, or None.

        Raises:
            AmqpError: The exchange is missing or refuses them, and no message was enqueued; or one
                message is refused, and only those before it were enqueued. A step raises it, too.
        """
        if self.is_refusing and self.confirms is not None:
            self._refuse(len(messages))
            return None
        if self._generation != self._rules.generation:
            self._look_at_rights()
        fault, singly = None, False
        if checked_flags:
            singly = bool(checked_flags & HEADERS)
            messages, fault = checked(messages, checked_flags, channel)
        target = self._targets.find_known(method_payload)
        if (
            target is None
            or target.routes_singly
            or singly
            or fault is not None
            or self._virtual_host.firehose is not None
        ):
            pairs = zip(repeat(method_payload), messages, strict=False)
            steps = self._route(channel, pairs, message_flags, singly=singly)
            return steps if fault is None else chain(steps, self._raise(method_payload, fault))
        if not target.queues and channel.transaction is None:
            # A direct reply, or nobody takes them: nothing is put anywhere.
            self._record(((target, messages),), [], [], target.exchange)
            return None
        steps = self._put(channel, ((target, messages),), message_flags)
        return None if next(steps, _DONE) is _DONE else chain((None,), steps)

    def publish_batch(
        self,
        channel: PublishingChannel,
        method_payloads: Sequence[bytes],
        messages: list[bytes],
        checked_flags: int,
        message_flags: int,
    ) -> Iterator[None] | None:
        """Route and enqueue neighbours that each have a publish frame of their own.

        In their order, as `publish_run` does each; what goes into the same queues goes together.

        Returns:
            The steps that are left, or None. A step raises AmqpError as `publish_run` does; the
            messages before that one were enqueued.
        """
        if self.is_refusing and self.confirms is not None:
            self._refuse(len(messages))
            return None
        if self._generation != self._rules.generation:
            self._look_at_rights()
        fault, singly = None, False
        if checked_flags:
            singly = bool(checked_flags & HEADERS)
            messages, fault = checked(messages, checked_flags, channel)
        pairs = zip(method_payloads, messages, strict=fault is None)
        steps = self._route(channel, pairs, message_flags, singly=singly)
        if fault is not None:
            return chain(steps, self._raise(method_payloads[len(messages)], fault))
        if singly or self._asks_for_rights:
            # It may have to wait until a permission is known.
            return steps
        return None if next(steps, _DONE) is _DONE else chain((None,), steps)

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

    def _known_now(self, method_payload: bytes) -> PublishTarget | None:
        """Return the target of a frame if it is known to be allowed now."""
        if self._generation != self._rules.generation:
            self._look_at_rights()
        return self._targets.find_known(method_payload)

    def _look_at_rights(self) -> None:
        """Choose the targets again, because permissions have changed."""
        self._generation = self._rules.generation
        targets = self._virtual_host.publish_targets
        may_publish_all = self._rights.grants.may_publish_all
        self._targets = (
            targets if may_publish_all else GuardedTargets(targets, self._rights, self._client)
        )

    @property
    def _asks_for_rights(self) -> bool:
        """Whether the user may not publish everything: permissions are asked for."""
        return self._targets is not self._virtual_host.publish_targets

    def _refuse(self, count: int) -> None:
        """Refuse publishes without a look at them."""
        assert self.confirms is not None, "only they are refused"
        self.confirms.add(count, (), refused=True)
        self._broker.turn.mark(self)

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
        for tag, refused in self.confirms.release():
            multiple = tag > resolved + 1
            resolved = tag
            if refused:
                self._answers.refuse(tag, multiple=multiple)
            else:
                self._answers.confirm(tag, multiple=multiple)

    def refuse_confirms(self, queue: TargetQueue) -> None:
        """Refuse the publishes that are not safe in a queue whose log has failed."""
        if self.confirms is not None:
            self.confirms.refuse(queue)

    @property
    def awaits_confirms(self) -> bool:
        """Whether publishes of this channel still wait for their confirm."""
        return self.confirms is not None and bool(self.confirms.waiting)

    def run_turn(self) -> None:
        """Confirm the publishes that had no barriers to wait for."""
        self.release_confirms()

    # The target of each message

    def _route(
        self,
        channel: PublishingChannel,
        pairs: Iterator[tuple[bytes, bytes]],
        flags: int,
        *,
        singly: bool,
    ) -> Iterator[None]:
        """Find where messages go, then put them there.

        Args:
            channel: The channel.
            pairs: Payloads of publish frames, each with a message; a run has one payload.
            flags: Flags octet that all messages have; `HAS_HEADERS` may differ.
            singly: Whether each message may go to more than the target of its frame.

        Raises:
            AmqpError: A message cannot be routed; those before it were enqueued.
        """
        batch = PublishBatch()
        is_deferred = channel.transaction is not None
        looks_ahead = not (singly or is_deferred)
        recent = self._recent_now() if looks_ahead else {}
        run, target, is_single = b"", None, False
        searched = 0
        try:
            while (pair := batch.add_known(pairs, recent)) is not None:
                payload, message = pair
                if target is None or payload is not run:
                    if is_single:
                        # It goes in no later than if it had come alone.
                        yield from self._trace_and_put(channel, batch.take(), flags)
                    if searched >= STEP_KEYS and self._broker.turn.time_slice.is_over:
                        searched = 0
                        yield
                    if is_deferred:
                        # A commit publishes each run in a step of its own.
                        batch.end_group()
                    run, target = payload, self._known_now(payload)
                    # Finding a route may take as long as many that are known.
                    searched += 1 if target is not None else STEP_KEYS
                    if target is None:
                        target = yield from self._targets.find_in_steps(payload, self._visits_max)
                    is_single = singly or target.routes_singly
                if is_single:
                    batch.add(*(yield from self._message_targets.find(target, message)))
                    if self._asks_for_rights or self._broker.turn.time_slice.is_over:
                        # The next one may have to wait until a permission is known.
                        yield from self._trace_and_put(channel, batch.take(), flags)
                    yield
                else:
                    batch.add(target, message)
                    if not target.is_plain:
                        # What is returned is confirmed before what comes next is returned.
                        yield from self._trace_and_put(channel, batch.take(), flags)
                        yield
                if looks_ahead:
                    recent = self._recent_now()
        finally:
            yield from self._trace_and_put(channel, batch.take(), flags)

    def _raise(self, method_payload: bytes, fault: AmqpError | None) -> Iterator[None]:
        """Raise what is wrong with a message, if nothing is wrong with its publish frame."""
        if self._known_now(method_payload) is None:
            yield from self._targets.find_in_steps(method_payload, self._visits_max)
        assert fault is not None, "it is raised once"
        try:
            raise fault
        finally:
            # The error refers to this call, and the call would refer to the error: to nothing that
            # may be as large as the messages, and freed by a full garbage collection only.
            fault = None

    # Into the queues

    def _trace_and_put(
        self, channel: PublishingChannel, groups: Sequence[Group], flags: int
    ) -> Iterator[None]:
        """Tell the firehose, if it is on, of the messages of each group before its turn."""
        if not groups:
            return
        if self._virtual_host.firehose is None:
            yield from self._put(channel, groups, flags)
            return
        for group in groups:
            if (firehose := self._virtual_host.firehose) is not None:
                target, messages = group
                yield from firehose.trace_publishes(channel, target.queues, messages)
            yield from self._put(channel, [group], flags)

    def _put(
        self, channel: PublishingChannel, groups: Sequence[Group], flags: int
    ) -> Iterator[None]:
        """Put messages into their queues, and record them; or defer them until `tx.commit`.

        All queues in one step, or one in each if that may take long.

        Args:
            channel: The channel.
            groups: The messages, at least one; those for one queue go in together.
            flags: Flags octet that all of them have; `HAS_HEADERS` may differ.
        """
        if channel.transaction is not None:
            for target, messages in groups:
                way = target.queues, target.reply_keys
                channel.transaction.publish(DeferredPublish(target, *way, messages, flags))
            return
        exchange: Exchange | None
        if len(groups) == 1:
            ((target, messages),) = groups
            exchange = target.exchange
            queued = dict.fromkeys(target.queues, messages)
            is_alone = len(messages) == 1
        else:
            exchange = common_exchange(groups)
            queued = yield from by_queue(groups)
            is_alone = False
        in_commit = self._broker.storage.queues_in_commit
        if in_commit and any(queue.is_in_commit for queue in queued):
            # The caller takes the first step before it is ready to wait.
            yield
            yield from self._broker.commits.until_released(self._client, queued)
        is_long = not is_alone and _takes_long(queued)
        if not is_alone and (
            may_refuse(queued, has_groups=len(groups) > 1)
            or (is_long and message_count(groups) > STEP_LOOKS)
        ):
            for piece in pieces_of(groups, STEP_LOOKS):
                yield from self._put(channel, piece, flags)
                yield
            return
        if is_long or len(queued) > STEP_QUEUES:
            barriers, refusing = yield from self._put_in_steps(queued, flags, exchange)
            self._record(groups, barriers, refusing, exchange)
            self._apply_progress_between({barrier.queue for barrier in barriers})
        else:
            barriers, refusing = enqueue_each(queued.items(), flags, exchange, self._client)
            self._record(groups, barriers, refusing, exchange)
        if exchange is None:
            yield from count_incoming(groups)

    def _put_in_steps(
        self, queued: Mapping[Queue, list[bytes]], flags: int, exchange: Exchange | None
    ) -> Steps[tuple[list[Barrier], list[TargetQueue]]]:
        """Put messages into many queues, one in each step; see `enqueue_each`."""
        barriers: list[Barrier] = []
        refusing: list[TargetQueue] = []
        for item in queued.items():
            if item[0].is_in_commit:
                yield from self._broker.commits.until_released(self._client, item[:1])
            awaited, refused = enqueue_each((item,), flags, exchange, self._client)
            barriers += awaited
            refusing += refused
            yield
        return barriers, refusing

    def _record(
        self,
        groups: Sequence[Group],
        barriers: list[Barrier],
        refusing: list[TargetQueue],
        exchange: Exchange | None,
    ) -> None:
        """Count messages, return those that are in no queue, wait until the others are safe.

        Args:
            groups: The messages.
            barriers: What they wait for.
            refusing: Queues that did not take what was for them.
            exchange: Exchange that all of them were published to; None: there are several.
        """
        watch, pair = self._virtual_host.publish_watch, self._pair
        total = width = 0
        for target, messages in groups:
            queues, count = target.queues, len(messages)
            if pair is None or pair.exchange is not target.exchange:
                pair = self._pair = self._counters.publishes_to(target.exchange)
            pair.publish += count
            total += count
            width += len(queues)
            if watch is not None:
                watch(queues, messages)
            if target.reply_keys or not queues:
                self._reply_or_return(target, messages)
        if self.confirms is None:
            return
        shares: Sequence[Share] = ()
        if exchange is None:
            counters = self._counters
            shares = [
                (counters.publishes_to(to.exchange), len(messages)) for to, messages in groups
            ]
        if len(groups) > 1 and width <= BARRIERS_MAX and (barriers or refusing):
            self.confirms.add_batch(parts_of(groups), barriers, refusing, pair, shares)
        else:
            self.confirms.add(total, barriers, refused=bool(refusing), counters=pair, shares=shares)
        for barrier in barriers:
            barrier.queue.waiting_confirms.add(self)
        if refusing or not barriers:
            self._broker.turn.mark(self)

    def _reply_or_return(self, target: PublishTarget, messages: list[bytes]) -> None:
        """Give messages to reply consumers; return them if nobody takes them, if that is asked."""
        replies = self._virtual_host.replies
        replied = target.reply_keys and replies.deliver(target.reply_keys, messages)
        if not (target.queues or replied):
            self._count_lost(target, len(messages))
            if target.mandatory:
                self.give_back(messages)

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

    def _apply_progress_between(self, queues: Iterable[TargetQueue]) -> None:
        """Apply what the disk reported between the steps of a publish, before it was recorded."""
        for queue in queues:
            if queue.is_failed:
                self.refuse_confirms(queue)
        self._broker.turn.mark(self)

    def give_back(self, messages: list[bytes]) -> None:
        """Return mandatory messages that no queue takes."""
        self._answers.give_back(messages)


def _takes_long(queued: Mapping[Queue, list[bytes]]) -> bool:
    """Return whether queues look at more messages than they should in one step."""
    return sum(map(len, queued.values())) > STEP_LOOKS and look_at_each(queued)
