"""Windows that all readers of a log share: read once, in the order of asking, bounded, fresh."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.storing import log_window
from amqp_server.broker.storing.message_run import MessageRun
from amqp_server.broker.storing.shared_windows import READS_MAX, SharedWindows
from amqp_server.broker.storing.window_budget import WindowBudget
from appendlog import Append, Descriptors, Log, LogOptions, ReadResult, encode_chunk
from appendlog.files.mappings import Mappings
from tests.appendlog.builders import IDENTITY, message

Arrived = Callable[[ReadResult | Exception], None]
COUNT = 30_000
SEGMENT = 3_000
"""Messages of a segment, all of which lie in one window."""
BROKEN = OSError(5, "broken")


class Worker:
    """Runs reads when the test says so."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Callable[[], ReadResult], Arrived]] = []
        self.most = 0

    def __call__(self, read: Callable[[], ReadResult], arrived: Arrived) -> None:
        self.under_way.append((read, arrived))
        self.most = max(self.most, len(self.under_way))

    def run(self, at: int = 0, error: Exception | None = None) -> None:
        """Run one of the reads that are under way."""
        read, arrived = self.under_way.pop(at)
        arrived(read() if error is None else error)

    def run_all(self) -> int:
        """Run reads until none is under way; return how many that were."""
        count = 0
        while self.under_way:
            self.run()
            count += 1
        return count


class Reader:
    """A reader at a place of its own, and what it was told."""

    def __init__(self, windows: SharedWindows) -> None:
        self.windows = windows
        self.told = 0

    def window_arrived(self) -> None:
        self.told += 1

    def ask(self, offset: int) -> None:
        self.windows.ask(offset, self)


class Readings:
    """The windows of one log, and the worker that reads them."""

    def __init__(self, log: Log, held: WindowBudget | None = None) -> None:
        self.worker = Worker()
        self.held = WindowBudget() if held is None else held
        self.windows = SharedWindows(log, self.worker, self.held)

    def reader(self, offset: int | None = None) -> Reader:
        reader = Reader(self.windows)
        if offset is not None:
            reader.ask(offset)
        return reader

    def message_at(self, offset: int) -> bytes:
        found = self.windows.at(offset)
        assert found is not None
        run = found.find(offset, offset + 1)
        assert isinstance(run, MessageRun)
        return run.messages()[0]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    options = LogOptions(segment_bytes=2 << 20, descriptors=Descriptors(4), mappings=Mappings())
    directory: Path = tmp_path_factory.mktemp("shared") / "log"
    log, _ = Log.open(directory, IDENTITY, options)
    for start in range(0, COUNT, 100):
        batch = [message(number, 300) for number in range(start, start + 100)]
        chunk = encode_chunk(batch, start, None, 1_000 + start, None, IDENTITY.salt)
        log.append(Append([chunk], start + 100, sync=False))
        if start % SEGMENT == SEGMENT - 100:
            log.roll()
    return log


@pytest.fixture
def readings(log: Log) -> Readings:
    return Readings(log)


def test_two_who_want_the_same_place_cause_one_read(readings: Readings) -> None:
    first, second = readings.reader(150), readings.reader(150)
    assert len(readings.worker.under_way) == 1
    readings.worker.run()
    assert (first.told, second.told) == (1, 1)
    assert readings.message_at(150) == message(150, 300)
    assert readings.windows.reads == len(readings.windows) == 1


def test_who_comes_by_later_finds_what_is_there(readings: Readings) -> None:
    readings.reader(150)
    readings.worker.run()
    found = readings.windows.at(150)
    assert found is not None
    for offset in (150, 151, found.end - 1):
        assert readings.message_at(offset) == message(offset, 300)
    assert readings.windows.at(149) is readings.windows.at(found.end) is None


def test_ten_followers_cost_the_reading_of_one(readings: Readings) -> None:
    followers = [readings.reader() for _ in range(10)]
    places = [0] * 10
    chance = random.Random(3)
    while min(places) < COUNT:
        at = chance.randrange(10)
        if places[at] >= COUNT or places[at] > min(places) + 2_000:
            continue
        found = readings.windows.at(places[at])
        if found is None:
            followers[at].ask(places[at])
            readings.worker.run_all()
            continue
        run = found.find(places[at], COUNT)
        assert isinstance(run, MessageRun)
        taken = run.messages()[: chance.randrange(1, 1_000)]
        assert taken == [message(places[at] + step, 300) for step in range(len(taken))]
        places[at] += len(taken)
    assert readings.windows.reads == len(readings.windows), "a window was read twice"


def test_readers_at_different_places_meet_and_go_on_together(readings: Readings) -> None:
    one, other = readings.reader(100), readings.reader(1_500)
    readings.worker.run_all()
    places = {one: 100, other: 1_500}
    for _ in range(30):
        for reader, place in places.items():
            found = readings.windows.at(place)
            if found is not None:
                places[reader] = min(found.end, COUNT - 1)
            elif place < COUNT:
                reader.ask(place)
                readings.worker.run_all()
    # One more than a single reader would have had read: where the other began.
    assert readings.windows.reads == len(readings.windows) == COUNT // SEGMENT + 1


