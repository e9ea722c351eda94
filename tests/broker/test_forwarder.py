"""When messages on their way from one queue into another are moved on."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from amqp_server.broker.transfers.forwarder import STEP_BYTES, STEP_COPIES, Copy, Forwarder
from amqp_server.broker.transfers.transfer_order import TransferOrder
from amqp_server.broker.turn import TaskQueue

if TYPE_CHECKING:
    from amqp_server.broker.counters.owners import CountedExchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.turn import Turn, TurnTask


class Store:
    """Has each message at hand."""

    def window_reader(self) -> None:
        """Give nothing: no message has left the memory."""

    def __init__(self) -> None:
        self.messages = [b"message"] * 1000

    def read(self, start: int, end: int, reader: object) -> list[bytes]:
        return self.messages[start:end]


class FakeQueue:
    """Takes transient messages, runs out of room by it, and counts how often it is woken."""

    refuses_when_full = False
    is_failed = is_stalled = False
    is_deleted = False
    name = "q"

    def __init__(self) -> None:
        self.store = Store()
        self.waiting_confirms: set[object] = set()
        self.wake_count = 0
        self.settled_count = 0

    def publish(
        self, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        self.is_stalled = True
        return len(messages)

    def awaits(self, end_offset: int, flags: int) -> bool:
        return False

    def settle(self, start: int, end: int) -> None:
        self.settled_count += end - start

    def wake(self) -> None:
        self.wake_count += 1


class RoomyQueue(FakeQueue):
    """Takes all it gets, unless it fails."""

    fails = False

    def publish(
        self, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        if self.fails:
            raise LookupError("a mistake")
        return 0


class FakeTurn:
    """Remembers what is to happen later, and runs turns of a forwarder."""

    def __init__(self) -> None:
        self.later: list[TurnTask] = []
        self.transfers = TaskQueue()
        self.order = TransferOrder(cast("Turn", self))
        self.time_slice = SimpleNamespace(is_over=False)
        # Each look at it is a step: all work takes the same time.
        self.stopwatch = itertools.count().__next__
        self.marked: dict[TurnTask, None] = {}

    def mark_after(self, seconds: float, task: TurnTask) -> None:
        self.later.append(task)

    def mark(self, task: TurnTask, task_queue: TaskQueue) -> None:
        assert task_queue is self.transfers
        self.marked[task] = None

    mark_now = mark

    def run(self, *forwarders: Forwarder) -> None:
        """Run the queues' turns, and then what they have marked, once each."""
        for forwarder in forwarders:
            forwarder.run_turn()
        tasks, self.marked = self.marked, {}
        for task in tasks:
            task.run_turn()
        for forwarder in forwarders:
            ranges = [(each.start, each.end) for each in forwarder._transfers()]
            assert forwarder.message_count == sum(end - start for start, end in ranges)


class ToOne:
    """Everything goes to one queue."""

    keeps_unroutable = False

    def __init__(self, queue: FakeQueue) -> None:
        self.queue = cast("Queue", queue)
        self.remembered: list[bytes] = []

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        self.remembered.append(message)
        return Copy((self.queue,), 0, message)
        yield

    def forget(self) -> None:
        self.remembered.clear()


def test_a_queue_is_not_woken_again_and_again_while_there_is_no_room_for_what_leaves_it() -> None:
    source, target, turn = FakeQueue(), FakeQueue(), FakeTurn()
    forwarder = Forwarder(cast("Queue", source), ToOne(target), cast("Turn", turn), turn.order)
    forwarder.add(0, 1000, "rejected")
    turn.run(forwarder)
    turn.run(forwarder)
    assert 0 < source.settled_count < 1000

    woken = source.wake_count
    turn.run(forwarder)
    turn.run(forwarder)
    assert source.wake_count == woken

    assert forwarder in target.waiting_confirms
    target.is_stalled = False
    forwarder.release_confirms()
    assert source.wake_count == woken + 1


