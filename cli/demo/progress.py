"""Progress of a step: a bar on a terminal, a few lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

_LINES: Final = 4
_UPDATES: Final = 200

Show = Callable[[int], None]
"""Called with the number of finished items since the start of the step."""


@contextmanager
def progress(label: str, total: int) -> Iterator[Show]:
    """Show progress on standard error.

    Args:
        label: Name of the step.
        total: Number of items, at least 1.
    """
    if sys.stderr.isatty():
        with click.progressbar(
            length=total,
            label=f"   {label}",
            file=sys.stderr,
            show_pos=True,
            update_min_steps=max(total // _UPDATES, 1),
        ) as bar:
            reached = 0

            def update(done: int) -> None:
                nonlocal reached
                bar.update(done - reached)
                reached = done

            yield update
        return
    shown = 0

    def show(done: int) -> None:
        nonlocal shown
        if done * _LINES // total > shown * _LINES // total:
            shown = done
            click.echo(f"   {label}: {done} of {total}", err=True)

    yield show
