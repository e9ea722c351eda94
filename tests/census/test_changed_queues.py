"""Queues note that they have changed; each reader gets each change once, or again, never not."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from amqp_server.admin.census.look import Look
from amqp_server.broker import changed_queues
from amqp_server.broker.changed_queues import ChangedQueues


@dataclass(eq=False)
class NamedQueue:
    """What the list of changes needs of a queue."""

    name: str
    changes: ChangedQueues
    is_noted: bool = False
    has_new_facts: bool = True
    changed_in: int = 0
    facts_in: int = 0
    number: int = 0
    is_deleted: bool = False

    def change(self) -> None:
        if not self.is_noted:
            self.is_noted = True
            self.changes.note(self)

    def delete(self) -> None:
        self.is_deleted = True
        self.changes.end(self)


class Reader:
    """A reader that looks at changes in steps."""

    def __init__(self, changes: ChangedQueues) -> None:
        self._changes = changes
        self.since = 0

    def begin(self) -> Look:
        self._changes.generation += 1
        return Look(self._changes.generation, self.since, lambda: self._changes.generation)

    def names(self) -> set[str]:
        look = self.begin()
        deque(self._changes.take(look), maxlen=0)
        found = self.found(look)
        self.since = look.generation
        return found

    def found(self, look: Look) -> set[str]:
        changed = self._changes.changed_since(look.since)
        return {each.name for each in changed if isinstance(each, NamedQueue)}


def three_queues() -> tuple[ChangedQueues, list[NamedQueue]]:
    changes = ChangedQueues()
    queues = [NamedQueue(name, changes) for name in ("a", "b", "c")]
    for queue in queues:
        queue.change()
    return changes, queues


def test_a_change_is_told_once() -> None:
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


def test_a_look_that_is_given_up_loses_nothing() -> None:
    changes, _ = three_queues()
    reader = Reader(changes)
    steps = changes.take(reader.begin())
    next(steps)
    steps.close()
    assert reader.names() == {"a", "b", "c"}


def test_a_change_during_a_look_is_told_by_the_next_one() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    look = reader.begin()
    for _ in changes.take(look):
        queues[0].change()
    reader.since = look.generation
    assert reader.names() == {"a"}


def test_a_look_that_overtakes_another_tells_what_both_found() -> None:
    changes, _ = three_queues()
    slow, quick = Reader(changes), Reader(changes)
    slow_look = slow.begin()
    steps = changes.take(slow_look)
    next(steps)
    assert quick.names() == {"a", "b", "c"}
    deque(steps, maxlen=0)
    found = slow.found(slow_look)
    slow.since = slow_look.generation
    assert found | slow.names() == {"a", "b", "c"}


def test_a_deleted_queue_is_told_by_its_number_and_not_kept() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    reader.names()
    number = queues[0].number
    queues[0].delete()
    assert changes.gone_since(reader.since) == [number]
    queues[0].change()
    assert reader.names() == set()
    assert changes.gone_since(reader.since) == []


def test_a_queue_that_is_deleted_before_a_look_is_never_told() -> None:
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


def test_facts_are_told_again_when_they_change() -> None:
    changes, queues = three_queues()
    reader = Reader(changes)
    reader.names()
    told_in = queues[0].facts_in
    queues[0].change()
    reader.names()
    assert queues[0].facts_in == told_in
    queues[0].has_new_facts = True
    queues[0].change()
    reader.names()
    assert queues[0].facts_in == queues[0].changed_in > told_in
