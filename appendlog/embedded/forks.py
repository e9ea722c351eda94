"""Protection of a parent's logs after a fork: the child abandons them.

The child has a copy of everything, including a writer's memory and the descriptors of locks. If it
wrote that memory, offsets would be assigned twice. If it kept the descriptors, a directory would
stay locked after the parent has closed it. So the child abandons all of them before any other code
runs there; the parent is not affected.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Abandonable(Protocol):
    """Object that only the process that opened it may use."""

    def abandon(self) -> None:
        """Count as closed from now on, without touching a file of the parent."""


_opened: Final[WeakSet[Abandonable]] = WeakSet()
_registered: Final[list[int]] = []


def abandon_in_children(opened: Abandonable) -> None:
    """Call `abandon` of an object in every process that is forked from now on."""
    if not _registered:
        _registered.append(os.getpid())
        os.register_at_fork(after_in_child=_abandon_all)
    _opened.add(opened)


def _abandon_all() -> None:
    for each in list(_opened):
        each.abandon()
