"""No record is passed over, whatever a signal handler raises in a consumer, and when.

A record may come twice. It may not count as done when nobody was given it.
"""

import gc
import itertools
import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from appendlog import LogClosedError, LogFollower
from offsets import ConsumedBatch, Consumer, LogNotFoundError, LogRoot, ProcessOptions
from tests.embedded.consumers import SMALL_SEGMENTS, consumer, drain, fill
from tests.embedded.interruptions import Countdown, Signals, every_place, interrupted
from tests.embedded.logs import open_writer, read_on

LOGS = ("a", "b")
numbers = itertools.count()


class Reader:
    """Consumes two logs of its own in every way there is, and remembers what it was given.

    Attributes:
        logs: Names of the logs.
        given: Offsets that polls have returned, by log.
    """

    def __init__(self, root: LogRoot) -> None:
        number = next(numbers)
        self.logs = [f"{number}-{name}" for name in LOGS]
        self.given: dict[str, set[int]] = {name: set() for name in self.logs}
        self._root = root
        self._chance = random.Random(number)
        for name in self.logs:
            fill(root, name, 5)
        filesystem = UnsyncedFileSystem()
        self.consumer = consumer(root, f"g-{number}", f"{number}-*", filesystem=filesystem)

    def tell(self) -> None:
        """Poll, ack in and out of order, commit, sync; and more records come meanwhile."""
        for number in range(6):
            if number % 2:
                for name in self.logs:
                    fill(self._root, name, 9)
            batch = self.consumer.poll(4)
            assert batch is not None
            self.given[batch.log] |= set(batch.offsets)
            if number % 3:
                for offset in self._chance.sample(batch.offsets, 2):
                    self.consumer.ack(batch.log, offset)
            else:
                self.consumer.ack_batch(batch)
            if number == 4:
                self.consumer.sync()

    def go_on(self) -> None:
        """Say of all that comes now that all below is done."""
        while (batch := self.consumer.poll(7)) is not None:
            assert batch.payloads == [b"%d" % offset for offset in batch.offsets]
            self.given[batch.log] |= set(batch.offsets)
            with suppress(Exception):
                # Retention and acks may have taken the floor on.
                self.consumer.commit(batch.log, batch.end)
        self.consumer.sync()

    def check(self) -> None:
        """Check that all records were given out, and that the group knows it."""
        for name in self.logs:
            end = self._root.log(name).recovery_point
            assert self.given[name] >= set(range(end))
            assert self.consumer.committed(name) == end
        self.consumer.close()


@pytest.mark.crash
def test_an_exception_anywhere_passes_over_no_record(root: LogRoot) -> None:
    def tell(countdown: Countdown) -> None:
        reader = Reader(root)
        with interrupted(countdown):
            reader.tell()
        root.sync()
        reader.go_on()
        reader.check()

    assert every_place(tell, 30) > 1_000


def test_a_batch_that_a_poll_did_not_return_is_that_of_the_next(root: LogRoot) -> None:
    root.append_batch("a", [b"x"] * 2_000)
    root.sync()
    with consumer(root, discovery_interval_seconds=60.0) as reader:
        for at in itertools.count(1):
            batch, countdown = None, Countdown(at)
            with interrupted(countdown):
                batch = reader.poll(1)
            batch = batch or reader.poll(1)
            assert batch is not None
            assert batch.offsets == [at - 1]
            if countdown.seen <= at:
                break
    assert at > 50


