"""One change that is being written, and the changes for which it has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from metadata.errors import DocumentWriteError


class DeletionMark(Protocol):
    """Records on the disk that something besides the documents is deleted: the log of a queue."""

    def set(self) -> None:
        """Write the mark to the disk; blocks.

        Raises:
            OSError: The disk refused; the mark may or may not exist.
        """

    def remove(self) -> None:
        """Remove the mark if it exists; blocks.

        Raises:
            OSError: The disk refused; the mark may or may not exist.
        """


class Change:
    """A document that is to be written or removed, or marks that are to be set.

    Attributes:
        path: Path of the document; for marks, of the document for which they are set.
        content: New content; None removes the document.
        is_note: Whether the content only records the deletion of a definition. Nothing may replace
            it before it is on the disk.
        is_dependent: Whether the document refers to definitions that have documents of their own.
        is_bulk: Whether it may be one of very many, which other changes do not wait for.
        sets_marks: Whether marks are set and the document stays unchanged.
        number: Place among all changes of the store, in the order in which they were submitted.
        marks: Marks to set; or marks to remove if the document stays unchanged.
        after: Changes that must be durable first; if one of them fails, this one fails too.
        blocker_count: What it waits for: changes that are not done, and `hold`.
        is_at_work: Whether a round contains it, so that it cannot be changed any more.
        is_applied: Whether the file system has done it; it may not be durable yet.
        is_done: Whether it is durable or has failed.
        error: Path and error of the failure; None without one.
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
        "is_bulk",
        "is_dependent",
        "is_done",
        "is_note",
        "marks",
        "number",
        "path",
        "sets_marks",
    )

    def __init__(self, path: Path, after: Iterable[Change] = ()) -> None:
        self.path = path
        self.content: bytes | None = None
        self.number = 0
        self.is_note = False
        self.is_dependent = False
        self.sets_marks = False
        self.is_bulk = False
        self.is_at_work = False
        self.is_applied = False
        self.is_done = False
        self.marks: tuple[DeletionMark, ...] = ()
        self.error: tuple[Path, OSError] | None = None
        self.after = frozenset(each for each in after if not each.is_done)
        self.blocker_count = 0
        self._dependents: list[Change] = []
        self._waiters: list[asyncio.Future[None]] = []
        for each in self.after:
            self.wait_for(each)

    def wait_for(self, other: Change) -> None:
        """Start only after another change is done, whether that succeeds or fails."""
        other._dependents.append(self)
        self.blocker_count += 1

    def hold(self) -> None:
        """Do not start before `unblock` was called once more."""
        self.blocker_count += 1

    def unblock(self) -> bool:
        """Remove one thing that it waits for; return whether it can start now."""
        self.blocker_count -= 1
        return self.blocker_count == 0

    def fail(self, error: OSError) -> None:
        """Record the reason of a failure; only the first one counts."""
        if self.error is None:
            self.error = (self.path, error)

    def outcome(self) -> Awaitable[None]:
        """Return an awaitable that ends when the change is durable; it may be dropped, too.

        Raises:
            DocumentWriteError: When awaited: the disk refused the change.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(done)
        return done

    def finish(self) -> None:
        """Wake all callers that wait; `release_some` then returns the changes that can start."""
        self.is_done = True
        for waiter in self._waiters:
            if waiter.done():
                continue
            if self.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(DocumentWriteError(*self.error))
        self.after = frozenset()
        # `release_some` takes them from the end: to move all others each time would take longer.
        self._dependents.reverse()

    @property
    def fails_followers(self) -> bool:
        """Whether a failure fails all changes that wait, not only those that need this one."""
        return False

    @property
    def followers(self) -> Sequence[Change]:
        """The changes that wait for this one; more may come."""
        return self._dependents

    @property
    def is_waited_for(self) -> bool:
        """Whether other changes still wait for this one."""
        return bool(self._dependents)

    def release_some(self, count_max: int) -> list[Change]:
        """Release changes that waited for this one, in their order; return those that can start.

        Args:
            count_max: Most changes to release; above 0.
        """
        ready = []
        for _ in range(min(count_max, len(self._dependents))):
            dependent = self._dependents.pop()
            is_failed = self in dependent.after or self.fails_followers
            if self.error is not None and dependent.error is None and is_failed:
                dependent.error = self.error
            if dependent.unblock():
                ready.append(dependent)
        return ready

    def abandon(self, error: BaseException) -> None:
        """Wake all callers that wait with an error: the change will not be carried out."""
        self.is_done = True
        for waiter in self._waiters:
            if waiter.done():
                continue
            if isinstance(error, asyncio.CancelledError):
                waiter.cancel()
            else:
                waiter.set_exception(error)
