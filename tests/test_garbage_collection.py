"""A full collection walks no object that an earlier one has walked."""

import gc
from collections.abc import Iterator

import pytest

from amqp_server.garbage_collection import collect_in_steps, no_collections


class Part:
    """An object that the collector walks."""


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    threshold, callbacks = gc.get_threshold(), gc.callbacks.copy()
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*threshold)
    gc.unfreeze()
    gc.enable()


def is_walked(part: Part) -> bool:
    """Return whether the next full collection walks an object: it walks no frozen one."""
    return any(each is part for each in gc.get_objects())


def test_what_is_alive_after_a_full_collection_is_walked_by_no_later_one() -> None:
    early = Part()
    collect_in_steps()
    late = Part()
    assert not is_walked(early)
    assert is_walked(late)

    gc.collect(1)
    assert is_walked(late), "a younger collection froze an object that may die soon"
    gc.collect()

    assert not is_walked(late)


def test_a_frozen_object_that_is_in_no_cycle_is_freed_when_nothing_refers_to_it() -> None:
    collect_in_steps()
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
