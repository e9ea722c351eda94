"""A full collection walks no object that an earlier one has walked, and each walks few."""

import gc
from collections.abc import Iterator
from itertools import count
from typing import Literal

import pytest

from amqp_server.base.garbage_collection import (
    WALK_SECONDS,
    YOUNG_WORK_SECONDS,
    SteppedCollector,
    no_collections,
)


class Part:
    """An object that the collector walks."""


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threshold, callbacks = gc.get_threshold(), gc.callbacks.copy()
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*threshold)
    gc.enable()


@pytest.fixture
def collector() -> SteppedCollector:
    """A collector that was not started."""
    return SteppedCollector()


def is_walked(part: Part) -> bool:
    """Return whether the next full collection walks an object: it walks no frozen one."""
    return any(each is part for each in gc.get_objects())


def test_what_is_alive_after_a_full_collection_is_walked_by_no_later_one(
    collector: SteppedCollector,
) -> None:
    early = Part()
    collector.start()
    late = Part()
    assert not is_walked(early)
    assert is_walked(late)

    gc.collect(1)
    assert is_walked(late), "a younger collection froze an object that may die soon"
    gc.collect()

    assert not is_walked(late)


def test_a_frozen_object_that_is_in_no_cycle_is_freed_when_nothing_refers_to_it(
    collector: SteppedCollector,
) -> None:
    collector.start()
    parts = [Part() for _ in range(100)]
    gc.collect()
    frozen = gc.get_freeze_count()

    del parts

    assert gc.get_freeze_count() <= frozen - 100


def test_no_collection_runs_during_a_start_and_what_it_made_is_frozen_afterwards() -> None:
    with no_collections():
        assert not gc.isenabled()
        made = Part()

    assert gc.isenabled()
    assert not is_walked(made)


def test_a_collector_that_was_off_before_stays_off() -> None:
    gc.disable()

    with no_collections():
        pass

    assert not gc.isenabled()


class Walks:
    """Notes how many objects each collection walks, by generation."""

    def __init__(self) -> None:
        self.most = {0: 0, 1: 0, 2: 0}

    def note(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "start":
            generation = info["generation"]
            walked = sum(len(gc.get_objects(generation=each)) for each in range(generation + 1))
            self.most[generation] = max(self.most[generation], walked)


def test_no_collection_walks_many_objects_although_as_many_die_as_are_made() -> None:
    """Python alone would count no new objects, until it walked all of them in one piece."""
    times = count(0.0, WALK_SECONDS / 4)
    collector = SteppedCollector(lambda: next(times))
    collector.start()
    parts = [Part() for _ in range(60_000)]
    gc.collect()
    walks = Walks()
    gc.callbacks.append(walks.note)
    at = 0
    while at < len(parts):
        for _ in range(500):
            parts[at] = Part()
            at += 1
        collector.note_work(YOUNG_WORK_SECONDS / 4)
    gc.collect()

    assert 2_000 <= walks.most[0] < 3_000, "the youngest objects are walked when 4 ms were worked"
    assert walks.most[2] < 5 * 2_000 + 1_000, "all are walked and frozen when it costs 1 ms"


def test_until_it_is_started_work_collects_nothing(collector: SteppedCollector) -> None:
    late = Part()
    collector.note_work(10.0)
    collector.start()
    collector.stop()
    walks = Walks()
    gc.callbacks.append(walks.note)
    collector.note_work(10.0)

    assert not is_walked(late)
    assert walks.most == {0: 0, 1: 0, 2: 0}


def test_no_work_collects_while_the_collector_rests(collector: SteppedCollector) -> None:
    collector.start()
    walks = Walks()
    with no_collections():
        gc.callbacks.append(walks.note)
        collector.note_work(10.0)

        assert walks.most == {0: 0, 1: 0, 2: 0}
