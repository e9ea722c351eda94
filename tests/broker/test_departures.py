"""When messages on their way from one queue into another are moved on."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from amqp_server.broker.transfers.departures import Copy, Departures

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Turn


class Store:
    """Has each message at hand; room can be taken away."""

    is_failed = False
    is_stalled = False

    def cold_reads(self) -> None:
        """Give nothing: no message has left the memory."""

    def read(self, start: int, end: int, cold: object) -> list[bytes]:
        return [b"message"] * (end - start)


class FakeQueue:
    """Takes transient messages, runs out of room by it, and counts how often it is woken."""

    refuses_when_full = False
    is_journaled = False
    is_deleted = False

    def __init__(self) -> None:
        self.store = Store()
        self.waiting_confirms: set[object] = set()
        self.wake_count = 0
        self.settled_count = 0

    def publish(self, messages: list[bytes], flags: int) -> int:
        self.store.is_stalled = True
        return len(messages)

    def settle(self, start: int, end: int) -> None:
        self.settled_count += end - start

    def wake(self) -> None:
        self.wake_count += 1


class ToOne:
    """Everything goes to one queue."""

    keeps_unroutable = False

    def __init__(self, queue: FakeQueue) -> None:
        self.queue = cast("Queue", queue)

    def forward(self, message: bytes, reason: str) -> Copy:
        return Copy((self.queue,), 0, message)


def test_a_queue_is_not_woken_again_and_again_while_there_is_no_room_for_what_leaves_it() -> None:
    source, target = FakeQueue(), FakeQueue()
    departures = Departures(cast("Queue", source), ToOne(target), cast("Turn", None))
    departures.add(0, 1000, "rejected")
    departures.run_turn()
    departures.run_turn()
    assert 0 < source.settled_count < 1000

    woken = source.wake_count
    departures.run_turn()
    departures.run_turn()
    assert source.wake_count == woken

    assert departures in target.waiting_confirms
    target.store.is_stalled = False
    departures.release_confirms()
    assert source.wake_count == woken + 1
