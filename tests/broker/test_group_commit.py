"""When the messages of a queue wait for others, to share one write."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from amqp_server.base.clock import Timer
from amqp_server.base.config import Durability
from amqp_server.broker.storing.group_commit import (
    GROWTH_SECONDS_MAX,
    STEP_STORES,
    GroupCommit,
    WaitingWrites,
)
from amqp_server.broker.storing.storage_settings import StoreSettings
from amqp_server.broker.turn import Turn

INTERVAL_SECONDS = 4 * GROWTH_SECONDS_MAX
MESSAGE_BYTES = 100.0


class Queue:
    """One queue, at a time that the test sets; its last write held two messages."""

    def __init__(self) -> None:
        self.seconds = 100.0
        settings = StoreSettings(Durability.FSYNC, 1000, INTERVAL_SECONDS)
        self.group = GroupCommit(settings, lambda: self.seconds)
        self.group.begin(2)
        self.end_offset = 1

    def waits(self) -> bool:
        return self.group.is_worth_waiting(0, self.end_offset, MESSAGE_BYTES)


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_messages_wait_while_the_queue_grows(queue: Queue) -> None:
    assert queue.waits()
    queue.seconds += 0.75 * GROWTH_SECONDS_MAX
    assert queue.waits()
    queue.end_offset += 1
    assert queue.waits()
    queue.seconds += 0.75 * GROWTH_SECONDS_MAX
    assert queue.waits()
    queue.seconds += 0.75 * GROWTH_SECONDS_MAX
    assert not queue.waits()


def test_the_wait_ends_with_the_interval_however_much_is_published(queue: Queue) -> None:
    begin_seconds = queue.seconds
    while queue.waits():
        queue.seconds += 0.75 * GROWTH_SECONDS_MAX
        queue.end_offset += 1
    assert queue.end_offset * MESSAGE_BYTES < 1000
    assert queue.seconds >= begin_seconds + INTERVAL_SECONDS


def test_a_wait_begins_anew_after_a_write(queue: Queue) -> None:
    assert queue.waits()
    queue.group.begin(2)
    queue.seconds += INTERVAL_SECONDS
    queue.end_offset += 1
    assert queue.waits()


def test_many_octets_do_not_wait(queue: Queue) -> None:
    queue.end_offset = 9
    assert queue.waits()
    queue.end_offset = 10
    assert not queue.waits()


def test_a_message_does_not_wait_if_the_last_one_was_written_alone(queue: Queue) -> None:
    queue.group.begin(1)
    assert not queue.waits()


def test_a_wait_that_has_ended_does_not_begin_again_before_the_write(queue: Queue) -> None:
    assert queue.waits()
    queue.group.end_wait()
    queue.end_offset += 1
    assert not queue.waits()


class Store:
    """A store of which the test says whether its messages should wait."""

    def __init__(self) -> None:
        self.is_worth_waiting = True
        self.asked_count = 0
        self.woken_count = 0

    def wake_for_write(self) -> None:
        self.woken_count += 1


class Server:
    """The waiting writes of a server, and the turns of its loop."""

    def __init__(self) -> None:
        self.turns: list[Callable[[], None]] = []
        self.turn_of_loop = Turn(self.turns.append, self._call_later)
        self.writes = WaitingWrites(self.turn_of_loop)

    def _call_later(self, seconds: float, run: Callable[[], None]) -> Timer:
        raise AssertionError("nothing here waits for time")

    def turn(self) -> None:
        turns, self.turns[:] = self.turns.copy(), []
        for run in turns:
            run()


def test_stores_wait_as_long_as_something_is_published_in_each_turn() -> None:
    server, store, other = Server(), Store(), Store()
    server.writes.arrival_count += 1
    server.writes.add(store)
    for _ in range(3):
        server.writes.arrival_count += 1
        server.writes.add(other)
        server.turn()
    assert (store.woken_count, other.woken_count) == (0, 0)
    server.turn()
    assert (store.woken_count, other.woken_count) == (1, 1)
    assert not server.turns


def test_what_came_before_a_store_waits_is_no_reason_to_wait() -> None:
    server, store = Server(), Store()
    server.writes.arrival_count += 1
    server.writes.add(store)
    server.turn()
    assert store.woken_count == 1


def test_a_store_that_has_waited_enough_is_woken_and_the_others_wait_on() -> None:
    server, store, other = Server(), Store(), Store()
    for each in (store, other):
        server.writes.add(each)
    store.is_worth_waiting = False
    for _ in range(2):
        server.writes.arrival_count += 1
        server.turn()
    assert (store.woken_count, other.woken_count) == (1, 0)


def test_thousands_of_stores_are_looked_at_in_slices_and_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    stores = [Store() for _ in range(3 * STEP_STORES)]
    for store in stores:
        store.is_worth_waiting = False
        server.writes.add(store)
    monkeypatch.setattr(
        server.turn_of_loop, "time_slice", SimpleNamespace(is_over=True, begin=lambda _: None)
    )
    for turn in (1, 2, 3):
        server.writes.arrival_count += 1
        server.turn()
        assert sum(store.woken_count for store in stores) == turn * STEP_STORES
    assert {store.woken_count for store in stores} == {1}


def test_stores_behind_those_that_wait_on_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    patient = [Store() for _ in range(STEP_STORES)]
    last = Store()
    last.is_worth_waiting = False
    for store in (*patient, last):
        server.writes.add(store)
    monkeypatch.setattr(
        server.turn_of_loop, "time_slice", SimpleNamespace(is_over=True, begin=lambda _: None)
    )
    for _ in range(2):
        server.writes.arrival_count += 1
        server.turn()
    assert last.woken_count == 1
    assert not any(store.woken_count for store in patient)