def test_a_stopped_queue_is_not_woken_by_room_for_what_it_no_longer_forwards() -> None:
    source, target, turn = FakeQueue(), FakeQueue(), FakeTurn()
    forwarder = Forwarder(cast("Queue", source), ToOne(target), cast("Turn", turn), turn.order)
    forwarder.add(0, 1000, "rejected")
    turn.run(forwarder)
    turn.run(forwarder)
    woken = source.wake_count

    forwarder.stop()
    target.is_stalled = False
    forwarder.release_confirms()
    turn.run(forwarder)
    turn.run(forwarder)

    assert source.wake_count == woken


class ToMany(ToOne):
    """Everything goes to some queues at once."""

    def __init__(self, queues: list[FakeQueue]) -> None:
        self.queues = cast("tuple[Queue, ...]", tuple(queues))

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        return Copy(self.queues, 0, message)
        yield


def test_a_queue_is_woken_once_when_all_full_queues_have_room_again() -> None:
    source, turn = FakeQueue(), FakeTurn()
    targets = [FakeQueue() for _ in range(3)]
    forwarder = Forwarder(cast("Queue", source), ToMany(targets), cast("Turn", turn), turn.order)
    forwarder.add(0, 1000, "rejected")
    turn.run(forwarder)
    turn.run(forwarder)

    for target in targets:
        assert forwarder.awaits_confirms
        woken = source.wake_count
        target.is_stalled = False
        forwarder.release_confirms()
        assert source.wake_count == woken + (target is targets[-1])

    settled = source.settled_count
    turn.run(forwarder)
    turn.run(forwarder)
    assert source.settled_count > settled


class FailsAt(ToOne):
    """Cannot forward one of the messages: a mistake of ours."""

    def __init__(self, queue: FakeQueue, message: bytes) -> None:
        super().__init__(queue)
        self.message = message

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        if message == self.message:
            raise LookupError("a mistake")
        return super().forward(message, reason)


def test_a_message_that_cannot_be_forwarded_stays_and_is_tried_again_and_the_others_leave() -> None:
    source, target = FakeQueue(), RoomyQueue()
    forwarding = FailsAt(target, b"3")
    turn = FakeTurn()
    forwarder = Forwarder(cast("Queue", source), forwarding, cast("Turn", turn), turn.order)
    source.store.messages = [b"%d" % number for number in range(10)]
    forwarder.add(0, 10, "rejected")
    for _ in range(3):
        turn.run(forwarder)
    assert source.settled_count == 9

    forwarding.message = b""
    turn.later.pop().run_turn()
    for _ in range(3):
        turn.run(forwarder)
    assert source.settled_count == 10


class HesitatesAfterwards(FailsAt):
    """Takes a step to find the queue of each message that can be forwarded."""

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        found = super().forward(message, reason)
        yield
        return (yield from found)


def test_a_message_that_cannot_be_forwarded_is_on_its_way_once_while_the_next_is_routed() -> None:
    source, target, turn = FakeQueue(), RoomyQueue(), FakeTurn()
    turn.time_slice.is_over = True
    forwarding = HesitatesAfterwards(target, b"0")
    forwarder = Forwarder(cast("Queue", source), forwarding, cast("Turn", turn), turn.order)
    source.store.messages = [b"0", b"1"]
    forwarder._fan_out = 1
    forwarder.add(0, 2, "rejected")
    turn.run(forwarder)
    assert turn.later, "the first message is kept, and the second one looks for its queue"

    assert sorted(forwarder.in_transit({"rejected"})) == [(0, 1), (1, 2)]
    forwarder.stop()
    assert sorted(forwarder.in_transit({"rejected"})) == [(0, 1), (1, 2)]


def test_messages_that_a_queue_fails_to_take_stay_and_are_tried_again() -> None:
    source, target = FakeQueue(), RoomyQueue()
    turn = FakeTurn()
    forwarder = Forwarder(cast("Queue", source), ToOne(target), cast("Turn", turn), turn.order)
    target.fails = True
    forwarder.add(0, 10, "rejected")
    turn.run(forwarder)
    assert source.settled_count == 0

    target.fails = False
    turn.later.pop().run_turn()
    for _ in range(2):
        turn.run(forwarder)
    assert source.settled_count == 10


