"""Readers of one store, each at a place of its own: what was published, whatever became of it."""

from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.storing.store_reader import StoreReader
from appendlog import FileSystem
from tests.broker.store_bench import MakeBench, StoreBench


class BrokenReads(FileSystem):
    """Its segments cannot be read as long as a test wants."""

    is_broken = True

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        if self.is_broken:
            raise OSError(5, "broken")
        return super().pread(descriptor, size, position)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        if self.is_broken:
            raise OSError(5, "broken")
        return super().read_into(descriptor, buffer, position)


class Reader:
    """A reader, and what it was told."""

    def __init__(self, bench: StoreBench, place: int) -> None:
        self.bench = bench
        self.place = place
        self.arrived = 0
        self.lost: list[tuple[int, int]] = []
        self.reader = StoreReader(bench.store, self.note_arrived, self.note_lost)

    def note_arrived(self) -> None:
        self.arrived += 1

    def note_lost(self, start: int, end: int) -> None:
        assert start == self.place
        self.lost.append((start, end))
        self.place = end

    def read_on(self, most: int = 100) -> bool:
        """Read what is at hand; return whether there was something."""
        end = min(self.place + most, self.bench.store.cursor)
        found = messages_of(self.reader.read_run(self.place, end))
        expected = self.bench.expected
        assert found == [expected[self.place + at] for at in range(len(found))]
        self.place += len(found)
        return bool(found)

    def read_all(self) -> None:
        while self.place < self.bench.store.cursor:
            if not self.read_on() and not self.arrived:
                self.bench.take_report()
            self.arrived = 0


def test_readers_at_different_places_get_everything_in_order(bench: MakeBench) -> None:
    store = bench(is_journaled=True, segment_bytes=100_000)
    for _ in range(20):
        store.publish(400)
        store.settle_down()
    readers = [Reader(store, place) for place in range(0, 8_000, 160)]
    while any(reader.place < 8_000 for reader in readers):
        waiting = 0
        for reader in readers:
            if reader.place < 8_000 and not reader.read_on(37):
                waiting += 1
        if waiting:
            store.settle_down()
    assert not any(reader.lost for reader in readers)
    windows = store.store.windows.shared
    assert windows.reads < len(readers), "most of them found what others had read"


def test_what_retention_removed_is_told_to_whoever_is_there(bench: MakeBench) -> None:
    store = bench(is_journaled=True, segment_bytes=20_000)
    store.publish(1_000)
    store.settle_down()
    store.publish(1_000)
    store.settle_down()
    store.ring.release(1_500)
    assert store.log.remove_settled(900)
    first = store.log.log_start_offset
    assert 0 < first <= 900
    behind, ahead = Reader(store, 10), Reader(store, first)
    behind.read_all()
    ahead.read_all()
    assert behind.lost == [(10, first)]
    assert ahead.lost == []


def test_what_a_transient_queue_never_wrote_is_told(bench: MakeBench) -> None:
    store = bench(is_journaled=False)
    store.publish(900)
    store.settle_down()
    written = store.store.written_end
    assert 0 < written < 600
    store.settle(0, 700)
    store.publish(10)
    reader = Reader(store, 5)
    assert store.ring.window_start == 700
    reader.read_all()
    # Those too that the log has: a window of it is nothing to a queue that has moved on.
    assert reader.lost[-1] == (written, 700)


def test_a_read_that_fails_is_repeated_and_nothing_is_lost(bench: MakeBench) -> None:
    filesystem = BrokenReads()
    store = bench(is_journaled=True, filesystem=filesystem)
    store.publish(1_000)
    store.settle_down()
    store.ring.release(1_000)
    first, second = Reader(store, 10), Reader(store, 10)
    assert not first.read_on()
    assert not second.read_on()
    store.settle_down()
    assert (first.arrived, second.arrived) == (1, 1)
    assert store.store.windows.shared.failed_reads == 1

    filesystem.is_broken = False
    first.read_all()
    second.read_all()
    assert first.lost == second.lost == []


def test_a_reader_that_is_closed_hears_nothing(bench: MakeBench) -> None:
    store = bench(is_journaled=True)
    store.publish(1_000)
    store.settle_down()
    store.ring.release(1_000)
    one, other = Reader(store, 0), Reader(store, 0)
    one.read_on()
    other.read_on()
    one.reader.close()
    store.settle_down()
    assert (one.arrived, other.arrived) == (0, 1)


def test_a_deleted_queue_stops_all_readers(bench: MakeBench) -> None:
    store = bench(is_journaled=True)
    store.publish(1_000)
    store.settle_down()
    store.ring.release(1_000)
    reader = Reader(store, 0)
    reader.read_on()
    store.store.discard()
    store.settle_down()
    assert reader.arrived == 0
    assert len(store.store.windows.shared) == 0
