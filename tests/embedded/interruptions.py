"""Exceptions that come out of nowhere, as a signal handler's do: at a place that a test chooses."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from tests.faults.power_cuts import CI_STRIDE, STRIDE

REPOSITORY = Path(__file__).parents[2]
_ROOMS = tuple(f"{REPOSITORY / room}{os.sep}" for room in ("appendlog", "metadata", "offsets"))
_PLACES = frozenset({"call", "return", "c_return"})


class Interrupt(BaseException):
    """What a handler raises; no `Exception`, as KeyboardInterrupt is none."""


class Countdown:
    """Raises at the call number `at` of the library; counts them all.

    The interpreter looks for signals where a function begins and behind each call, and so does
    this. But for the return to the test: between that and what the test does with the value there
    is no such place, and a test could not tell.

    Args:
        at: 0-based; None raises nowhere.
        count: How many calls in a row raise, from there on.
    """

    def __init__(self, at: int | None, count: int = 1) -> None:
        self.seen = 0
        self._at = at
        self._count = count

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in _PLACES or not _is_ours(frame) or (event == "return" and _is_last(frame)):
            return
        number = self.seen
        self.seen += 1
        if self._at is not None and self._at <= number < self._at + self._count:
            # The interpreter takes the profiler away when it raises.
            raise Interrupt(f"{frame.f_code.co_qualname} {event}")


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_ROOMS)


def _is_last(frame: FrameType) -> bool:
    return frame.f_back is None or not _is_ours(frame.f_back)


@contextmanager
def interrupted(countdown: Countdown) -> Iterator[None]:
    """Let an exception come out of the block, or swallow the `Interrupt` that does."""
    sys.setprofile(countdown)
    try:
        yield
    except Interrupt:
        pass
    finally:
        sys.setprofile(None)


def every_place(tell: Callable[[Countdown], None], tries: int) -> int:
    """Tell a scenario again and again, each time interrupted at a later place; return the last.

    Not where its first call begins: nothing was done there.

    Args:
        tell: Tells it, the same each time.
        tries: How many places, spread over the scenario; `FAULT_STRIDE=1` takes 60 times as many.
    """
    whole = Countdown(None)
    tell(whole)
    step = max(1, whole.seen * STRIDE // (CI_STRIDE * tries))
    at = 1
    while True:
        countdown = Countdown(at)
        tell(countdown)
        if countdown.seen <= at:
            return at
        at += step


class Signals:
    """Real signals to the main thread, at any time, whose handler raises while they are wanted."""

    def __init__(self) -> None:
        self._armed: list[bool] = []
        self._is_over = threading.Event()
        self._chance = random.Random(1)
        self._sender = threading.Thread(target=self._send)

    @property
    def are_wanted(self) -> bool:
        """Whether the handler has still to raise: in a callback it raises to nobody."""
        return bool(self._armed)

    def interrupt(self, work: Callable[[], None]) -> None:
        """Call a function that works until a signal has raised in it, and swallow what it raises.

        No context manager: the signal may come while one is entered, outside its block.
        """
        try:
            self._armed.append(True)
            work()
        except Interrupt:
            pass

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGUSR1, self._handle)
        self._sender.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._armed.clear()
        self._is_over.set()
        self._sender.join()
        signal.signal(signal.SIGUSR1, self._before)

    def _send(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._is_over.is_set():
            time.sleep(self._chance.random() * 0.0005)
            signal.pthread_kill(main, signal.SIGUSR1)

    def _handle(self, *_: object) -> None:
        if self._armed:
            self._armed.clear()
            raise Interrupt


@contextmanager
def closing_leaked_files() -> Iterator[None]:
    """Close what is open behind the block and was not before it; all objects must be closed.

    An exception between the opening of a file and its assignment leaves a descriptor that no
    object has. A thousand of them would be too many for other tests of the process.
    """
    before = set(Path("/proc/self/fd").iterdir())
    try:
        yield
    finally:
        for path in set(Path("/proc/self/fd").iterdir()) - before:
            with suppress(OSError):
                os.close(int(path.name))


class InterruptingFileSystem(UnsyncedFileSystem):
    """Raises in its operation number `at`: before it, behind it, or with half of it done.

    Args:
        at: 0-based; None raises nowhere.
        when: "before", "half" or "after".

    Attributes:
        seen: Operations so far.
    """

    def __init__(self, at: int | None = None, when: str = "before") -> None:
        self.at = at
        self.seen = 0
        self._when = when

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        self._pass("before")
        descriptor = super().open(path, flags, mode)
        if self._is_here("after"):
            super().close(descriptor)
        self._end()
        return descriptor

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        self._pass("before")
        if self._is_here("half"):
            super().pwrite(descriptor, data[: len(data) // 2], position)
        self._pass("half")
        written = super().pwrite(descriptor, data, position)
        self._end()
        return written

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        self._pass("before")
        if self._is_here("half"):
            data = b"".join(buffers)
            super().pwritev(descriptor, [data[: len(data) // 2]], position, sync)
        self._pass("half")
        written = super().pwritev(descriptor, buffers, position, sync)
        self._end()
        return written

    def fsync(self, descriptor: int) -> None:
        self._pass("before")
        super().fsync(descriptor)
        self._end()

    def fdatasync(self, descriptor: int) -> None:
        self._pass("before")
        super().fdatasync(descriptor)
        self._end()

    def truncate(self, descriptor: int, size: int) -> None:
        self._pass("before")
        super().truncate(descriptor, size)
        self._end()

    def rename(self, source: Path, target: Path) -> None:
        self._pass("before")
        super().rename(source, target)
        self._end()

    def unlink(self, path: Path) -> None:
        self._pass("before")
        super().unlink(path)
        self._end()

    def mkdir(self, path: Path, mode: int = 0o750) -> None:
        self._pass("before")
        super().mkdir(path, mode)
        self._end()

    def sync_directory(self, path: Path) -> None:
        self._pass("before")
        super().sync_directory(path)
        self._end()

    def _is_here(self, when: str) -> bool:
        return self.seen == self.at and self._when == when

    def _pass(self, when: str) -> None:
        if self._is_here(when):
            self.seen += 1
            raise Interrupt(when)

    def _end(self) -> None:
        self._pass("after")
        self.seen += 1
