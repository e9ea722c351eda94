"""Progress of an export: a bar on a terminal, otherwise a line from time to time."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from cli.display import rough_size

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

OnProgress = Callable[[int, int], None]


@contextmanager
def progress_shown() -> Iterator[OnProgress]:
    """Yield a function to call with (bytes of log done, total bytes); its first call shows."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    with ExitStack() as stack:
        yield _Bar(stack).show


@contextmanager
def progress_on_terminal() -> Iterator[OnProgress]:
    """Yield a function like that of `progress_shown`, which shows nothing but on a terminal."""
    if sys.stderr.isatty():
        with progress_shown() as shown:
            yield shown
    else:
        yield lambda done, total: None


class _Bar:
    """Bar on the terminal, with rate and remaining time.

    Args:
        stack: Ends the line of the bar.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._bar: ProgressBar[str | None] | None = None
        self._meter = _Meter()

    def show(self, done: int, total: int) -> None:
        """Move the bar."""
        if self._bar is None:
            self._meter = _Meter()
            self._bar = self._stack.enter_context(_bar(total))
        rate = self._meter.rate(done)
        self._bar.update(done - self._bar.pos, f"of {rough_size(total)}, {rate}")
        if done >= total:
            # End the line of the bar before the lines of the result.
            self._stack.close()


def _bar(total: int) -> "ProgressBar[str | None]":
    return click.progressbar(
        [],
        length=max(total, 1),
        label="exporting",
        file=sys.stderr,
        item_show_func=lambda text: text,
    )


class _Meter:
    """Bytes per second since its creation."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def rate(self, done: int) -> str:
        """Return the rate so far, as text."""
        seconds = max(time.monotonic() - self._begun, 0.001)
        return f"{rough_size(int(done / seconds))}/s"


def _lines() -> OnProgress:
    meter = _Meter()
    tenth = 0

    def show(done: int, total: int) -> None:
        nonlocal tenth
        reached = done * 10 // max(total, 1)
        if reached > tenth:
            tenth = reached
            line = f"{rough_size(done)} of {rough_size(total)} of log done, {meter.rate(done)}"
            click.echo(line, err=True)

    return show
