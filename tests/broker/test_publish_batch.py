"""Neighbouring messages are sorted by queue, at once or in steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.counters.owners import CountedExchange
from amqp_server.broker.publishing.confirms import Barrier
from amqp_server.broker.publishing.publish_batch import (
    STEP_QUEUES,
    barriers_in_steps,
    barriers_of,
    by_queue,
    by_queue_in_steps,
    parts_of,
    put_into,
)
from amqp_server.broker.publishing.publish_targets import PublishTarget
from amqp_server.broker.queue import Queue
from amqp_server.broker.routing.steps import Steps

QUEUES = [cast("Queue", f"q{number}") for number in range(6)]


@dataclass
class Target:
    queues: list[Queue]


def group(queues: list[Queue], *messages: bytes) -> tuple[PublishTarget, list[bytes]]:
    return cast("PublishTarget", Target(queues)), list(messages)


@given(st.lists(st.sets(st.sampled_from(QUEUES)), max_size=8))
def test_steps_sort_as_one_call_does_and_change_no_group(targets: list[set[Queue]]) -> None:
    groups = [
        group(sorted(queues, key=str), b"%d" % number, b"more")
        for number, queues in enumerate(targets)
    ]
    before = [list(messages) for _, messages in groups]
    at_once: dict[Queue, list[bytes]] = {}
    by_queue(groups, at_once)
    in_steps: dict[Queue, list[bytes]] = {}
    deque(by_queue_in_steps(groups, in_steps), maxlen=0)

    assert in_steps == at_once
    assert [messages for _, messages in groups] == before


def test_one_group_for_many_queues_takes_many_steps() -> None:
    queues = [cast("Queue", number) for number in range(3 * STEP_QUEUES)]
    queued: dict[Queue, list[bytes]] = {}
    steps = by_queue_in_steps([group(queues, b"to all")], queued)
    next(steps)

    assert len(queued) == STEP_QUEUES


@dataclass(eq=False)
class TakenQueue:
    """A queue that counts messages and writes none."""

    end: int = 0
    is_failed: bool = False
    is_deleted: bool = False
    refused: int = 0

    def publish(
        self, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        assert not self.is_failed
        self.end += len(messages)
        return self.end

    def count_and_log_refused(self, count: int) -> None:
        self.refused += count

    def count_incoming(self, count: int, exchange: CountedExchange | None) -> None:
        """Take no notice."""

    def awaits(self, end_offset: int, flags: int) -> bool:
        return True

    def barrier(self, start: int, end: int) -> Barrier:
        return Barrier(cast("Queue", self), start, end)


def put(
    groups: list[tuple[PublishTarget, list[bytes]]],
) -> tuple[dict[Queue, list[bytes]], dict[Queue, int]]:
    queued: dict[Queue, list[bytes]] = {}
    by_queue(groups, queued)
    starts: dict[Queue, int] = {}
    for queue, messages in queued.items():
        put_into(queue, messages, 0, starts)
    return queued, starts


def ended(
    steps: Steps[tuple[list[Barrier], list[Queue]]],
) -> tuple[int, tuple[list[Barrier], list[Queue]]]:
    """Return how many steps there are, and their result."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return count, last.value
        count += 1


def test_a_queue_whose_log_failed_refuses_what_goes_to_it_and_a_deleted_one_does_not() -> None:
    failed, other, deleted = TakenQueue(is_failed=True), TakenQueue(), TakenQueue(is_deleted=True)
    both, one = [cast("Queue", failed), cast("Queue", other)], [cast("Queue", other)]
    groups = [
        group(one, b"1"),
        group(both, b"2", b"3"),
        group([*one, cast("Queue", deleted)], b"4"),
    ]
    queued, starts = put(groups)

    assert (failed.end, failed.refused, deleted.end) == (0, 2, 0)
    waited = [other.barrier(0, 4)], [cast("Queue", failed)]
    assert barriers_of(queued, starts, 0) == waited
    assert ended(barriers_in_steps(queued, starts, 0)) == (0, waited)
    assert parts_of(groups) == [(one, 1), (both, 2), ([*one, cast("Queue", deleted)], 1)]


def test_a_wide_batch_makes_one_barrier_for_each_queue_in_steps() -> None:
    queues = [cast("Queue", TakenQueue()) for _ in range(3 * STEP_QUEUES)]
    groups = [group(queues, b"1"), group(queues[1:], b"2"), group(queues, b"3")]
    queued, starts = put(groups)
    count, (barriers, refusing) = ended(barriers_in_steps(queued, starts, 0))

    assert count == 3
    assert not refusing
    assert barriers == [(queues[0], 0, 2), *((queue, 0, 3) for queue in queues[1:])]
