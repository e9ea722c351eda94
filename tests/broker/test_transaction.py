"""What a transaction holds back, and what its channel has outstanding meanwhile."""

from collections import deque
from typing import cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_server.base.limits import Limits
from amqp_server.broker.consuming.unacked import UnackedRun, UnackedRuns
from amqp_server.broker.publishing.publish_targets import PublishTarget
from amqp_server.broker.queue import Queue
from amqp_server.broker.transactions.transaction import (
    DeferredPublish,
    Outcome,
    Transaction,
    TransactionBudget,
)
from amqp_server.protocol.errors import PreconditionFailed

QUEUE = cast("Queue", object())
TARGET = cast("PublishTarget", object())


def budget(channel_bytes: int = 10_000, all_bytes: int = 15_000) -> TransactionBudget:
    return TransactionBudget(
        Limits(transaction_bytes_per_channel_max=channel_bytes, transaction_bytes_max=all_bytes)
    )


def roll_back(transaction: Transaction) -> None:
    deque(transaction.roll_back(), maxlen=0)


def tags(runs: list[UnackedRun]) -> list[int]:
    return [tag for run in runs for tag in range(run.first_tag, run.end_tag)]


def test_publishes_and_answers_are_held_in_their_order() -> None:
    unacked = UnackedRuns()
    unacked.add(1, 10, QUEUE, 0, None)
    transaction = Transaction(unacked, budget())
    transaction.publish(DeferredPublish(TARGET, [QUEUE], (), [b"1", b"2"], 1))
    for tag, outcome in ((2, Outcome.ACKNOWLEDGED), (3, Outcome.ACKNOWLEDGED)):
        transaction.defer(outcome, unacked.take_range(tag, tag)[0])
    transaction.defer(Outcome.REQUEUED, unacked.take_range(1, 1)[0])
    transaction.publish(DeferredPublish(TARGET, [], (), [b"3"], 0))
    publishes, answers = transaction.publishes, transaction.outcomes
    assert [held.messages for held in publishes] == [[b"1", b"2"], [b"3"]]
    assert [(held.outcome, tags(held.runs)) for held in answers] == [
        (Outcome.ACKNOWLEDGED, [2, 3]),
        (Outcome.REQUEUED, [1]),
    ]
    transaction.begin_next()
    assert not transaction.publishes
    assert not transaction.outcomes
    assert answers[0].runs, "what was handed over is not taken back"


def test_memory_is_bounded_for_a_channel_and_for_all_and_is_given_back() -> None:
    shared = budget()
    one, two = (Transaction(UnackedRuns(), shared) for _ in range(2))
    one.publish(DeferredPublish(TARGET, [], (), [b"x" * 9_000], 0))
    with pytest.raises(PreconditionFailed, match="larger than configured max size 10000"):
        one.publish(DeferredPublish(TARGET, [], (), [b"x" * 1_000], 0))
    with pytest.raises(PreconditionFailed, match="all connections"):
        two.publish(DeferredPublish(TARGET, [], (), [b"x" * 9_000], 0))
    roll_back(one)
    two.publish(DeferredPublish(TARGET, [], (), [b"x" * 9_000], 0))
    held_bytes = two.begin_next()
    assert shared.held_bytes == held_bytes > 9_000, "given back when the commit is done"
    shared.release(held_bytes)
    assert shared.held_bytes == 0


def test_exactly_as_much_as_the_bounds_say_is_held() -> None:
    publish = DeferredPublish(TARGET, [], (), [b"x" * 1_000], 0)
    measured = budget()
    Transaction(UnackedRuns(), measured).publish(publish)
    size = measured.held_bytes
    exact = budget(channel_bytes=size, all_bytes=size)
    Transaction(UnackedRuns(), exact).publish(publish)
    assert exact.held_bytes == size
    for small in (budget(channel_bytes=size - 1), budget(all_bytes=size - 1)):
        with pytest.raises(PreconditionFailed):
            Transaction(UnackedRuns(), small).publish(publish)
        assert small.held_bytes == 0


def test_empty_messages_take_memory_too() -> None:
    transaction = Transaction(UnackedRuns(), budget())
    with pytest.raises(PreconditionFailed):
        transaction.publish(DeferredPublish(TARGET, [], (), [b""] * 200, 0))


