"""One commit: applies a transaction in all its queues, or in none.

The broker first writes what must survive a restart as one record of the redo journal (`record`).
Then it applies everything (`carry_out`). This may take many steps, between which other clients are
served; `PendingCommits` hides a part of it from them. If the server dies before the last step, the
next start applies the record.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING

from amqp_server.broker.queue import Queue
from amqp_server.broker.rules.message_attributes import body_bytes
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.broker.virtual_host import vhost_of
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import TxCommitOk
from appendlog.layout.message import PERSISTENT, as_persistent
from offsets import RedoSettled, RedoTarget, RedoTransaction

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.unacked import UnackedRun
    from amqp_server.broker.transactions.transaction import (
        DeferredOutcome,
        DeferredPublish,
        Transaction,
    )

STEP_QUEUES = 256
"""Queues that one step looks at."""


class _Route:
    """The queues that some publishes of a transaction go to, as they are at the commit.

    Attributes:
        queues: Queues that get their messages.
        journaled: Those of them in which persistent messages survive a restart.
        streams: Those of these that make every message persistent.
        refusing: Those of them that refuse messages when they are full.
        is_unroutable: Whether none of the queues was there when the commit began to isolate them.
    """

    __slots__ = ("is_unroutable", "journaled", "queues", "refusing", "streams")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.journaled: list[Queue] = []
        self.streams: list[Queue] = []
        self.refusing: list[Queue] = []
        self.is_unroutable = False

    def add(self, queue: Queue) -> None:
        """Add a queue."""
        self.queues.append(queue)
        if queue.is_journaled:
            self.journaled.append(queue)
            if queue.makes_persistent:
                self.streams.append(queue)
        if queue.refuses_when_full:
            self.refusing.append(queue)

    def durable_for(self, publish: DeferredPublish) -> list[Queue]:
        """Return the queues in which the messages of a publish survive a restart."""
        return self.journaled if publish.flags & PERSISTENT else self.streams


class Commit:
    """The work of one `tx.commit`. It may outlive its channel once it is under way.

    Methods that return an iterator do a part of their work in each step; other clients are served
    between two steps. The client of the channel waits.

    Args:
        channel: Channel of the transaction.
        transaction: What to commit. Until `take_over` it can still be rolled back.

    Attributes:
        client: Client that commits.
        needs_record: Whether a part of the commit must survive a restart; known after `prepare`.
        reached: The durable queues that got messages, each with the end that its log must reach
            before the record is obsolete.
    """

    def __init__(self, channel: Channel, transaction: Transaction) -> None:
        self.client = channel.client
        self.needs_record = False
        self.reached: dict[Queue, int] = {}
        self._transaction_id = token_bytes(16)
        self._channel = channel
        self._publishes = transaction.publishes
        self._outcomes = transaction.outcomes
        self._held_bytes = 0
        # By the identity of a sequence of queues, which a publish keeps alive. Publishes of one
        # route share it, so that thousands of them to thousands of queues are looked at once.
        self._routes: dict[int, _Route] = {}
        self._targets: dict[Queue, None] = {}
        # Queues that no other client may see a part of the commit in: the targets, and the queues
        # that messages return to.
        self._isolated: dict[Queue, None] = {}
        # Messages and their octets for each queue that refuses them when it is full.
        self._wanted: dict[Queue, tuple[int, int]] = {}
        # The offsets that the record settles end here.
        self._settled_ends: dict[Queue, int] = {}

    def prepare(self) -> Iterator[None]:
        """Look up all queues; changes nothing."""
        for publish in self._publishes:
            route = self._routes.get(id(publish.queues))
            if route is None:
                route = yield from self._look_up(publish)
            if route.refusing:
                octets = sum(map(body_bytes, publish.messages))
                for queue in route.refusing:
                    count, size = self._wanted.get(queue, (0, 0))
                    self._wanted[queue] = count + len(publish.messages), size + octets
            self.needs_record = self.needs_record or bool(route.durable_for(publish))
            yield
        for deferred in self._outcomes:
            if deferred.outcome is Outcome.REQUEUED:
                for run in deferred.runs:
                    if isinstance(run.source, Queue):
                        self._isolated[run.source] = None
            for queue, _, end in _journaled_runs(deferred):
                self._settled_ends[queue] = max(end, self._settled_ends.get(queue, 0))
            yield
        self.needs_record = self.needs_record or bool(self._settled_ends)

    def _look_up(self, publish: DeferredPublish) -> Generator[None, None, _Route]:
        """Find the queues of a publish again: one may have been deleted since it was routed."""
        route = self._routes[id(publish.queues)] = _Route()
        for at, routed in enumerate(publish.queues, 1):
            queue: Queue | None = routed
            if routed.is_deleted:
                queue = vhost_of(routed).queues.get(routed.name)
            if queue is not None:
                route.add(queue)
                self._targets[queue] = self._isolated[queue] = None
            if at % STEP_QUEUES == 0:
                yield
        return route

    def check(self) -> Iterator[None]:
        """Check that every queue can take its messages.

        Raises:
            PreconditionFailed: A queue cannot; nothing was done.
        """
        for at, queue in enumerate(self._targets):
            if queue.is_failed:
                raise _refused(queue, "failed")
            if at % STEP_QUEUES == 0:
                yield
        for queue, (count, octets) in self._wanted.items():
            is_current = False
            while queue.rules is not None and not queue.rules.has_room_for(count, octets):
                if is_current or queue.is_at_work:
                    queue.count_refused(count)
                    raise _refused(queue, "full")
                # Messages that have expired take no room.
                is_current = queue.bring_up_to_date()
                yield

    def take_over(self, transaction: Transaction) -> None:
        """Take what the transaction deferred away from it: the commit is under way."""
        self._held_bytes = transaction.begin_next()

    async def make_ready(self) -> None:
        """Return when everything that the record refers to is on the disk.

        That means the definitions of the queues, as a message must not be safer than its queue. And
        the messages that are settled, as other messages could get their offsets otherwise.
        """
        if any(queue.store.awaits_definition for queue in self._targets):
            # If a definition cannot be saved, the client that declared the queue gets the error;
            # here the queue is missing.
            await self._channel.broker.definition_writer.until_done()
        for queue, end in self._settled_ends.items():
            if not queue.is_deleted and queue.store.recovery_point < end:
                await queue.store.make_durable()

    def record(self) -> Generator[None, None, tuple[RedoTransaction, dict[Queue, int]]]:
        """Make the record for the redo journal; changes nothing in the queues.

        Returns:
            The record. And for each queue that gets messages, the offset below which its log holds
            none of them.
        """
        messages: list[bytes] = []
        targets: dict[Queue, list[tuple[int, int]]] = {}
        for publish in self._publishes:
            yield
            queues = self._routes[id(publish.queues)].durable_for(publish)
            if not queues:
                continue
            start = len(messages)
            if publish.flags & PERSISTENT:
                messages += publish.messages
            else:
                messages += map(as_persistent, publish.messages)
            for at, queue in enumerate(queues, 1):
                if queue.is_deleted:
                    continue
                runs = targets.setdefault(queue, [])
                if runs and runs[-1][1] == start:
                    start_of_run, _ = runs.pop()
                    runs.append((start_of_run, len(messages)))
                else:
                    runs.append((start, len(messages)))
                if at % STEP_QUEUES == 0:
                    yield
        settled: dict[Queue, list[tuple[int, int]]] = {}
        for deferred in self._outcomes:
            yield
            for queue, start, end in _journaled_runs(deferred):
                # A failed log may lose the rest at a restart, or deliver it again.
                safe_end = min(end, queue.store.recovery_point)
                if start < safe_end:
                    settled.setdefault(queue, []).append((start, safe_end))
        hints = {queue: queue.store.written_end for queue in targets}
        record = RedoTransaction(
            self._transaction_id,
            messages,
            [RedoTarget(queue.incarnation, hints[queue], runs) for queue, runs in targets.items()],
            [RedoSettled(queue.incarnation, ranges) for queue, ranges in settled.items()],
        )
        return record, hints

    def schedule(self, steps: Iterator[None]) -> None:
        """Take the steps that carry out the commit, after those of earlier commits."""
        self._channel.broker.commits.add(self.client, steps)

    def carry_out(self) -> Iterator[None]:
        """Apply all publishes, acks and rejects, and send `commit-ok`.

        It is sent before any other effect that clients see: deliveries that the commit makes
        possible come after `commit-ok`, as in RabbitMQ.

        Raises:
            PreconditionFailed: A queue became full or failed while an unrecorded commit waited for
                others; nothing was done, and the deliveries return as if the channel had closed.
        """
        self._channel.broker.commits.isolate(self._isolated)
        if not self.needs_record:
            try:
                yield from self.check()
            except PreconditionFailed:
                yield from self.abort()
                raise
        self._channel.pause_deliveries()
        try:
            yield from self._publish_all()
            while self._outcomes:
                deferred = self._outcomes.popleft()
                self._channel.unacked.release(deferred.runs)
                self._channel.apply(deferred.outcome, deferred.runs)
                yield
            if not self._channel.is_closed:
                self._channel.send(TxCommitOk())
            else:
                # It has ended before the commit, which has counted since.
                yield from self._channel.counters.end()
        finally:
            self._channel.broker.transaction_budget.release(self._held_bytes)
            self._channel.resume_deliveries()

    def _publish_all(self) -> Iterator[None]:
        """Publish in order.

        A queue that is deleted between two steps counts as deleted after the commit: no message is
        returned because of that.
        """
        for at, route in enumerate(self._routes.values(), 1):
            route.is_unroutable = all(queue.is_deleted for queue in route.queues)
            if at % STEP_QUEUES == 0:
                yield
        vhost = self._channel.virtual_host
        replies = vhost.replies
        while self._publishes:
            publish = self._publishes[0]
            route = self._routes[id(publish.queues)]
            for queue in route.queues:
                if queue.is_deleted:
                    continue
                queue.hide_commit()
                start = queue.store.end_offset
                end = queue.publish(publish.messages, publish.flags, publish.target.exchange)
                if queue.is_journaled:
                    queue.store.mark_transaction(start, end, self._transaction_id)
                    self.reached[queue] = end
                if not self._channel.is_closed:
                    self._channel.publishing.throttle_if_full((queue,))
                yield
            replied = publish.reply_keys and replies.deliver(publish.reply_keys, publish.messages)
            is_routed = bool(replied or not route.is_unroutable)
            is_lost = publish.target.mandatory and not is_routed
            publishing, count = self._channel.publishing, len(publish.messages)
            if is_routed:
                publishing.count(publish.target, count)
            else:
                publishing.count_unroutable(publish.target, count)
            if is_lost and not self._channel.is_closed:
                self._channel.publishing.give_back(publish.messages)
            if vhost.publish_watch is not None:
                vhost.publish_watch(route.queues, publish.messages)
            self._publishes.popleft()
            yield

    def abort(self) -> Iterator[None]:
        """Discard everything; the deliveries are requeued, as if the channel had closed."""
        self._channel.broker.transaction_budget.release(self._held_bytes)
        while self._publishes:
            self._publishes.popleft()
            yield
        yield from self._channel.requeue_in_steps(self._released())

    def _released(self) -> Iterator[list[UnackedRun]]:
        while self._outcomes:
            runs = self._outcomes.popleft().runs
            self._channel.unacked.release(runs)
            yield runs


def _journaled_runs(deferred: DeferredOutcome) -> Iterator[tuple[Queue, int, int]]:
    """Iterate over what the record has to settle: the queue, the first offset, and the end.

    Subscriptions settle nothing in their queue.
    """
    if deferred.outcome is Outcome.REQUEUED:
        return
    for run in deferred.runs:
        queue = run.source
        if not isinstance(queue, Queue):
            continue
        # A dead letter is settled once it is safe elsewhere, as always.
        is_leaving = deferred.outcome is Outcome.REJECTED and queue.has_dead_letters
        if queue.is_journaled and not queue.is_deleted and not is_leaving:
            yield queue, run.first_offset, run.end_offset


def _refused(queue: Queue, state: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"transaction not committed: queue '{queue.name}' in vhost '{queue.virtual_host.name}' "
        f"is {state}"
    )
