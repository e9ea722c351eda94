"""A record that an append has returned is in the log, whatever a signal handler raises, and when.

Or the log has failed and says so. It is never that an offset is told and the record is gone.
"""

import itertools
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from appendlog import DURABLE, LogClosedError, LogFailedError, LogWriter
from offsets import LogRoot
from tests.embedded.interruptions import (
    Countdown,
    Interrupt,
    InterruptingFileSystem,
    Signals,
    closing_leaked_files,
    every_place,
    interrupted,
)
from tests.embedded.logs import BY_HAND, open_writer, payloads
from tests.faults.faulty_filesystem import FaultyFileSystem

SMALL = replace(BY_HAND, batch_bytes=100, chunk_bytes=120, segment_bytes=450)


class Appender:
    """Appends records that tell their numbers, and remembers which it was told are in.

    Attributes:
        told: What returned appends have put at which offset.
        synced_end: What the last sync returned.
    """

    def __init__(self, writer: LogWriter) -> None:
        self.writer = writer
        self.told: dict[int, bytes] = {}
        self.synced_end = 0
        self._under_way: set[bytes] = set()
        self._seen_under_way: set[bytes] = set()
        self._numbers = itertools.count()

    def append(self) -> None:
        payload = self._payload()
        self._under_way = {payload}
        self.told[self.writer.append(payload)] = payload
        self._under_way = set()

    def append_batch(self, count: int) -> None:
        payloads = [self._payload() for _ in range(count)]
        self._under_way = set(payloads)
        first, last = self.writer.append_batch(payloads)
        self.told.update(zip(range(first, last + 1), payloads, strict=True))
        self._under_way = set()

    def sync(self) -> None:
        self.synced_end = self.writer.sync()

    def tell(self) -> None:
        """Do some of everything."""
        self.append()
        self.append_batch(3)
        self.sync()
        for _ in range(4):
            self.append()
        self.writer.flush()
        self.append_batch(30)
        self.sync()
        self.append()
        self.writer.roll()
        self.append()
        self.sync()
        self.append()

    def check(self, directory: Path) -> None:
        """Check what a reader sees after the log was closed."""
        found = payloads(directory)
        assert list(found) == list(range(len(found)))
        assert {offset: found.get(offset) for offset in self.told} == self.told
        # Only what was being appended when it was interrupted may be there too: once, or not.
        more = [found[offset] for offset in found.keys() - self.told.keys()]
        assert len(set(more)) == len(more)
        assert set(more) <= self._seen_under_way

    def interrupt(self) -> None:
        """Note that what was being appended may be in the log or not."""
        self._seen_under_way = self._under_way

    def _payload(self) -> bytes:
        return b"%06d" % next(self._numbers)


def go_on(appender: Appender, directory: Path) -> None:
    """Check that the log may be used on after an interruption, and then has all of it."""
    appender.append()
    appender.sync()
    assert appender.synced_end == appender.writer.end_offset
    appender.append()
    appender.writer.close()
    appender.check(directory)


@pytest.mark.crash
@pytest.mark.parametrize("options", [SMALL, replace(DURABLE, segment_bytes=450)])
def test_an_exception_anywhere_loses_no_record(tmp_path: Path, options: object) -> None:
    numbers = itertools.count()

    def tell(countdown: Countdown) -> None:
        directory = tmp_path / str(next(numbers))
        appender = Appender(open_writer(directory, options, UnsyncedFileSystem()))  # type: ignore[arg-type]
        with interrupted(countdown):
            appender.tell()
        appender.interrupt()
        go_on(appender, directory)

    assert every_place(tell, 80) > 1_000


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_an_exception_in_any_operation_of_the_disk_loses_no_record(
    tmp_path: Path, when: str
) -> None:
    for at in itertools.count():
        directory = tmp_path / str(at)
        filesystem = InterruptingFileSystem(None, when)
        appender = Appender(open_writer(directory, SMALL, filesystem))
        filesystem.at = last = filesystem.seen + at
        with suppress(Interrupt):
            appender.tell()
        appender.interrupt()
        is_over, filesystem.at = filesystem.seen <= last, None
        go_on(appender, directory)
        if is_over:
            break
    assert at > 50


@pytest.mark.crash
def test_what_is_synced_after_an_exception_outlives_a_power_cut(tmp_path: Path) -> None:
    for at in itertools.count(0, 3):
        root = tmp_path / str(at)
        root.mkdir()
        filesystem = FaultyFileSystem(root, at, Interrupt(), failing_operations=1)
        appender = Appender(open_writer(root / "log", SMALL, filesystem))
        with suppress(Interrupt):
            appender.tell()
        is_over = len(filesystem.operations) <= at
        filesystem.fail_at = None
        appender.append()
        appender.sync()
        filesystem.power_cut()
        found = payloads(root / "log")
        assert appender.synced_end == max(appender.told) + 1 <= len(found)
        assert {offset: found.get(offset) for offset in appender.told} == appender.told
        if is_over:
            break
    assert at > 50


