"""A bounded memory of lookups: what is used stays, the rest is forgotten in time."""

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.routing.recently_used import RecentlyUsed

ROOM = 4


@given(keys=st.lists(st.integers(0, 20), max_size=200))
def test_it_never_holds_more_than_two_generations_and_never_a_wrong_value(keys: list[int]) -> None:
    memory: RecentlyUsed[int, str] = RecentlyUsed(ROOM)
    for key in keys:
        value = memory.get(key)
        if value is None:
            memory.put(key, str(key))
        else:
            assert value == str(key)
        assert len(memory) <= 2 * ROOM


@given(others=st.lists(st.integers(1, ROOM - 1), max_size=50))
def test_as_many_keys_as_there_is_room_for_are_all_kept(others: list[int]) -> None:
    memory: RecentlyUsed[int, str] = RecentlyUsed(ROOM)
    for key in range(ROOM):
        memory.put(key, str(key))
    for key in others:
        assert memory.get(key) == str(key)
    assert memory.get(0) == "0"


def test_what_is_used_again_outlives_what_is_not() -> None:
    memory: RecentlyUsed[int, str] = RecentlyUsed(ROOM)
    memory.put(0, "used")
    memory.put(1, "not used")
    for key in range(2, 20):
        assert memory.get(0) == "used"
        memory.put(key, "other")
    assert memory.get(1) is None


def test_what_is_forgotten_is_in_neither_generation() -> None:
    memory: RecentlyUsed[int, str] = RecentlyUsed(1)
    memory.put(0, "old")
    memory.put(1, "new")
    memory.forget(0)
    memory.forget(1)
    assert memory.get(0) is None
    assert memory.get(1) is None
    memory.put(2, "again")
    memory.clear()
    assert len(memory) == 0


@given(keys=st.lists(st.integers(0, 9), max_size=200))
def test_values_count_by_their_weights(keys: list[int]) -> None:
    heaviest = 9
    memory: RecentlyUsed[int, int] = RecentlyUsed(ROOM, weight_of=lambda value: value)
    held = 0
    for key in keys:
        memory.put(key, key)
        assert memory.recent[key] == key
        held = sum(memory.recent.values()) + sum(memory._older.values())
        assert held < 2 * (ROOM + heaviest)


def test_a_value_that_is_replaced_counts_once() -> None:
    memory: RecentlyUsed[int, str] = RecentlyUsed(ROOM)
    for key in range(ROOM - 1):
        memory.put(key, "other")
    for _ in range(10 * ROOM):
        memory.put(ROOM, "replaced")
    assert len(memory.recent) == ROOM


def test_who_looks_into_it_sees_that_everything_is_forgotten() -> None:
    """A batch of publishes is looked up between its steps, in which routes may be forgotten."""
    memory: RecentlyUsed[int, str] = RecentlyUsed(ROOM)
    recent = memory.recent
    memory.put(0, "old")
    memory.clear()
    assert not recent
    for key in range(ROOM):
        memory.put(key, "new")
    assert recent is memory.recent
    assert len(recent) == ROOM