def open_below(folder: Path) -> int:
    """Return how many files of a folder this process has open."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += path.readlink().is_relative_to(folder)
    return found


def test_a_state_that_is_read_again_leaves_no_file_open(root: LogRoot) -> None:
    fill(root, "a", 5)
    with consumer(root) as reader:
        before = None
        for _ in range(3):
            # What an interrupted change leaves.
            reader._unsure.add("a")
            assert reader.poll(1) is not None
            gc.collect()
            files = open_below(root.path)
            assert files == (before or files) > 0
            before = files


@pytest.mark.crash
# What is raised while an object goes reaches nobody.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_close_that_is_interrupted_writes_and_gives_up_all_the_same(root: LogRoot) -> None:
    groups = itertools.count()
    for name in LOGS:
        fill(root, name, 5)

    def tell(countdown: Countdown) -> None:
        group = f"group-{next(groups)}"
        reader = consumer(root, group)
        reader.ack_range("a", 0, 3)
        reader.ack("b", 2)
        with interrupted(countdown):
            reader.close()
        with consumer(root, group) as again:
            assert again.committed("a") == 3
            assert drain(again) == {"a": [3, 4], "b": [0, 1, 3, 4]}

    assert every_place(tell, 40) > 100


@pytest.mark.crash
@pytest.mark.parametrize("is_single", [True, False])
def test_a_process_that_is_interrupted_leaves_nothing_out(root: LogRoot, is_single: bool) -> None:
    groups = itertools.count()
    for name in LOGS:
        fill(root, name, 12)
    options = ProcessOptions(5, is_single=is_single, until_idle=True)

    def tell(countdown: Countdown) -> None:
        handled: dict[str, set[int]] = {name: set() for name in LOGS}
        with consumer(root, f"group-{next(groups)}", filesystem=UnsyncedFileSystem()) as reader:
            for each in (countdown, Countdown(None)):
                with interrupted(each):
                    reader.process(lambda batch: handled[batch.log].update(batch.offsets), options)
            assert handled == {name: set(range(12)) for name in LOGS}
            assert reader.lag().total == 0

    assert every_place(tell, 20) > 500


@pytest.mark.crash
def test_a_look_at_a_log_that_is_interrupted_passes_over_nothing(tmp_path: Path) -> None:
    def tell(countdown: Countdown) -> None:
        directory = tmp_path / str(next(numbers))
        writer = open_writer(directory, SMALL_SEGMENTS, UnsyncedFileSystem())
        for number in range(40):
            writer.append(b"%d" % number)
        writer.sync()
        follower = LogFollower(directory, UnsyncedFileSystem())
        found = [each.offset for each in read_on(follower)]
        for _ in range(2):
            writer.append_batch([b"x"] * 31)
            writer.roll()
            writer.append(b"x")
            writer.sync()
            with interrupted(countdown):
                follower.refresh()
            found += [each.offset for each in read_on(follower, len(found))]
        follower.refresh()
        found += [each.offset for each in read_on(follower, len(found))]
        assert found == list(range(writer.recovery_point))
        assert len(found) == 40 + 2 * 32
        follower.close()
        writer.close()

    assert every_place(tell, 80) > 100


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_at_any_time_pass_over_no_record(root: LogRoot) -> None:
    reader = Reader(root)
    kept: list[ConsumedBatch] = []

    def ack() -> None:
        while kept:
            reader.given[kept[0].log].update(kept[0].offsets)
            reader.consumer.ack_batch(kept[0])
            del kept[0]

    def consume() -> None:
        while signals.are_wanted:
            batch = reader.consumer.poll(3)
            if batch is not None:
                # No signal comes between these two: what is given is the test's to ack, although
                # the next one may interrupt that.
                kept.append(batch)
            ack()
            reader.consumer.sync()

    with Signals() as signals:
        for number in range(300):
            if number % 10 == 0:
                for name in reader.logs:
                    root.append_batch(name, [b"%d" % (root.log(name).end_offset)])
                root.sync()
            signals.interrupt(consume)
    ack()
    reader.go_on()
    reader.check()


def test_threads_may_ack_what_another_has_polled(root: LogRoot) -> None:
    for name in LOGS:
        fill(root, name, 300)
    reader = consumer(root)
    batches = []
    while (batch := reader.poll(5)) is not None:
        batches.append(batch)
    places = [(batch.log, offset) for batch in batches for offset in batch.offsets]
    random.Random(1).shuffle(places)

    def ack(mine: list[tuple[str, int]]) -> None:
        for log, offset in mine:
            assert reader.ack(log, offset) == 1

    threads = [threading.Thread(target=ack, args=(places[at::3],)) for at in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        reader.sync()
    for thread in threads:
        thread.join()
    assert reader.statistics().acked == 600
    reader.close()
    with consumer(root) as again:
        assert drain(again) == {}


def test_what_was_acked_beside_a_close_is_on_the_disk(root: LogRoot) -> None:
    root.append_batch("a", [b"x"] * 2_000)
    root.sync()
    for number in range(10):
        reader = consumer(root, f"group-{number}")
        acked: list[int] = []
        begun = threading.Event()

        def ack(reader: Consumer, acked: list[int], begun: threading.Event) -> None:
            with suppress(LogClosedError, LogNotFoundError):
                for offset in range(2_000):
                    reader.ack("a", offset)
                    acked.append(offset)
                    begun.set()

        thread = threading.Thread(target=ack, args=(reader, acked, begun))
        thread.start()
        begun.wait()
        reader.close()
        thread.join()
        with consumer(root, f"group-{number}") as again:
            assert (again.committed("a") or 0) >= len(acked)
