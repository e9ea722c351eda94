"""One commit: what a transaction held back, to happen in all its queues or in none.

What has to survive a restart is written down first, as one record of the redo journal
(`record`); then everything is done in one turn of the loop (`carry_out`), so that nobody sees
a part of it. Between the two the server may die: the next start carries the record out.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING

from amqp_server.broker.queue import Queue
from amqp_server.broker.rules.overflow import has_room_for
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import TxCommitOk
from appendlog.layout.message import PERSISTENT, as_persistent
from offsets import RedoSettled, RedoTarget, RedoTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.unacked import UnackedRun
    from amqp_server.broker.transactions.transaction import HeldAnswer, HeldPublish


class Commit:
    """What one `tx.commit` has to do. It outlives its channel, once it is under way.

    Args:
        channel: Whose transaction it was.
        publishes: In their order.
        answers: In their order.

    Attributes:
        held_bytes: Of the budget of all transactions, to be given back at the end.
    """

    def __init__(
        self, channel: Channel, publishes: list[HeldPublish], answers: list[HeldAnswer]
    ) -> None:
        """Find the queues as they are now: the routing is older than the commit."""
        self.held_bytes = 0
        self.transaction_id = token_bytes(16)
        self._channel = channel
        self._publishes = [held._replace(queues=_present(held.queues)) for held in publishes]
        self._answers = answers

    @property
    def needs_record(self) -> bool:
        """Whether anything of it has to survive a restart."""
        return any(self._journaled_publishes()) or any(self._journaled_runs())

    def check(self) -> None:
        """Find out whether every queue can take what it is to get.

        Raises:
            PreconditionFailed: One cannot; nothing was done.
        """
        wanted: dict[Queue, list[bytes]] = {}
        for held in self._publishes:
            for queue in held.queues:
                if queue.store.is_failed:
                    raise _refused(queue, "failed")
                if queue.refuses_when_full:
                    wanted.setdefault(queue, []).extend(held.messages)
        for queue, messages in wanted.items():
            if not has_room_for(queue, messages):
                raise _refused(queue, "full")

    async def make_ready(self) -> None:
        """Return when what the record will name is on the disk itself.

        The queues: a message must not be safer than its queue. And the messages that are
        settled: their offsets could be given to others otherwise.
        """
        targets = [queue for _, queues in self._journaled_publishes() for queue in queues]
        if any(queue.store.awaits_definition for queue in targets):
            # Whoever declares one hears why it could not be saved; here it is just gone.
            await self._channel.broker.definition_writer.until_done()
        for queue, run in self._journaled_runs():
            if queue.store.recovery_point < run.end_offset:
                await queue.store.make_durable()

    def record(self) -> tuple[RedoTransaction, dict[Queue, int]]:
        """Return what the redo journal has to hold; nothing of the queues changes.

        Returns:
            The record, and for each queue that gets messages the offset below which its log
            has nothing of them.
        """
        messages: list[bytes] = []
        targets: dict[Queue, list[tuple[int, int]]] = {}
        for held, queues in self._journaled_publishes():
            start = len(messages)
            messages += held.messages
            for queue in queues:
                runs = targets.setdefault(queue, [])
                if runs and runs[-1][1] == start:
                    start_of_run, _ = runs.pop()
                    runs.append((start_of_run, len(messages)))
                else:
                    runs.append((start, len(messages)))
        settled: dict[Queue, list[tuple[int, int]]] = {}
        for queue, run in self._journaled_runs():
            # Of a failed log the rest is gone after a restart, or it comes back.
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
        """Publish and answer everything, now, and tell the client so.

        Before anybody else hears of it: a delivery that the commit made room for comes after
        commit-ok, as in RabbitMQ.

        Returns:
            The durable queues that got messages, each with the offset that its log has to
            reach before the record is not needed any more.
        """
        reached: dict[Queue, int] = {}
        for held in self._publishes:
            queues = [queue for queue in held.queues if not queue.is_deleted]
            for queue in queues:
                start = queue.store.end_offset
                end = queue.publish(held.messages, held.flags)
                if queue.is_journaled:
                    queue.store.mark_transaction(start, end, self.transaction_id)
                    reached[queue] = end
            replies = self._channel.virtual_host.replies
            replied = held.reply_keys and replies.deliver(held.reply_keys, held.messages)
            if not self._channel.is_closed:
                self._channel.publishing.wait_for_room(queues)
                if held.target.mandatory and not queues and not replied:
                    self._channel.publishing.basic_return(held.messages)
        for answer in self._answers:
            self._channel.unacked.release(answer.runs)
            self._channel.carry_out(answer.outcome, answer.runs)
        self._channel.broker.transaction_budget.release(self.held_bytes)
        if not self._channel.is_closed:
            self._channel.send(TxCommitOk())
        return reached

    def abort(self) -> None:
        """Do nothing of it: the deliveries go back to their queues, as if the channel closed."""
        self._channel.broker.transaction_budget.release(self.held_bytes)
        for answer in self._answers:
            self._channel.unacked.release(answer.runs)
            self._channel.requeue(answer.runs)

    def _journaled_publishes(self) -> Iterator[tuple[HeldPublish, list[Queue]]]:
        for held in self._publishes:
            queues = [queue for queue in held.queues if queue.is_journaled and not queue.is_deleted]
            if not held.flags & PERSISTENT:
                queues = [queue for queue in queues if queue.is_stream]
                held = held._replace(messages=list(map(as_persistent, held.messages)))
            if queues:
                yield held, queues

    def _journaled_runs(self) -> Iterator[tuple[Queue, UnackedRun]]:
        """Yield what the record has to settle; subscriptions settle nothing in their queue."""
        for answer in self._answers:
            if answer.outcome is Outcome.REQUEUED:
                continue
            for run in answer.runs:
                queue = run.source
                if not isinstance(queue, Queue):
                    continue
                # A dead letter leaves its queue when it is safe elsewhere, as it always does.
                is_leaving = answer.outcome is Outcome.REJECTED and queue.forwarder is not None
                if queue.is_journaled and not queue.is_deleted and not is_leaving:
                    yield queue, run


def _refused(queue: Queue, state: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"transaction not committed: queue '{queue.name}' in vhost '{queue.virtual_host.name}' "
        f"is {state}"
    )


def _present(queues: Iterable[Queue]) -> list[Queue]:
    """Return the queues that have these names now: one may have been deleted meanwhile."""
    present = (
        queue.virtual_host.queues.get(queue.name) if queue.is_deleted else queue for queue in queues
    )
    return [queue for queue in present if queue is not None]
