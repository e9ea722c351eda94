"""Neighbouring messages are sorted by queue, at once or in steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.counters.owners import CountedExchange
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.publishing.confirms import Barrier
from amqp_server.broker.publishing.enqueue import enqueue_each
from amqp_server.broker.publishing.publish_batch import (
    STEP_QUEUES,
    PublishBatch,
    by_queue,
    parts_of,
    pieces_of,
)
from amqp_server.broker.publishing.publish_targets import PublishTarget
from amqp_server.broker.queue import Queue
from amqp_server.broker.routing.steps import Steps, result_of

QUEUES = [cast("Queue", f"q{number}") for number in range(6)]


@dataclass
class Target:
    queues: list[Queue]


@dataclass
class Exchanged:
    """An exchange whose routes have not changed."""

    routes_version: int = 0


def group(queues: list[Queue], *messages: bytes) -> tuple[PublishTarget, list[bytes]]:
    return cast("PublishTarget", Target(queues)), list(messages)


@given(st.lists(st.sets(st.sampled_from(QUEUES)), max_size=8))
def test_steps_sort_as_one_call_does_and_change_no_group(targets: list[set[Queue]]) -> None:
    groups = [
        group(sorted(queues, key=str), b"%d" % number, b"more")
        for number, queues in enumerate(targets)
    ]
    before = [list(messages) for _, messages in groups]
    apart: dict[Queue, list[bytes]] = {}
    for target, messages in groups:
        for queue in target.queues:
            apart.setdefault(queue, []).extend(messages)
    at_once = result_of(by_queue(groups))

    assert at_once == apart
    assert [messages for _, messages in groups] == before


def test_one_group_for_many_queues_takes_many_steps() -> None:
    queues = [cast("Queue", number) for number in range(3 * STEP_QUEUES)]

    count, queued = ended(by_queue([group(queues[:-1], b"to all"), group(queues, b"to all")]))

    assert count == 5
    assert queued == {**dict.fromkeys(queues, [b"to all"] * 2), queues[-1]: [b"to all"]}


@dataclass(eq=False)
class TakenQueue:
    """A queue that counts messages and writes none."""

    end: int = 0
    is_failed: bool = False
    is_deleted: bool = False
    refuses_when_full: bool = False
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


def told(barriers: Iterable[Barrier]) -> list[tuple[object, int, int]]:
    return [(barrier.queue, barrier.start_offset, barrier.end_offset) for barrier in barriers]


def ended(steps: Steps[dict[Queue, list[bytes]]]) -> tuple[int, dict[Queue, list[bytes]]]:
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
    barriers, refusing = enqueue_each(result_of(by_queue(groups)).items(), 0)

    assert (failed.end, failed.refused, deleted.end) == (0, 2, 0)
    assert told(barriers) == [(other, 0, 4)]
    assert refusing == [cast("Queue", failed)]
    assert parts_of(groups) == [(one, 1), (both, 2), ([*one, cast("Queue", deleted)], 1)]


def test_a_wide_batch_makes_one_barrier_for_each_queue() -> None:
    queues = [cast("Queue", TakenQueue()) for _ in range(3 * STEP_QUEUES)]
    groups = [group(queues, b"1"), group(queues[1:], b"2"), group(queues, b"3")]
    count, queued = ended(by_queue(groups))
    barriers, refusing = enqueue_each(queued.items(), 0)

    assert count == (3 * len(queues) - 1) // STEP_QUEUES
    assert not refusing
    assert told(barriers) == [(queues[0], 0, 2), *((queue, 0, 3) for queue in queues[1:])]


def test_a_batch_is_cut_into_parts_in_order_and_a_message_that_may_be_refused_is_alone() -> None:
    plain = [cast("Queue", TakenQueue())]
    limited = [*plain, cast("Queue", TakenQueue(refuses_when_full=True))]
    groups = [
        group(plain, b"1", b"2", b"3", b"4"),
        group(plain, b"5", b"6"),
        group(limited, b"7", b"8"),
        group(plain, b"9"),
        group(limited, b"10"),
    ]

    pieces = [[messages for _, messages in piece] for piece in pieces_of(groups, 3)]

    assert pieces == [
        [[b"1", b"2", b"3"]],
        [[b"4"], [b"5", b"6"]],
        [[b"7"]],
        [[b"8"]],
        [[b"9"]],
        [[b"10"]],
    ]


def test_a_group_whose_queue_refuses_all_is_apart_from_the_others() -> None:
    plain = [cast("Queue", TakenQueue())]
    failed = [*plain, cast("Queue", TakenQueue(is_failed=True))]
    groups = [group(plain, b"1"), group(failed, b"2", b"3"), group(plain, b"4"), group(plain, b"5")]

    pieces = [[messages for _, messages in piece] for piece in pieces_of(groups, 10)]

    assert pieces == [[[b"1"]], [[b"2", b"3"]], [[b"4"], [b"5"]]]


def test_a_message_that_may_be_dropped_does_not_join_one_that_is_returned() -> None:
    exchange = cast("Exchange", Exchanged())
    returned, dropped = (
        PublishTarget(exchange, mandatory, False, (), (), not mandatory, 0)
        for mandatory in (True, False)
    )
    batch = PublishBatch()
    batch.add(returned, b"1")

    assert batch.add_known(iter([(b"frame", b"2"), (b"frame", b"3")]), {b"frame": dropped}) is None
    assert batch.take() == [(returned, [b"1"]), (dropped, [b"2", b"3"])]
