"""What a fork leaves open in the child: nothing that two processes must not have.

The child has a copy of everything: of what is in a writer's memory, and of the locks' descriptors.
If it wrote the first, offsets would be given out twice, and the second would keep a directory
locked when the parent has given it up. So all of it is let go of in the child, before any other
code runs there; the parent notices nothing.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Abandonable(Protocol):
    """What only the process that opened it may use."""

    def abandon(self) -> None:
        """Count as closed from now on, without touching a file of the parent's."""


_opened: Final[WeakSet[Abandonable]] = WeakSet()
_registered: Final[list[int]] = []


def abandon_in_children(opened: Abandonable) -> None:
    """Have something abandoned in every process that is forked from now on."""
    if not _registered:
        _registered.append(os.getpid())
        os.register_at_fork(after_in_child=_abandon_all)
    _opened.add(opened)


def _abandon_all() -> None:
    for each in list(_opened):
        each.abandon()
