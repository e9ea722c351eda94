"""Windows on a log: read ahead, bounded together, used for a while only, delivered in place."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from mmap import mmap
from pathlib import Path

import pytest

from amqp_server.broker.storing import log_window
from amqp_server.broker.storing.message_run import MessageRun, find_run, messages_of
from amqp_server.broker.storing.window_budget import WindowBudget
from amqp_server.broker.storing.window_reader import WindowReader
from amqp_server.protocol.framing import encode_deliveries
from appendlog import Append, Descriptors, Log, LogOptions, ReadResult, Records, encode_chunk
from appendlog.files.mappings import Mappings
from tests.appendlog.builders import IDENTITY, append, message, messages

Read = Callable[[], ReadResult]
Arrived = Callable[[ReadResult | Exception], None]
COUNT = 12_000
"""Messages of the log: more than three windows of them."""


class Worker:
    """Runs reads when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Read, Arrived]] = []
        self.starts: list[int] = []

    def __call__(self, read: Read, arrived: Arrived) -> None:
        self.waiting.append((read, arrived))

    def run(self, error: Exception | None = None) -> None:
        """Run the one read that waits."""
        ((read, arrived),) = self.waiting
        self.waiting.clear()
        arrived(read() if error is None else error)


class Reader:
    """A reader of a log, and what it was told."""

    def __init__(self, log: Log, windows: WindowBudget | None = None) -> None:
        self.worker = Worker()
        self.windows = WindowReader(
            log, self.worker, WindowBudget() if windows is None else windows
        )
        self.arrived: list[int] = []
        self.ahead = 0

    def begin(self, start: int) -> None:
        self.windows.begin(start, lambda start, _: self.arrived.append(start))

    def begin_ahead(self, until: int = COUNT) -> None:
        self.windows.begin_ahead(until, self._arrived_ahead)

    def _arrived_ahead(self) -> None:
        self.ahead += 1

    def read(self, start: int) -> MessageRun:
        self.begin(start)
        self.worker.run()
        run = self.windows.get(start, COUNT)
        assert isinstance(run, MessageRun)
        return run


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    options = LogOptions(segment_bytes=1 << 20, descriptors=Descriptors(4), mappings=Mappings())
    directory: Path = tmp_path_factory.mktemp("windows") / "log"
    log, _ = Log.open(directory, IDENTITY, options)
    for start in range(0, COUNT, 100):
        chunk_end = start + 100
        log.append(Append([_large_chunk(start, chunk_end)], chunk_end, sync=False))
    return log


def _large_chunk(start: int, end: int) -> bytes:
    batch = [message(number, 300) for number in range(start, end)]
    return encode_chunk(batch, start, None, 1_000 + start, None, IDENTITY.salt)


def test_what_is_at_hand_is_in_a_mapping_and_the_same_as_copies(log: Log) -> None:
    reader = Reader(log)
    run = reader.read(150)
    assert isinstance(run._records.buffer, mmap)
    expected = [message(number, 300) for number in range(150, 150 + len(run))]
    assert run.messages() == messages_of(run) == expected
    assert messages_of(expected) is expected
    places = (7, b"tag", 5, True, 4_096)
    assert run.encode(*places) == encode_deliveries(expected, *places)
    assert reader.arrived == [150]


def test_the_next_window_is_read_while_this_one_is_used_and_nothing_is_read_twice(
    log: Log,
) -> None:
    reader = Reader(log)
    end = len(reader.read(0))
    reader.begin_ahead()
    reader.begin_ahead()
    assert reader.windows.get(0, 3) is not None
    reader.worker.run()
    assert reader.ahead == 1

    run = reader.windows.get(end, COUNT)

    assert isinstance(run, MessageRun)
    assert run.messages()[0] == message(end, 300)
    assert reader.worker.waiting == []
    # The window before is gone, a third one is not read before there is room.
    assert reader.windows.get(0, 3) is None
    reader.begin_ahead()
    assert len(reader.worker.waiting) == 1
    assert reader.windows.end_offset == end + len(run)


def test_nothing_is_read_ahead_behind_the_given_end(log: Log) -> None:
    reader = Reader(log)
    end = len(reader.read(0))
    reader.begin_ahead(until=end)
    assert reader.worker.waiting == []


def test_a_failed_read_ahead_is_told_and_forgotten(log: Log) -> None:
    reader = Reader(log)
    end = len(reader.read(0))
    reader.begin_ahead()
    reader.worker.run(OSError(5, "broken"))
    assert reader.ahead == 1
    assert reader.windows.get(0, 1) is not None
    assert reader.windows.get(end, COUNT) is None
    assert reader.read(end).messages()[0] == message(end, 300)


def test_what_was_read_ahead_is_used_though_all_before_it_is_settled(log: Log) -> None:
    reader = Reader(log)
    end = len(reader.read(0))
    reader.begin_ahead()
    reader.windows.release_settled(end - 1)
    assert reader.windows.get(0, 3) is not None
    reader.windows.release_settled(end)
    assert reader.windows.get(0, 3) is reader.windows.get(end, COUNT) is None
    # The consumer asks for the next message before it has come: it is under way.
    reader.begin(end)
    reader.worker.run()
    run = reader.windows.get(end, COUNT)
    assert isinstance(run, MessageRun)
    assert run.messages()[0] == message(end, 300)
    assert (reader.ahead, reader.windows.reads, reader.worker.waiting) == (1, 2, [])