def test_the_queues_of_a_publish_count_once_for_each_sequence_of_them() -> None:
    shared = budget(channel_bytes=1 << 20, all_bytes=1 << 20)
    transaction = Transaction(UnackedRuns(), shared)
    one, other = [tuple(cast("Queue", object()) for _ in range(1000)) for _ in range(2)]

    def growth(queues: tuple[Queue, ...]) -> int:
        before = shared.held_bytes
        transaction.publish(DeferredPublish(TARGET, queues, (), [b"m"], 0))
        return shared.held_bytes - before

    assert growth(one) > 8 * len(one)
    assert growth(one) < 1000
    # Equal to that before it: they are shared.
    assert growth((*one,)) < 1000
    assert transaction.publishes[-1].queues is one
    assert growth(other) > 8 * len(other)
    # The route of a key is one object, however the keys alternate.
    assert growth(one) < 1000
    # A message that is routed singly is counted, as nothing else may hold its sequence.
    assert growth((*other,)) > 8 * len(other)
    assert growth((*one,)) > 8 * len(one)

    roll_back(transaction)
    assert shared.held_bytes == 0
    assert growth(one) > 8 * len(one)


def test_reply_keys_take_memory_too() -> None:
    transaction = Transaction(UnackedRuns(), budget())
    keys = tuple(f"amq.rabbitmq.reply-to.{number}" for number in range(200))
    with pytest.raises(PreconditionFailed):
        transaction.publish(DeferredPublish(TARGET, (), keys, [b""], 0))


@pytest.mark.parametrize("order", [1, -1])
def test_a_rollback_takes_small_steps_whatever_was_acked_in_which_order(
    monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    unacked = UnackedRuns()
    unacked.add(1, 100, QUEUE, 0, None)
    transaction = Transaction(unacked, budget())
    monkeypatch.setattr("amqp_server.broker.transactions.transaction.STEP_RUNS", 8)
    for tag in range(2, 100)[::order]:
        outcome = Outcome.ACKNOWLEDGED if 30 < tag < 70 else Outcome.REJECTED
        transaction.defer(outcome, unacked.take_range(tag, tag)[0])
    restored: list[int] = []
    restore = UnackedRuns.restore

    def counted(self: UnackedRuns, runs: list[UnackedRun]) -> None:
        restored.append(len(runs))
        restore(self, runs)

    monkeypatch.setattr(UnackedRuns, "restore", counted)
    roll_back(transaction)

    assert max(restored) == 8
    assert sum(restored) == 98
    assert unacked.take_all() == [UnackedRun(1, 100, QUEUE, 0, None)]


class OutstandingMachine(RuleBasedStateMachine):
    """Take, hold, roll back and let go at random; a set of tags is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = UnackedRuns()
        self.transaction = Transaction(self.unacked, budget())
        self.delivered = 0
        self.outstanding: set[int] = set()
        self.held: set[int] = set()

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        self.unacked.add(self.delivered + 1, count, QUEUE, self.delivered, None)
        self.outstanding.update(range(self.delivered + 1, self.delivered + count + 1))
        self.delivered += count

    @precondition(lambda self: self.outstanding)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def answer(self, data: st.DataObject, outcome: Outcome) -> None:
        tag = data.draw(st.sampled_from(sorted(self.outstanding)))
        if data.draw(st.booleans()):
            runs = self.unacked.take_up_to(tag)
        else:
            runs, _ = self.unacked.take_range(tag, tag)
        assert runs is not None
        assert set(tags(runs)) <= self.outstanding
        self.held.update(tags(runs))
        self.outstanding -= self.held
        self.transaction.defer(outcome, runs)

    @rule()
    def roll_back(self) -> None:
        roll_back(self.transaction)
        self.outstanding |= self.held
        self.held.clear()

    @rule()
    def commit(self) -> None:
        answers = self.transaction.outcomes
        self.transaction.begin_next()
        assert {tag for held in answers for tag in tags(held.runs)} == self.held
        for held in answers:
            self.unacked.release(held.runs)
        self.held.clear()

    @rule()
    def recover(self) -> None:
        assert tags(self.unacked.take_all()) == sorted(self.outstanding)
        self.outstanding.clear()

    @invariant()
    def everything_unanswered_or_uncommitted_is_counted(self) -> None:
        assert self.unacked.count == len(self.outstanding) + len(self.held)


TestOutstanding = OutstandingMachine.TestCase