def test_exceptions_while_it_recovers_lose_no_record(tmp_path: Path) -> None:
    """Each of several operations in a row is cut short, those of the recovery too."""
    for at, count in itertools.product(range(0, 60, 3), range(2, 9)):
        directory = tmp_path / f"{at} {count}"
        filesystem = InterruptingFileSystem()
        appender = Appender(open_writer(directory, SMALL, filesystem))
        filesystem.at = filesystem.seen + at
        with suppress(Interrupt):
            appender.tell()
        appender.interrupt()
        for _ in range(count):
            filesystem.at = filesystem.seen
            with suppress(Interrupt):
                appender.writer.sync()
        filesystem.at = None
        go_on(appender, directory)


def test_an_error_of_the_disk_is_final_though_an_exception_comes_over_it(tmp_path: Path) -> None:
    """A second fsync could lie: the kernel may have dropped what it could not write."""

    class Masking(UnsyncedFileSystem):
        def fdatasync(self, descriptor: int) -> None:
            try:
                raise OSError("the disk is broken")
            finally:
                raise Interrupt  # as a signal handler does while it unwinds

    writer = open_writer(tmp_path, filesystem=Masking())
    writer.append(b"0")
    writer.flush()
    with pytest.raises(Interrupt):
        writer.sync()
    for use in (lambda: writer.append(b"1"), writer.sync, writer.flush, writer.close):
        with pytest.raises(LogFailedError):
            use()


def test_an_exception_in_a_handler_of_the_program_is_not_taken_for_the_disk(tmp_path: Path) -> None:
    filesystem = InterruptingFileSystem(4)
    writer = open_writer(tmp_path, filesystem=filesystem)
    writer.append(b"0")
    try:
        raise OSError("something of the program's")
    except OSError:
        with pytest.raises(Interrupt):
            writer.sync()
    assert writer.sync() == 1
    writer.close()


def test_a_close_that_is_interrupted_closes_all_the_same(tmp_path: Path) -> None:
    places = itertools.count()

    def tell(countdown: Countdown) -> None:
        path = tmp_path / str(next(places))
        root = LogRoot.open(path, SMALL, filesystem=UnsyncedFileSystem())
        for name in ("a", "b"):
            root.append_batch(name, [b"0", b"1"])
        with interrupted(countdown):
            root.close()
        # Nobody closes it again: the directory and all that is in it is free for the next.
        with LogRoot.open(path, SMALL) as again:
            assert [again.log(name).end_offset for name in ("a", "b")] == [2, 2]

    assert every_place(tell, 40) > 100


def appending(writers: list[LogWriter], told: dict[int, bytes], begun: threading.Event) -> None:
    """Append until the log is closed; each append that returns is noted."""
    name = threading.get_ident()
    with suppress(LogClosedError):
        for number in itertools.count():
            payload = b"%d %d" % (name, number)
            told[writers[0].append(payload)] = payload
            begun.set()


@pytest.mark.parametrize("options", [replace(BY_HAND, batch_bytes=200), DURABLE])
def test_what_was_appended_beside_a_close_is_in_the_log(tmp_path: Path, options: object) -> None:
    for at in range(250):
        directory = tmp_path / str(at)
        writer = open_writer(directory, options, UnsyncedFileSystem())  # type: ignore[arg-type]
        told: dict[int, bytes] = {}
        begun = threading.Event()
        threads = [
            threading.Thread(target=appending, args=([writer], told, begun)) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        begun.wait()
        writer.close()
        for thread in threads:
            thread.join()
        assert payloads(directory) == dict(sorted(told.items()))


def test_what_was_appended_beside_the_close_of_a_root_is_in_its_logs(tmp_path: Path) -> None:
    for at in range(10):
        root = LogRoot.open(tmp_path / str(at), filesystem=UnsyncedFileSystem())
        begun = [threading.Event() for _ in range(3)]
        told: list[dict[int, bytes]] = [{} for _ in begun]
        writers = [root.log(f"log-{number}") for number in range(len(begun))]
        threads = [
            threading.Thread(target=appending, args=([writer], put, event))
            for writer, put, event in zip(writers, told, begun, strict=True)
        ]
        for thread in threads:
            thread.start()
        for event in begun:
            event.wait()
        root.close()
        for thread in threads:
            thread.join()
        for writer, put in zip(writers, told, strict=True):
            assert payloads(writer.log.directory) == put


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@closing_leaked_files()
def test_signals_at_any_time_lose_no_record(tmp_path: Path) -> None:
    """A thousand rounds of appends and syncs, each ended by a signal."""
    writer = open_writer(tmp_path, replace(SMALL, segment_bytes=4_000), UnsyncedFileSystem())
    told: dict[int, bytes] = {}
    numbers = itertools.count()

    def write() -> None:
        while signals.are_wanted:
            payload = b"%d" % next(numbers)
            told[writer.append(payload)] = payload
            if payload.endswith(b"7"):
                assert writer.sync() == writer.end_offset

    with Signals() as signals:
        for _ in range(1_000):
            signals.interrupt(write)
    assert writer.sync() == writer.end_offset
    writer.close()
    found = payloads(tmp_path)
    assert {offset: found.get(offset) for offset in told} == told
    assert list(found) == list(range(len(found)))
    assert len(set(found.values())) == len(found)
