"""One change on its way to the disk, and what it has to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Protocol

from metadata.errors import DocumentWriteError


class DeletionMark(Protocol):
    """Says on the disk that something beside the documents is deleted: the log of a queue."""

    def set(self) -> None:
        """Put the mark on the disk; blocks.

        Raises:
            OSError: The disk refused; the mark may be there or not.
        """

    def take_back(self) -> None:
        """Remove the mark, if it is there; blocks.

        Raises:
            OSError: The disk refused; the mark may be there or not.
        """


class Change:
    """A document that is to be written or removed, or marks that are to be set.

    Attributes:
        path: Of the document; of marks, that of the document that they are set for.
        content: The new content; None removes the document.
        is_note: The content only says that the entity is deleted. Nothing may take its place
            before it is on the disk.
        is_dependent: The document speaks of entities that have documents of their own.
        sets_marks: Marks are set, and the document is left as it is.
        marks: To be set; or to be taken back, should the document stay as it is.
        after: Changes that must be durable first; without one of them this one fails too.
        is_at_work: A round has it, so it cannot change any more.
        is_applied: The file system has done it; whether it is durable is another question.
        is_done: It is durable, or has failed.
        error: Why it failed, and where.
    """

    __slots__ = (
        "_dependents",
        "_waiters",
        "after",
        "blocker_count",
        "content",
        "error",
        "is_applied",
        "is_at_work",
        "is_dependent",
        "is_done",
        "is_note",
        "marks",
        "path",
        "sets_marks",
    )

    def __init__(self, path: Path, after: Iterable[Change] = ()) -> None:
        self.path = path
        self.content: bytes | None = None
        self.is_note = self.is_dependent = self.sets_marks = False
        self.is_at_work = self.is_applied = self.is_done = False
        self.marks: tuple[DeletionMark, ...] = ()
        self.error: tuple[Path, OSError] | None = None
        self.after = frozenset(each for each in after if not each.is_done)
        self.blocker_count = 0
        self._dependents: list[Change] = []
        self._waiters: list[asyncio.Future[None]] = []
        for each in self.after:
            self.wait_for(each)

    def wait_for(self, other: Change) -> None:
        """Do not begin before another change is done, whatever becomes of it."""
        other._dependents.append(self)
        self.blocker_count += 1

    def fail(self, error: OSError) -> None:
        """Take note of why it failed; the first reason counts."""
        if self.error is None:
            self.error = (self.path, error)

    def outcome(self) -> Coroutine[None, None, None]:
        """Return what to await until it is durable.

        Raises:
            DocumentWriteError: When awaited: the disk refused it.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(done)
        return _result(done)

    def finish(self) -> list[Change]:
        """Tell all who wait; return the changes that can begin now."""
        self.is_done = True
        for waiter in self._waiters:
            if waiter.done():
                continue
            if self.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(DocumentWriteError(*self.error))
        ready = []
        for dependent in self._dependents:
            if self.error is not None and dependent.error is None and self in dependent.after:
                dependent.error = self.error
            dependent.blocker_count -= 1
            if dependent.blocker_count == 0:
                ready.append(dependent)
        self._dependents.clear()
        self.after = frozenset()
        return ready

    def abandon(self, error: BaseException) -> None:
        """Tell all who wait that nobody works on it any more."""
        self.is_done = True
        for waiter in self._waiters:
            if waiter.done():
                continue
            if isinstance(error, asyncio.CancelledError):
                waiter.cancel()
            else:
                waiter.set_exception(error)


async def _result(done: asyncio.Future[None]) -> None:
    await done
