"""One commit: applies a transaction in all its queues, or in none.

The broker first writes what must survive a restart as one record of the redo journal (`record`).
Then it applies everything in one turn of the loop (`carry_out`), so that no client sees a part of
it. If the server dies between the two, the next start applies the record.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING

from amqp_server.broker.queue import Queue
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.broker.virtual_host import vhost_of
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import TxCommitOk
from appendlog.layout.message import PERSISTENT, as_persistent
from offsets import RedoSettled, RedoTarget, RedoTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.unacked import UnackedRun
    from amqp_server.broker.transactions.transaction import DeferredOutcome, DeferredPublish


class Commit:
    """The work of one `tx.commit`. It may outlive its channel once it is under way.

    Args:
        channel: Channel of the transaction.
        publishes: Deferred publishes, in order.
        outcomes: Deferred acks and rejects, in order.

    Attributes:
        held_bytes: Bytes of the budget of all transactions, released at the end.
    """

    def __init__(
        self, channel: Channel, publishes: list[DeferredPublish], outcomes: list[DeferredOutcome]
    ) -> None:
        """Look up the queues again, because they were routed before the commit."""
        self.held_bytes = 0
        self.transaction_id = token_bytes(16)
        self._channel = channel
        self._publishes = [
            publish._replace(queues=_present(publish.queues)) for publish in publishes
        ]
        self._outcomes = outcomes

    @property
    def needs_record(self) -> bool:
        """Whether a part of the commit must survive a restart."""
        return any(self._journaled_publishes()) or any(self._journaled_runs())

    def check(self) -> None:
        """Check that every queue can take its messages.

        Raises:
            PreconditionFailed: A queue cannot; nothing was done.
        """
        wanted: dict[Queue, list[bytes]] = {}
        for publish in self._publishes:
            for queue in publish.queues:
                if queue.is_failed:
                    raise _refused(queue, "failed")
                if queue.refuses_when_full:
                    wanted.setdefault(queue, []).extend(publish.messages)
        for queue, messages in wanted.items():
            if not queue.has_room_for(messages):
                raise _refused(queue, "full")

    async def make_ready(self) -> None:
        """Return when everything that the record refers to is on the disk.

        That means the definitions of the queues, as a message must not be safer than its queue. And
        the messages that are settled, as other messages could get their offsets otherwise.
        """
        targets = [queue for _, queues in self._journaled_publishes() for queue in queues]
        if any(queue.store.awaits_definition for queue in targets):
            # If a definition cannot be saved, the client that declared the queue gets the error;
            # here the queue is missing.
            await self._channel.broker.definition_writer.until_done()
        for queue, run in self._journaled_runs():
            if queue.store.recovery_point < run.end_offset:
                await queue.store.make_durable()

    def record(self) -> tuple[RedoTransaction, dict[Queue, int]]:
        """Return the record for the redo journal; changes nothing in the queues.

        Returns:
            The record. And for each queue that gets messages, the offset below which its log holds
            none of them.
        """
        messages: list[bytes] = []
        targets: dict[Queue, list[tuple[int, int]]] = {}
        for publish, queues in self._journaled_publishes():
            start = len(messages)
            messages += publish.messages
            for queue in queues:
                runs = targets.setdefault(queue, [])
                if runs and runs[-1][1] == start:
                    start_of_run, _ = runs.pop()
                    runs.append((start_of_run, len(messages)))
                else:
                    runs.append((start, len(messages)))
        settled: dict[Queue, list[tuple[int, int]]] = {}
        for queue, run in self._journaled_runs():
            # A failed log may lose the rest at a restart, or deliver it again.
            end = min(run.end_offset, queue.store.recovery_point)
            if run.first_offset < end:
                settled.setdefault(queue, []).append((run.first_offset, end))
        hints = {queue: queue.store.written_end for queue in targets}
        record = RedoTransaction(
            self.transaction_id,
            messages,
            [RedoTarget(queue.incarnation, hints[queue], runs) for queue, runs in targets.items()],
            [RedoSettled(queue.incarnation, ranges) for queue, ranges in settled.items()],
        )
        return record, hints

    def carry_out(self) -> dict[Queue, int]:
        """Apply all publishes, acks and rejects now, and send `commit-ok`.

        It is sent before any other effect: deliveries that the commit makes possible come after
        `commit-ok`, as in RabbitMQ.

        Returns:
            The durable queues that got messages, each with the end that its log must reach before
            the record is obsolete.
        """
        reached: dict[Queue, int] = {}
        for publish in self._publishes:
            queues = [queue for queue in publish.queues if not queue.is_deleted]
            for queue in queues:
                start = queue.store.end_offset
                end = queue.publish(publish.messages, publish.flags)
                if queue.is_journaled:
                    queue.store.mark_transaction(start, end, self.transaction_id)
                    reached[queue] = end
            replies = self._channel.virtual_host.replies
            replied = publish.reply_keys and replies.deliver(publish.reply_keys, publish.messages)
            if not self._channel.is_closed:
                self._channel.publishing.wait_for_room(queues)
                if publish.target.mandatory and not queues and not replied:
                    self._channel.publishing.basic_return(publish.messages)
        for deferred in self._outcomes:
            self._channel.unacked.release(deferred.runs)
            self._channel.apply(deferred.outcome, deferred.runs)
        self._channel.broker.transaction_budget.release(self.held_bytes)
        if not self._channel.is_closed:
            self._channel.send(TxCommitOk())
        return reached

    def abort(self) -> None:
        """Discard everything; the deliveries are requeued, as if the channel had closed."""
        self._channel.broker.transaction_budget.release(self.held_bytes)
        runs = [run for deferred in self._outcomes for run in deferred.runs]
        self._channel.unacked.release(runs)
        self._channel.requeue(runs)

    def _journaled_publishes(self) -> Iterator[tuple[DeferredPublish, list[Queue]]]:
        for publish in self._publishes:
            queues = [
                queue for queue in publish.queues if queue.is_journaled and not queue.is_deleted
            ]
            if not publish.flags & PERSISTENT:
                queues = [queue for queue in queues if queue.makes_persistent]
                publish = publish._replace(messages=list(map(as_persistent, publish.messages)))
            if queues:
                yield publish, queues

    def _journaled_runs(self) -> Iterator[tuple[Queue, UnackedRun]]:
        """Yield what the record has to settle; subscriptions settle nothing in their queue."""
        for deferred in self._outcomes:
            if deferred.outcome is Outcome.REQUEUED:
                continue
            for run in deferred.runs:
                queue = run.source
                if not isinstance(queue, Queue):
                    continue
                # A dead letter is settled once it is safe elsewhere, as always.
                is_leaving = deferred.outcome is Outcome.REJECTED and queue.forwarder is not None
                if queue.is_journaled and not queue.is_deleted and not is_leaving:
                    yield queue, run


def _refused(queue: Queue, state: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"transaction not committed: queue '{queue.name}' in vhost '{queue.virtual_host.name}' "
        f"is {state}"
    )


def _present(queues: Iterable[Queue]) -> list[Queue]:
    """Return the queues that have these names now, as one may have been deleted since."""
    present = (
        vhost_of(queue).queues.get(queue.name) if queue.is_deleted else queue for queue in queues
    )
    return [queue for queue in present if queue is not None]
