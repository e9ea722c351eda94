"""Exceptions that come out of nowhere, as a signal handler's do: at a place that a test chooses."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.faults.unsynced_filesystem import UnsyncedFileSystem

REPOSITORY = Path(__file__).parents[2]
_ROOMS = tuple(f"{REPOSITORY / room}{os.sep}" for room in ("appendlog", "metadata", "offsets"))
_PLACES = frozenset({"call", "return", "c_return"})


class Interrupt(BaseException):
    """What a handler raises; no `Exception`, as KeyboardInterrupt is none."""


class Countdown:
    """Raises at the call number `at` of the library; counts them all.

    The interpreter looks for signals where a function begins and behind each call, and so does
    this.

    Args:
        at: 0-based; None raises nowhere.
        count: How many calls in a row raise, from there on.
    """

    def __init__(self, at: int | None, count: int = 1) -> None:
        self.seen = 0
        self._at = at
        self._count = count

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in _PLACES or not frame.f_code.co_filename.startswith(_ROOMS):
            return
        number = self.seen
        self.seen += 1
        if self._at is not None and self._at <= number < self._at + self._count:
            # The interpreter takes the profiler away when it raises.
            raise Interrupt(f"{frame.f_code.co_qualname} {event}")


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


def every_place(tell: Callable[[Countdown], None], step: int = 1) -> int:
    """Tell a story again and again, interrupted some places later each time; return the last.

    Not where its first call begins: nothing was done there.
    """
    for at in itertools.count(1, step):
        countdown = Countdown(at)
        tell(countdown)
        if countdown.seen <= at:
            return at
    raise AssertionError


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