def test_several_places_are_read_at_once_and_never_more_than_a_few(readings: Readings) -> None:
    readers = [readings.reader(offset) for offset in range(0, COUNT, 200)]
    assert len(readings.worker.under_way) == READS_MAX
    readings.worker.run_all()
    assert readings.worker.most == READS_MAX
    assert all(reader.told == 1 for reader in readers)


def test_who_asked_first_is_served_first(readings: Readings) -> None:
    order = [at * SEGMENT + at for at in (0, 3, 9, 8, 1, 4, 2, 6)]
    told: list[int] = []
    for offset in order:
        reader = readings.reader()
        reader.window_arrived = lambda offset=offset: told.append(offset)  # type: ignore[method-assign,misc]
        reader.ask(offset)
    readings.worker.run_all()
    assert told == order


def test_who_waits_for_a_place_that_a_read_is_likely_to_bring_waits_for_that_read(
    readings: Readings,
) -> None:
    readings.reader(0)
    readings.worker.run()
    begins = readings.reader(SEGMENT)
    near = readings.reader(SEGMENT + SEGMENT // 3)
    far = readings.reader(3 * SEGMENT)
    assert len(readings.worker.under_way) == 2
    readings.worker.run_all()
    assert (begins.told, near.told, far.told) == (1, 1, 1)
    assert readings.windows.reads == 3


def test_who_waited_for_a_read_in_vain_has_its_own_next(readings: Readings) -> None:
    readings.reader(0)
    readings.worker.run()
    begins = readings.reader(2 * SEGMENT - 10)
    near = readings.reader(2 * SEGMENT + 10)
    assert len(readings.worker.under_way) == 1
    readings.worker.run()
    assert (begins.told, near.told) == (1, 0)
    assert readings.worker.run_all() == 1
    assert (begins.told, near.told) == (1, 1)
    assert readings.message_at(2 * SEGMENT + 10) == message(2 * SEGMENT + 10, 300)


def test_what_was_asked_for_and_left_again_is_not_read(readings: Readings) -> None:
    for at in range(READS_MAX):
        readings.reader(at * SEGMENT)
    patient, hasty = readings.reader(6 * SEGMENT), readings.reader(7 * SEGMENT)
    hasty.ask(8 * SEGMENT)
    patient.windows.forget(patient)
    assert readings.worker.run_all() == READS_MAX + 1
    assert (patient.told, hasty.told) == (0, 1)
    assert readings.windows.at(6 * SEGMENT) is readings.windows.at(7 * SEGMENT) is None


def test_a_place_is_read_ahead_only_while_nobody_waits_and_there_is_room(log: Log) -> None:
    readings = Readings(log)
    readings.windows.ask_ahead(0)
    readings.windows.ask_ahead(0)
    waits = readings.reader(0)
    assert len(readings.worker.under_way) == 1
    readings.worker.run()
    assert waits.told == 1
    readings.windows.ask_ahead(10)
    assert readings.worker.under_way == []

    for at in range(1, 1 + READS_MAX):
        readings.reader(at * SEGMENT)
    readings.windows.ask_ahead(9 * SEGMENT)
    assert len(readings.worker.under_way) == READS_MAX
    readings.worker.run_all()
    assert readings.windows.at(9 * SEGMENT) is None

    full = Readings(log, WindowBudget(bytes_max=3 * readings.held.held_bytes // READS_MAX))
    for at in range(5):
        full.windows.ask_ahead(at * SEGMENT)
        full.worker.run_all()
    assert full.windows.reads == 2, "the next one read ahead could push out what is in use"


def test_a_read_that_fails_is_told_to_all_who_wait_for_it_and_repeated(
    readings: Readings, caplog: pytest.LogCaptureFixture
) -> None:
    readings.reader(0)
    readings.worker.run()
    begins, near = readings.reader(SEGMENT), readings.reader(SEGMENT + 100)
    assert len(readings.worker.under_way) == 1

    readings.worker.run(error=BROKEN)

    assert "read failed" in caplog.text
    assert "offset=3000 error=" in caplog.text
    # The other one's place may be in another file, which works.
    assert (begins.told, near.told) == (1, 0)
    assert len(readings.worker.under_way) == 1
    begins.ask(SEGMENT)
    readings.worker.run_all()
    assert (begins.told, near.told) == (2, 1)
    assert readings.windows.failed_reads == 1
    assert readings.message_at(SEGMENT) == message(SEGMENT, 300)


def test_a_window_that_was_kept_for_long_is_read_again(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings.reader(0)
    readings.worker.run()
    monkeypatch.setattr(log_window, "WINDOW_SECONDS", -1.0)
    assert readings.windows.at(0) is None
    assert len(readings.windows) == readings.held.held_bytes == 0
    monkeypatch.undo()
    readings.reader(0)
    readings.worker.run()
    assert readings.message_at(0) == message(0, 300)


def test_all_logs_together_hold_no_more_than_is_allowed(log: Log) -> None:
    readings = Readings(log)
    readings.reader(0)
    readings.worker.run()
    one_bytes = readings.held.held_bytes
    assert 0 < one_bytes < 100_000, "places only: the messages are mapped"

    held = WindowBudget(bytes_max=3 * one_bytes)
    logs = [Readings(log, held) for _ in range(5)]
    for offset in range(0, COUNT, SEGMENT):
        for each in logs:
            each.reader(offset)
            each.worker.run_all()
            assert held.held_bytes <= 3 * one_bytes
            assert each.message_at(offset) == message(offset, 300)
    assert sum(len(each.windows) for each in logs) == len(held) >= 3
    for each in logs:
        each.windows.clear()
    assert held.held_bytes == len(held) == 0


def test_windows_are_small_where_many_share_the_memory(log: Log) -> None:
    readings = Readings(log)
    readings.reader(0)
    readings.worker.run()
    one_bytes = readings.held.held_bytes
    crowded = Readings(log, WindowBudget(bytes_max=3 * one_bytes // 2))
    lengths = []
    for at in range(3):
        crowded.reader(at * SEGMENT)
        crowded.worker.run()
        found = crowded.windows.at(at * SEGMENT)
        assert found is not None
        lengths.append(found.end - found.start)
    assert lengths[0] == SEGMENT
    assert 0 < lengths[1] < SEGMENT // 2
    # What was pushed out makes room again.
    assert lengths[2] in (lengths[1], SEGMENT)


def test_what_is_used_stays_and_what_is_not_used_goes_first(log: Log) -> None:
    readings = Readings(log)
    for offset in (0, 4_000):
        readings.reader(offset)
    readings.worker.run_all()
    small = Readings(log, WindowBudget(bytes_max=readings.held.held_bytes + 100))
    for offset in (0, 4_000):
        small.reader(offset)
    small.worker.run_all()
    assert small.windows.at(0) is not None
    small.reader(8_000)
    small.worker.run_all()
    assert small.windows.at(4_000) is None
    assert small.windows.at(0) is not None


@given(st.integers(0, 1 << 32))
def test_whoever_asks_is_told_whatever_else_happens(log: Log, seed: int) -> None:
    """Reads that end in any order or fail, windows that are too old, readers that leave."""
    chance = random.Random(seed)
    readings = Readings(log, WindowBudget(bytes_max=chance.choice([1, 60_000, 1 << 20])))
    windows, worker = readings.windows, readings.worker
    waiting: dict[Reader, int] = {}
    for _ in range(150):
        action = chance.random()
        if action < 0.4:
            reader = readings.reader()
            offset = chance.choice([chance.randrange(COUNT), chance.randrange(10) * SEGMENT])
            waiting[reader] = offset
            reader.ask(offset)
        elif action < 0.5:
            windows.ask_ahead(chance.randrange(COUNT))
        elif action < 0.55 and waiting:
            gone = chance.choice(list(waiting))
            windows.forget(gone)
            del waiting[gone]
        elif action < 0.6 and len(windows):
            chance.choice(list(windows._windows.values())).read_at_seconds -= 60
        elif worker.under_way:
            error = BROKEN if chance.random() < 0.2 else None
            worker.run(chance.randrange(len(worker.under_way)), error)
        waiting = {reader: place for reader, place in waiting.items() if not reader.told}
        assert windows._starts == sorted(windows._windows)
        assert len(readings.held) == len(windows) <= 1 or readings.held.held_bytes <= 1 << 20
        assert windows.held_bytes == readings.held.held_bytes
    worker.run_all()
    assert worker.most <= READS_MAX
    assert all(reader.told for reader in waiting)


def test_behind_the_end_of_the_log_there_is_nothing_and_nobody_waits_for_it(
    readings: Readings,
) -> None:
    reader = readings.reader(COUNT)
    readings.worker.run_all()
    assert reader.told == 1
    assert readings.windows.at(COUNT) is None


def test_after_a_close_nobody_is_told_and_nothing_is_kept(readings: Readings) -> None:
    reader, ready = readings.reader(0), readings.reader(6_000)
    readings.worker.run(1)
    readings.windows.close()
    readings.worker.run_all()
    late = readings.reader(0)
    assert readings.worker.under_way == []
    assert (reader.told, ready.told, late.told) == (0, 1, 0)
    assert len(readings.windows) == readings.held.held_bytes == 0


def test_where_records_were_removed_a_window_tells_which_is_the_next(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes=20_000, descriptors=Descriptors(4), mappings=Mappings())
    log, _ = Log.open(tmp_path / "log", IDENTITY, options)
    for at in range(0, 400, 20):
        batch = [message(number, 300) for number in range(at, at + 20)]
        log.append(
            Append([encode_chunk(batch, at, None, at, None, IDENTITY.salt)], at + 20, sync=False)
        )
    log.remove_settled(100)
    first = log.log_start_offset
    assert 0 < first <= 100
    readings = Readings(log)
    readings.reader(5)
    readings.worker.run()
    found = readings.windows.at(5)
    assert found is not None
    assert found.find(5, 400) is None
    assert found.first_from(5) == first
    assert found.first_from(first + 1) == first + 1
    log.close()
