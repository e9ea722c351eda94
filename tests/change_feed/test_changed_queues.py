"""Queues record that they have changed; each reader gets each change once, or again, never not."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from amqp_server.admin.change_feed.poll import Poll
from amqp_server.broker import changed_queues
from amqp_server.broker.changed_queues import ChangedQueues


@dataclass(eq=False)
class NamedQueue:
    """What the list of changes needs of a queue."""

    name: str
    changes: ChangedQueues
    is_marked_changed: bool = False
    has_new_attributes: bool = True
    changed_in: int = 0
    attributes_in: int = 0
    number: int = 0
    is_deleted: bool = False

    def change(self) -> None:
        if not self.is_marked_changed:
            self.is_marked_changed = True
            self.changes.record(self)

    def delete(self) -> None:
        self.is_deleted = True
        self.changes.end(self)


class Reader:
    """A reader that polls changes in steps."""

    def __init__(self, changes: ChangedQueues) -> None:
        self._changes = changes
        self.since = 0

    def begin(self) -> Poll:
        self._changes.generation += 1
        return Poll(self._changes.generation, self.since, lambda: self._changes.generation)

    def names(self) -> set[str]:
        poll = self.begin()
        deque(self._changes.take(poll), maxlen=0)
        found = self.found(poll)
        self.since = poll.generation
        return found

    def found(self, poll: Poll) -> set[str]:
        changed = self._changes.changed_since(poll.since)
        return {each.name for each in changed if isinstance(each, NamedQueue)}


def three_queues() -> tuple[ChangedQueues, list[NamedQueue]]:
    changes = ChangedQueues()
    queues = [NamedQueue(name, changes) for name in ("a", "b", "c")]
    for queue in queues:
        queue.change()
    return changes, queues


def test_a_change_is_reported_once() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    assert reader.names() == {"a", "b", "c"}
    assert reader.names() == set()
    queues[1].change()
    queues[1].change()
    assert reader.names() == {"b"}
    assert reader.names() == set()


def test_each_reader_has_its_own_place() -> None:
    changes, queues = three_queues()
    first, second = Reader(changes), Reader(changes)
    assert first.names() == {"a", "b", "c"}
    queues[0].change()
    assert first.names() == {"a"}
    assert second.names() == {"a", "b", "c"}
    queues[2].change()
    assert second.names() == {"c"}
    assert first.names() == {"c"}


def test_a_poll_that_is_given_up_loses_nothing() -> None:
    changes, _ = three_queues()
    reader = Reader(changes)
    steps = changes.take(reader.begin())
    next(steps)
    steps.close()
    assert reader.names() == {"a", "b", "c"}


def test_a_change_during_a_poll_is_reported_by_the_next_one() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    poll = reader.begin()
    for _ in changes.take(poll):
        queues[0].change()
    reader.since = poll.generation
    assert reader.names() == {"a"}


def test_a_poll_that_overtakes_another_reports_what_both_found() -> None:
    changes, _ = three_queues()
    slow, quick = Reader(changes), Reader(changes)
    slow_poll = slow.begin()
    steps = changes.take(slow_poll)
    next(steps)
    assert quick.names() == {"a", "b", "c"}
    deque(steps, maxlen=0)
    found = slow.found(slow_poll)
    slow.since = slow_poll.generation
    assert found | slow.names() == {"a", "b", "c"}


def test_a_deleted_queue_is_reported_by_its_number_and_not_kept() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    reader.names()
    number = queues[0].number
    queues[0].delete()
    assert changes.gone_since(reader.since) == [number]
    queues[0].change()
    assert reader.names() == set()
    assert changes.gone_since(reader.since) == []


def test_a_queue_that_is_deleted_before_a_poll_is_never_reported() -> None:
    changes, queues = three_queues()
    queues[0].delete()
    assert Reader(changes).names() == {"b", "c"}
    assert changes.gone_since(0) == []


def test_of_many_deletions_the_oldest_are_forgotten() -> None:
    changes = ChangedQueues()
    reader = Reader(changes)
    for number in range(1, changed_queues.GONE_MAX + 2):
        reader.begin()
        NamedQueue("q", changes, number=number).delete()
    assert changes.lost_until == 1
    assert changes.gone_since(0)[-1] == 2


def test_attributes_are_reported_again_when_they_change() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    reader.names()
    reported_in = queues[0].attributes_in
    queues[0].change()
    reader.names()
    assert queues[0].attributes_in == reported_in
    queues[0].has_new_attributes = True
    queues[0].change()
    reader.names()
    assert queues[0].attributes_in == queues[0].changed_in > reported_in