class RecordedReader:
    """Knows whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class StoreInLog(Store):
    """Gives out its windows on the log, and has nothing at hand until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[RecordedReader] = []
        self.is_at_hand = False

    def window_reader(self) -> RecordedReader:  # type: ignore[override]
        self.given.append(RecordedReader())
        return self.given[-1]

    def read(self, start: int, end: int, reader: object) -> list[bytes]:
        return super().read(start, end, reader) if self.is_at_hand else []


def test_what_was_read_of_the_log_is_let_go_when_all_have_left_or_none_leaves_any_more() -> None:
    """It kept removed files mapped until the server stopped."""
    source = FakeQueue()
    store = source.store = StoreInLog()
    turn = FakeTurn()
    forwarder = Forwarder(
        cast("Queue", source), ToOne(RoomyQueue()), cast("Turn", turn), turn.order
    )
    forwarder.add(0, 10, "rejected")
    turn.run(forwarder)
    assert [reader.is_closed for reader in store.given] == [False]
    store.is_at_hand = True
    turn.run(forwarder)
    assert [reader.is_closed for reader in store.given] == [True]

    store.is_at_hand = False
    forwarder.add(10, 20, "rejected")
    turn.run(forwarder)
    forwarder.stop()
    assert [reader.is_closed for reader in store.given] == [True, True]


def test_a_rule_remembers_no_message_when_none_waits() -> None:
    """Each queue of a chain kept the headers of the last message, which grow from queue to queue.

    It also looks at one message of many deaths in a step: to change their headers takes long.
    """
    source, rule, turn = FakeQueue(), ToOne(RoomyQueue()), FakeTurn()
    source.store.messages = [bytes(STEP_BYTES)] * 3
    turn.time_slice.is_over = True
    forwarder = Forwarder(cast("Queue", source), rule, cast("Turn", turn), turn.order)
    forwarder.add(0, 1, "rejected")
    turn.run(forwarder)
    turn.run(forwarder)
    assert (forwarder.is_sending, len(rule.remembered)) == (False, 0)
    forwarder.add(1, 3, "rejected")
    looked_at: list[int] = []
    while source.settled_count < 3:
        turn.run(forwarder)
        looked_at.append(len(rule.remembered))
    assert looked_at[0] == 1
    assert rule.remembered == []


def test_forwarders_share_a_turn_in_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them once forwarded 512 messages in each turn, however many there were."""
    order: list[int] = []
    send_some = Forwarder.send_some

    def noted(forwarder: Forwarder) -> None:
        order.append(forwarders.index(forwarder))
        send_some(forwarder)

    monkeypatch.setattr(Forwarder, "send_some", noted)
    turn, target = FakeTurn(), RoomyQueue()
    turn.time_slice.is_over = True
    sources = [FakeQueue() for _ in range(3)]
    forwarders: list[Forwarder] = []
    for source in sources:
        source.store.messages = [b"m"] * (3 * STEP_COPIES)
        forwarder = Forwarder(cast("Queue", source), ToOne(target), cast("Turn", turn), turn.order)
        forwarder.add(0, 3 * STEP_COPIES, "rejected")
        forwarder.run_turn()
        forwarders.append(forwarder)
    while turn.marked:
        turn.run()

    assert order == [0, 1, 2] * 3
    for forwarder in forwarders:
        forwarder.run_turn()
    assert [source.settled_count for source in sources] == [3 * STEP_COPIES] * 3


class LooksForLong(ToOne):
    """Takes many steps to find the queue."""

    def forward(self, message: bytes, reason: str) -> Steps[Copy]:
        for _ in range(10):
            yield
        return (yield from super().forward(message, reason))


def test_a_message_whose_queues_are_not_found_at_the_stop_goes_nowhere_and_stays() -> None:
    source, target, turn = FakeQueue(), RoomyQueue(), FakeTurn()
    turn.time_slice.is_over = True
    forwarder = Forwarder(
        cast("Queue", source), LooksForLong(target), cast("Turn", turn), turn.order
    )
    forwarder.add(0, 1, "rejected")
    turn.run(forwarder)
    turn.run(forwarder)

    forwarder.stop()

    assert forwarder.in_transit({"rejected"}) == [(0, 1)]
    assert source.settled_count == 0
    assert not forwarder.awaits_confirms