def test_what_was_read_ahead_of_a_place_that_was_left_is_not_used(log: Log) -> None:
    reader = Reader(log)
    reader.read(0)
    reader.begin_ahead()
    reader.windows.clear()
    reader.worker.run()
    assert reader.ahead == 1
    assert reader.windows.end_offset == 0


def test_a_window_that_was_kept_for_long_is_read_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(log)
    reader.read(0)
    monkeypatch.setattr(log_window, "WINDOW_SECONDS", -1.0)
    assert reader.windows.get(0, 3) is None
    assert reader.windows.end_offset == 0


def test_a_window_whose_file_has_become_shorter_is_not_used(tmp_path: Path) -> None:
    """Using it would end the process with SIGBUS."""
    options = LogOptions(segment_bytes=8_000, descriptors=Descriptors(4), mappings=Mappings())
    log, _ = Log.open(tmp_path / "log", IDENTITY, options)
    for start in range(0, 100, 10):
        log.append(Append([_large_chunk(start, start + 10)], start + 10, sync=False))
    reader = Reader(log)
    assert isinstance(reader.read(0)._records.buffer, mmap)
    os.truncate(log.segments[0].path, log.segments[0].data_bytes - 1)
    assert reader.windows.get(0, 3) is None
    assert reader.windows.end_offset == 0


def test_all_readers_together_hold_no_more_than_is_allowed(log: Log) -> None:
    windows = WindowBudget()
    Reader(log, windows).read(0)
    one_bytes = windows.held_bytes
    assert 0 < one_bytes < 100_000, "places only: the messages are mapped"

    windows = WindowBudget(bytes_max=3 * one_bytes)
    readers = [Reader(log, windows) for _ in range(10)]
    for reader in readers:
        reader.read(0)
        assert windows.held_bytes <= 3 * one_bytes
    at_hand = [reader.windows.get(0, 3) is not None for reader in readers]
    assert at_hand == [False] * 7 + [True] * 3
    for reader in readers:
        reader.windows.clear()
    assert windows.held_bytes == len(windows) == 0


def test_a_reader_that_is_closed_holds_nothing_whatever_still_arrives(log: Log) -> None:
    windows = WindowBudget()
    reader = Reader(log, windows)
    reader.read(0)
    reader.begin_ahead()
    reader.windows.close()
    assert len(windows) == windows.held_bytes == 0
    reader.worker.run()
    assert reader.ahead == 1
    assert len(windows) == windows.held_bytes == 0


def test_one_reader_always_gets_its_window(log: Log) -> None:
    reader = Reader(log, WindowBudget(bytes_max=1))
    assert reader.read(0).messages()[0] == message(0, 300)


def _laid_out(offsets: list[int] | range) -> Records:
    buffer, positions, lengths = b"", array("I"), array("I")
    for offset in offsets:
        positions.append(len(buffer))
        lengths.append(len(message(offset)))
        buffer += message(offset)
    places = offsets if isinstance(offsets, range) else array("q", offsets)
    return Records(buffer, places, positions, lengths, array("q"))


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (3, 99, [3, 4, 5]),
        (3, 5, [3, 4]),
        (4, 99, [4, 5]),
        (5, 99, [5]),
        (8, 99, [8]),
        (10, 99, [10, 11, 12]),
        (12, 13, [12]),
        (0, 99, None),
        (6, 99, None),
        (9, 99, None),
        (13, 99, None),
    ],
)
def test_a_run_ends_before_the_first_gap(start: int, end: int, found: list[int] | None) -> None:
    run = find_run(_laid_out([3, 4, 5, 8, 10, 11, 12]), start, end)
    if found is None:
        assert run is None
    else:
        assert run is not None
        assert run.messages() == [message(offset) for offset in found]


def test_without_gaps_a_run_is_found_by_counting() -> None:
    records = _laid_out(range(10, 20))
    for start, end, expected in ((10, 12, 2), (19, 40, 1), (12, 99, 8)):
        run = find_run(records, start, end)
        assert run is not None
        assert run.messages() == messages(start, start + expected)
    assert find_run(records, 9, 99) is None
    assert find_run(records, 20, 99) is None


def test_a_run_is_cut_to_a_size_and_keeps_at_least_one_message() -> None:
    run = find_run(_laid_out(range(10)), 2, 10)
    assert run is not None
    size = len(message(0))
    assert run.up_to(8 * size) is run
    for bytes_max, count in ((8 * size - 1, 7), (3 * size, 3), (3 * size - 1, 2), (1, 1)):
        assert run.up_to(bytes_max).messages() == messages(2, 2 + count), bytes_max


def test_a_segment_that_grows_is_read_by_copy(tmp_path: Path) -> None:
    log, _ = Log.open(tmp_path / "log", IDENTITY, LogOptions(descriptors=Descriptors(4)))
    append(log, 0, 10, sync=False)
    reader = Reader(log)
    reader.begin(0)
    reader.worker.run()
    run = reader.windows.get(0, 10)
    assert isinstance(run, MessageRun)
    assert run.messages() == messages(0, 10)
    assert isinstance(run._records.buffer, bytes), "a segment that grows is not mapped"
    log.close()
