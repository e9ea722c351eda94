"""Runs of unacked deliveries against a dictionary of single ones."""

from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amqp_server.broker.consuming.consumer import Consumer
from amqp_server.broker.consuming.source import Source
from amqp_server.broker.consuming.unacked import UnackedRun, UnackedRuns
from tests.broker.channels import a_consumer

# Runs only compare these, so anything with an identity will do.
QUEUES = [cast("Source", object()) for _ in range(2)]
CONSUMERS = [a_consumer(), None]
Delivery = tuple[Source, int, Consumer | None]


def told(runs: list[UnackedRun]) -> dict[int, Delivery]:
    """Return what each tag stands for; runs come in tag order and never overlap."""
    deliveries: dict[int, Delivery] = {}
    for run in runs:
        assert run.count > 0
        assert run.first_tag > max(deliveries, default=0)
        assert run.end_offset - run.first_offset == run.end_tag - run.first_tag == run.count
        for step in range(run.count):
            deliveries[run.first_tag + step] = (run.source, run.first_offset + step, run.consumer)
    return deliveries


def test_neighbours_grow_one_run() -> None:
    runs = UnackedRuns()
    for step in range(3):
        runs.add(1 + step * 10, 10, QUEUES[0], 100 + step * 10, None)

    assert runs.take_all() == [UnackedRun(1, 30, QUEUES[0], 100, None)]
    assert runs.count == 0


def test_another_queue_consumer_or_a_gap_begins_a_new_run() -> None:
    runs = UnackedRuns()
    runs.add(1, 1, QUEUES[0], 5, None)
    runs.add(2, 1, QUEUES[1], 6, None)
    runs.add(3, 1, QUEUES[1], 7, CONSUMERS[0])
    runs.add(4, 1, QUEUES[1], 9, CONSUMERS[0])

    assert [run.first_tag for run in runs.take_all()] == [1, 2, 3, 4]


def test_a_multiple_ack_cuts_the_run_it_ends_in() -> None:
    runs = UnackedRuns()
    runs.add(1, 2, QUEUES[1], 0, None)
    runs.add(3, 10, QUEUES[0], 100, None)

    assert runs.take_up_to(5) == [
        UnackedRun(1, 2, QUEUES[1], 0, None),
        UnackedRun(3, 3, QUEUES[0], 100, None),
    ]
    assert runs.count == 7
    assert runs.take_all() == [UnackedRun(6, 7, QUEUES[0], 103, None)]


def test_an_ack_in_the_middle_leaves_both_sides() -> None:
    runs = UnackedRuns()
    runs.add(1, 10, QUEUES[0], 100, None)

    assert runs.take_range(4, 6) == ([UnackedRun(4, 3, QUEUES[0], 103, None)], None)
    assert runs.take_all() == [
        UnackedRun(1, 3, QUEUES[0], 100, None),
        UnackedRun(7, 4, QUEUES[0], 106, None),
    ]


def test_a_tag_that_is_not_outstanding_is_named_and_stops_the_range() -> None:
    runs = UnackedRuns()
    assert runs.take_up_to(1) is None
    runs.add(1, 3, QUEUES[0], 0, None)
    runs.take_range(2, 2)

    assert runs.take_up_to(2) is None
    assert runs.take_up_to(4) is None
    assert runs.take_range(1, 3) == ([UnackedRun(1, 1, QUEUES[0], 0, None)], 2)
    assert runs.count == 1
    assert runs.take_range(3, 9) == ([UnackedRun(3, 1, QUEUES[0], 2, None)], 4)
    assert runs.count == 0


def test_what_grows_later_does_not_change_what_was_taken() -> None:
    runs = UnackedRuns()
    runs.add(1, 2, QUEUES[0], 0, None)
    taken = runs.take_all()
    runs.add(3, 2, QUEUES[0], 2, None)

    assert taken == [UnackedRun(1, 2, QUEUES[0], 0, None)]


ages = st.integers(0, 60)


class UnackedMachine(RuleBasedStateMachine):
    """Tags in a dictionary, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = UnackedRuns()
        self.outstanding: dict[int, Delivery] = {}
        self.next_tag = 1
        self.next_offset = dict.fromkeys(QUEUES, 0)

    @rule(
        count=st.integers(1, 9),
        queue=st.sampled_from(QUEUES),
        consumer=st.sampled_from(CONSUMERS),
        skipped=st.sampled_from([0, 0, 0, 1]),
    )
    def deliver(self, count: int, queue: Source, consumer: Consumer | None, skipped: int) -> None:
        # A consumer without acknowledgements uses up tags that are never outstanding.
        self.next_tag += skipped
        first = self.next_offset[queue]
        self.runs.add(self.next_tag, count, queue, first, consumer)
        for step in range(count):
            self.outstanding[self.next_tag + step] = (queue, first + step, consumer)
        self.next_tag += count
        self.next_offset[queue] += count

    @rule(age=ages)
    def take_up_to(self, age: int) -> None:
        tag = max(self.next_tag - age, 0)
        taken = self.runs.take_up_to(tag)
        if tag not in self.outstanding:
            assert taken is None
            return
        assert taken is not None
        expected = {each: what for each, what in self.outstanding.items() if each <= tag}
        assert told(taken) == expected
        for each in expected:
            del self.outstanding[each]

    @rule(age=ages, count=st.integers(1, 12))
    def take_range(self, age: int, count: int) -> None:
        first = max(self.next_tag - age, 0)
        taken, missing = self.runs.take_range(first, first + count - 1)
        expected: dict[int, Delivery] = {}
        unknown = None
        for tag in range(first, first + count):
            if tag not in self.outstanding:
                unknown = tag
                break
            expected[tag] = self.outstanding.pop(tag)
        assert (told(taken), missing) == (expected, unknown)

    @rule()
    def take_all(self) -> None:
        assert told(self.runs.take_all()) == self.outstanding
        self.outstanding.clear()

    @invariant()
    def the_count_is_right(self) -> None:
        assert self.runs.count == len(self.outstanding)


TestUnackedMachine = UnackedMachine.TestCase


def test_many_deliveries_are_taken_up_to_a_tag_a_thousand_runs_at_a_time() -> None:
    def many() -> UnackedRuns:
        runs = UnackedRuns()
        for tag in range(1, 3001):
            runs.add(tag, 1, QUEUES[tag % 2], tag, None)
        return runs

    runs, whole = many(), many()
    parts = list(iter(lambda: runs.take_some(2500), []))

    assert max(map(len, parts)) <= 1024
    assert [run for part in parts for run in part] == whole.take_up_to(2500)
    assert runs.count == whole.count == 500
    assert not runs.has(2500)
    assert runs.has(2501)
    assert runs.take_all() == whole.take_all()
