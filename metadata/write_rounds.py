"""Make many changes durable together.

Whatever arrives while a round is at work waits for the next one, which goes to a worker thread as
a whole, writes its files side by side and syncs each directory once. A document is never twice in
one round: a later change takes the place of the one that waits, and both callers return when it
is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.file_workers import FileWorkers
from metadata.paths import temporary_path

logger: Final = logging.getLogger(__name__)

ROUND_CHANGES_MAX: Final = 256
"""Most documents in one round, so that a change never waits for thousands of others."""


class WriteRounds:
    """Applies changes in rounds, in one task that lives while there is work."""

    def __init__(self, root: Path, files: DocumentFiles, workers: FileWorkers) -> None:
        """Prepare for changes below `root`; nothing is touched on the disk."""
        self._root = root
        self._files = files
        self._workers = workers
        self._waiting: dict[Path, _Change] = {}
        self._durable_directories: set[Path] = set()
        self._at_work: dict[Path, _Change] = {}
        self._task: asyncio.Task[None] | None = None

    def submit(self, path: Path, content: bytes | None) -> Coroutine[None, None, None]:
        """Take in a change now: the file at `path` is to be replaced, or removed.

        Args:
            path: Two directories below the root.
            content: The new content; None to remove the file.

        Returns:
            What to await: it returns when the change, or a later one of the file, is durable.

        Raises:
            DocumentWriteError: The disk refused.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        change = self._waiting.setdefault(path, _Change(path))
        change.content = content
        change.waiters.append(done)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="metadata-write-rounds")
        return _outcome(done)

    def pending(self, path: Path) -> Coroutine[None, None, None] | None:
        """Return what to await until the last change of a file is durable; None: there is none.

        Raises:
            DocumentWriteError: When awaited: the disk refused the change.
        """
        change = self._waiting.get(path) or self._at_work.get(path)
        if change is None:
            return None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        change.waiters.append(done)
        return _outcome(done)

    def forget_directory(self, directory: Path) -> None:
        """Hear that a directory was removed: the next change in it makes it anew."""
        self._durable_directories.discard(directory)

    async def drain(self) -> None:
        """Return when no change is waiting or at work."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        changes: list[_Change] = []
        try:
            while self._waiting:
                paths = list(self._waiting)[:ROUND_CHANGES_MAX]
                self._at_work = {path: self._waiting.pop(path) for path in paths}
                changes = list(self._at_work.values())
                await self._workers.run(self._apply_round, changes)
                for change in changes:
                    change.finish()
        except asyncio.CancelledError as error:
            self._abandon(changes, error)
            raise
        except Exception as error:
            # Not the disk's fault but ours: whoever waits gets it, and the next change works.
            logger.exception("metadata round failed changes=%d", len(changes))
            self._abandon(changes, error)
        finally:
            self._at_work = {}
            self._task = None

    def _abandon(self, changes: list[_Change], error: BaseException) -> None:
        """Let no caller wait for ever for a round that will not come."""
        for change in [*changes, *self._waiting.values()]:
            change.abandon(error)
        self._waiting.clear()

    # In a worker thread

    def _apply_round(self, changes: list[_Change]) -> None:
        by_directory: dict[Path, list[_Change]] = {}
        for change in changes:
            by_directory.setdefault(change.path.parent, []).append(change)
        for directory, changed in by_directory.items():
            self._make_directories(directory, changed)
        self._workers.share_out(changes, self._apply)
        self._workers.share_out(list(by_directory.items()), self._sync)

    def _make_directories(self, directory: Path, changes: list[_Change]) -> None:
        """Make a directory that is not known to be durable, if anything is to be written in it."""
        written = [change for change in changes if change.content is not None]
        if not written or directory in self._durable_directories:
            return
        try:
            for path in (self._root, directory.parent, directory):
                self._files.make_directory(path)
                self._files.sync_directory(path.parent)
        except OSError as cause:
            for change in written:
                change.error = cause
        else:
            self._durable_directories.add(directory)

    def _apply(self, change: _Change) -> None:
        if change.error is not None:
            return
        try:
            if change.content is None:
                self._files.remove(change.path)
                return
            temporary = temporary_path(change.path)
            self._files.write(temporary, change.content)
            self._files.rename(temporary, change.path)
        except OSError as cause:
            self._durable_directories.discard(change.path.parent)
            change.error = cause

    def _sync(self, changed: tuple[Path, list[_Change]]) -> None:
        directory, changes = changed
        try:
            self._files.sync_directory(directory)
        except OSError as cause:
            for change in changes:
                is_moot = change.content is None and isinstance(cause, FileNotFoundError)
                if change.error is None and not is_moot:
                    change.error = cause


async def _outcome(done: asyncio.Future[None]) -> None:
    await done


class _Change:
    __slots__ = ("content", "error", "path", "waiters")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: bytes | None = None
        self.error: OSError | None = None
        self.waiters: list[asyncio.Future[None]] = []

    def finish(self) -> None:
        for waiter in self.waiters:
            if waiter.done():
                continue
            if self.error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(DocumentWriteError(self.path, self.error))

    def abandon(self, error: BaseException) -> None:
        for waiter in self.waiters:
            if waiter.done():
                continue
            if isinstance(error, asyncio.CancelledError):
                waiter.cancel()
            else:
                waiter.set_exception(error)
