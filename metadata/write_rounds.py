"""Makes many changes durable together.

Changes that arrive while a round is being written wait for the next one. A worker thread writes a
whole round: its files in parallel, and each directory is synced once. A document is never twice in
one round: a later change replaces a waiting one, and both callers return when it is durable. A
change that must wait until others are durable comes into a later round.

Tens of thousands of changes may wait for one: they are released in parts, between which the event
loop does other work. What a deletion takes along is written beside all other changes, not before
them: a part of each round is reserved for it, and it gets what others leave.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from metadata.batch import BatchChange
from metadata.batch_files import carry_out, decide, take_back
from metadata.change import Change, DeletionMark
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.file_workers import FileWorkers
from metadata.name_list import NameList, Place, place_of_path
from metadata.paths import temporary_path
from metadata.redo_file import REDO_NAME
from metadata.referrers import Referrers

logger: Final = logging.getLogger("metadata.write_rounds")

ROUND_CHANGES_MAX: Final = 256
"""Most changes in one round, so that a change never waits for thousands of others."""
BULK_CHANGES_MIN: Final = 64
"""Changes in one round that are reserved for what deletions take along."""
RELEASES_MAX: Final = 256
"""Most changes that are released at a time because another one is done."""
FINISHED_AT_ONCE: Final = 1024
"""Documents of a batch that are noted as done at a time."""
RETRY_SECONDS: Final = (0.01, 0.1, 1.0)
"""Seconds between the attempts to write the documents of a decided batch; the last one repeats."""


class WriteRounds:
    """Applies changes in rounds, in one task that lives while there is work.

    Attributes:
        on_written: Called with the path of each file that was replaced or removed; None: not.
    """

    def __init__(
        self, root: Path, files: DocumentFiles, workers: FileWorkers, names: NameList
    ) -> None:
        self._root = root
        self._files = files
        self._workers = workers
        self._names = names
        self._unfinished: dict[Change, None] = {}
        self._ready: deque[Change] = deque()
        self._bulk: deque[Change] = deque()
        self._last: dict[Path, Change] = {}
        self._referrers: dict[Path, Referrers] = {}
        self._refers_to: dict[Change, list[Referrers]] = {}
        self._vhost_counts: dict[str, int] = {}
        self._quiet_waiters: dict[str, list[asyncio.Future[None]]] = {}
        # Files that may exist although the disk refused to write or to remove them: dependents, and
        # all others.
        self._left: set[Path] = set()
        self._refused: set[Path] = set()
        self._refused_marks: dict[Path, tuple[DeletionMark, ...]] = {}
        self._durable_directories: set[Path] = set()
        self._task: asyncio.Task[None] | None = None
        self._change_count = 0
        self._batches: dict[BatchChange, asyncio.Task[None]] = {}
        self._is_draining = asyncio.Event()
        self.on_written: Callable[[Path], None] | None = None

    def submit(
        self,
        path: Path,
        content: bytes | None,
        *,
        after: Iterable[Change] = (),
        is_note: bool = False,
        is_dependent: bool = False,
        refers_to: Iterable[Path] = (),
        is_held: bool = False,
        is_bulk: bool = False,
        marks: Sequence[DeletionMark] = (),
    ) -> Change:
        """Accept a change: the file at `path` is to be replaced or removed.

        Args:
            path: Path of the file, two directories below the root.
            content: New content; None to remove the file.
            after: Changes that must be durable first; if one of them fails, this one fails too.
            is_note: Whether the content only records the deletion of a definition. It is then
                always written, even if another change of the file follows.
            is_dependent: Whether the file refers to definitions that have files of their own; see
                `left`.
            refers_to: Paths of these definitions' files; a removal of one of them that is held
                waits for this change.
            is_held: Whether it starts only after `release`, and after the changes of all files that
                refer to this one.
            is_bulk: Whether it may be one of very many; those of other callers do not wait for it.
            marks: Marks to remove if the file stays unchanged.
        """
        refused = self._refused_marks.pop(path, ())
        if refused:
            # An earlier deletion has failed to remove these marks: they must not apply to the new
            # content.
            after = (*after, self.submit_marks(path, refused))
        needed = frozenset(each for each in after if not each.is_done)
        change = self._last.get(path)
        if change is None or change.is_at_work:
            change = self._new_change(path, needed, None, is_held=is_held, is_bulk=is_bulk)
        elif (
            isinstance(change, BatchChange)
            or change.is_note
            or is_held
            or not needed <= change.after
        ):
            # Do not reuse that change: it may have to wait for one that waits for it.
            earlier = None if change in needed else change
            change = self._new_change(path, needed, earlier, is_held=is_held, is_bulk=is_bulk)
        for each in refers_to:
            self._note_reference(change, each)
        if content is not None:
            # The caller expects the file again, whatever the disk has refused before.
            self._left.discard(path)
        change.content = content
        change.is_note = is_note
        change.is_dependent = is_dependent
        change.marks += (*refused, *marks)
        self._last[path] = change
        return change

    def submit_marks(
        self, path: Path, marks: Sequence[DeletionMark], after: Iterable[Change] = ()
    ) -> Change:
        """Accept marks that are to be set.

        Args:
            path: Path of the document that is to be removed when they are on the disk.
            marks: Marks of what belongs to it.
            after: As in `submit`.
        """
        change = Change(path, after)
        change.sets_marks = True
        change.marks = tuple(marks)
        return self._add(change)

    def release(self, change: Change) -> None:
        """Let a held change start when no change of a file that refers to its own is unfinished."""
        if change.is_done:
            # It was abandoned.
            return
        referrers = self._referrers.pop(change.path)
        assert referrers.removal is change, "one removal of a document is held at a time"
        if referrers.count == 0 and change.unblock():
            self._start(change)

    def left(self, encoded_vhost: str) -> list[Path]:
        """Return dependents of a virtual host that may exist although no caller expects them.

        The disk refused to write or to remove them. They must be removed before any definition to
        which they may refer.
        """
        return [path for path in self._left if path.parent.name == encoded_vhost]

    def last(self, path: Path) -> Change | None:
        """Return the last change of a file if it is not done yet."""
        return self._last.get(path)

    def make_removed(self, path: Path) -> Awaitable[None] | None:
        """Return an awaitable that ends when a file that is not wanted is removed; None if it is.

        Its removal was submitted before, or the disk refused to write it. A removal that the disk
        has refused is submitted again, with what may be left of the files that refer to this one.

        Raises:
            DocumentWriteError: When awaited: the disk refused the change.
        """
        change = self._last.get(path)
        if change is not None:
            return change.outcome()
        if path in self._left:
            return self.submit(path, None, is_dependent=True).outcome()
        if path not in self._refused:
            return None
        removal = self.submit(path, None, is_held=True)
        for each in self.left(path.parent.name):
            self.submit(each, None, is_dependent=True, refers_to=[path])
        outcome = removal.outcome()
        self.release(removal)
        return outcome

    def open_batch(self) -> BatchChange:
        """Begin a batch without documents; it waits for `close_batch`, and for earlier batches."""
        batch = BatchChange(self._root / REDO_NAME)
        batch.hold()
        for earlier in self._unfinished:
            if isinstance(earlier, BatchChange):
                # There is one redo file, also for one that has not started.
                batch.wait_for(earlier)
        self._add(batch)
        return batch

    def resume_batch(self, contents: Mapping[Path, bytes]) -> None:
        """Go on with a batch that was decided before the last stop; the disk has refused it now.

        Later changes of its documents wait until they are written, as they did before.

        Args:
            contents: Content of each document's file, by path.
        """
        batch = BatchChange(self._root / REDO_NAME)
        batch.is_decided = True
        batch.decided.set_result(None)
        for path, content in contents.items():
            self._put(batch, path, content)
        self._add(batch)

    def put_in_batch(self, batch: BatchChange, path: Path, content: bytes) -> None:
        """Add the new content of a file to a batch that is not closed."""
        last = self._last.get(path)
        if last is not None and last is not batch:
            if last.number > batch.number:
                # That change may wait for the batch, which must not wait for it then.
                self.submit(path, content, after=[batch])
                return
            batch.wait_for(last)
            batch.replaced[path] = last
        self._put(batch, path, content)

    def _put(self, batch: BatchChange, path: Path, content: bytes) -> None:
        encoded_vhost = path.parent.name
        if encoded_vhost not in batch.vhosts:
            batch.vhosts.add(encoded_vhost)
            self._vhost_counts[encoded_vhost] = self._vhost_counts.get(encoded_vhost, 0) + 1
        if path in self._left:
            self._left.discard(path)
            batch.left.add(path)
        self._last[path] = batch
        batch.contents[path] = content

    def close_batch(self, batch: BatchChange) -> None:
        """Let a batch start when the earlier changes of its documents are done.

        It fails at once if the disk does not take an earlier one: that may last for hours.
        """
        batch.is_closed = True
        refusals = [each.refusal for each in self._batches if each.refusal is not None]
        if refusals:
            self._refuse_batch(batch, refusals[0])
        elif batch.unblock():
            self._start(batch)

    def _refuse_batch(self, batch: BatchChange, cause: OSError) -> None:
        """End a batch that waits for one that the disk refuses."""
        # What it waits for may be done later; it must not start then.
        batch.hold()
        batch.fail(cause)
        batch.decided.set_exception(DocumentWriteError(batch.path, cause))
        self._batches[batch] = asyncio.create_task(
            self._finish_batch(batch), name="metadata-batch-refused"
        )

    def cancel_batch(self, batch: BatchChange) -> None:
        """End a batch that was not closed, or that has failed."""
        if batch not in self._unfinished:
            return
        batch.fail(OSError(errno.ECANCELED, "the documents that it needs are not written"))
        self._batches[batch] = asyncio.create_task(
            self._finish_batch(batch), name="metadata-batch-cancelled"
        )

    def note_removed(self, directory: Path) -> None:
        """Note that a directory was removed: the next change in it creates it again."""
        self._durable_directories.discard(directory)

    async def until_quiet(self, encoded_vhost: str) -> None:
        """Return when every change of a virtual host's documents is done or has failed."""
        while self._vhost_counts.get(encoded_vhost):
            waiter = asyncio.get_running_loop().create_future()
            self._quiet_waiters.setdefault(encoded_vhost, []).append(waiter)
            await waiter

    @property
    def is_idle(self) -> bool:
        """Whether no change waits or is being written."""
        return self._task is None and not self._batches

    async def drain(self) -> None:
        """Return when no change waits or is being written.

        A decided batch that the disk refuses is left to the next load of the documents.
        """
        self._is_draining.set()
        while tasks := [*self._batches.values(), *([self._task] if self._task else [])]:
            await asyncio.wait(tasks)
        self._is_draining.clear()

    def _new_change(
        self,
        path: Path,
        needed: frozenset[Change],
        earlier: Change | None,
        *,
        is_held: bool,
        is_bulk: bool,
    ) -> Change:
        change = Change(path, needed)
        change.is_bulk = is_bulk
        if earlier is not None:
            change.wait_for(earlier)
        if is_held:
            change.hold()
            self._referrers_of(path).removal = change
        return self._add(change)

    def _note_reference(self, change: Change, path: Path) -> None:
        """Count a change as unfinished for a document that its own document refers to."""
        referrers = self._referrers_of(path)
        noted = self._refers_to.setdefault(change, [])
        if referrers not in noted:
            referrers.count += 1
            noted.append(referrers)

    def _referrers_of(self, path: Path) -> Referrers:
        referrers = self._referrers.get(path)
        if referrers is None:
            referrers = self._referrers[path] = Referrers(path)
        return referrers

    def _add(self, change: Change) -> Change:
        self._change_count += 1
        change.number = self._change_count
        self._unfinished[change] = None
        encoded_vhost = change.path.parent.name
        self._vhost_counts[encoded_vhost] = self._vhost_counts.get(encoded_vhost, 0) + 1
        if change.blocker_count == 0:
            self._start(change)
        return change

    def _start(self, change: Change) -> None:
        """Let a change be written in the next round, or a batch beside the rounds."""
        if isinstance(change, BatchChange):
            self._batches[change] = asyncio.create_task(
                self._run_batch(change), name="metadata-batch"
            )
            return
        self._line_of(change).append(change)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="metadata-write-rounds")

    async def _run(self) -> None:
        try:
            while self._ready or self._bulk:
                reserved = min(len(self._bulk), BULK_CHANGES_MIN)
                changes = _take(self._ready, ROUND_CHANGES_MAX - reserved)
                changes += _take(self._bulk, ROUND_CHANGES_MAX - len(changes))
                for change in changes:
                    change.is_at_work = True
                await self._workers.run(self._apply_round, changes)
                for change in changes:
                    await self._finish(change)
        except asyncio.CancelledError as error:
            self._abandon(error)
            raise
        except Exception as error:
            # A programming error, not the disk's: callers get it, and the next change is tried
            # again.
            logger.exception("metadata round failed changes=%d", len(self._unfinished))
            self._abandon(error)
        finally:
            self._task = None

    async def _finish(self, change: Change) -> None:
        del self._unfinished[change]
        if self._last.get(change.path) is change:
            del self._last[change.path]
        if not change.sets_marks:
            self._note_refusal(change)
        change.finish()
        self._release_some(change)
        while change.is_waited_for:
            await asyncio.sleep(0)
            self._release_some(change)
        for referrers in self._refers_to.pop(change, ()):
            self._note_referrer_done(referrers, change)
        self._count_done(change.path.parent.name)

    def _release_some(self, change: Change) -> None:
        for ready in change.release_some(RELEASES_MAX):
            self._start(ready)

    def _line_of(self, change: Change) -> deque[Change]:
        return self._bulk if change.is_bulk else self._ready

    def _note_referrer_done(self, referrers: Referrers, change: Change) -> None:
        referrers.note_done(change)
        if referrers.count:
            return
        is_released = self._referrers.get(referrers.path) is not referrers
        if is_released:
            assert referrers.removal is not None, "a removal was released"
            if referrers.removal.unblock():
                self._ready.append(referrers.removal)
        elif referrers.removal is None:
            del self._referrers[referrers.path]

    def _count_done(self, encoded_vhost: str) -> None:
        self._vhost_counts[encoded_vhost] -= 1
        if self._vhost_counts[encoded_vhost] == 0:
            del self._vhost_counts[encoded_vhost]
            for waiter in self._quiet_waiters.pop(encoded_vhost, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def _note_refusal(self, change: Change) -> None:
        """Record files and marks that a failed change has left on the disk."""
        if change.error is None:
            self._left.discard(change.path)
            self._refused.discard(change.path)
            if self.on_written is not None:
                self.on_written(change.path)
            return
        (self._left if change.is_dependent else self._refused).add(change.path)
        if change.marks and not change.is_applied:
            self._refused_marks[change.path] = change.marks

    def _abandon(self, error: BaseException) -> None:
        """Wake every caller with an error, so that none waits for a round that never comes."""
        for change in self._unfinished:
            if change not in self._batches:
                change.abandon(error)
        self._unfinished = {each: None for each in self._unfinished if each in self._batches}
        self._ready.clear()
        self._bulk.clear()
        self._last.clear()
        self._referrers.clear()
        self._refers_to.clear()
        for encoded_vhost in tuple(self._vhost_counts):
            self._vhost_counts[encoded_vhost] = 1
            self._count_done(encoded_vhost)
        for batch in self._batches:
            for encoded_vhost in (*batch.vhosts, self._root.name):
                self._vhost_counts[encoded_vhost] = self._vhost_counts.get(encoded_vhost, 0) + 1

    async def _run_batch(self, batch: BatchChange) -> None:
        """Decide a batch, then write its documents; several attempts if the disk refuses."""
        try:
            await self._write_batch(batch)
        except Exception as error:
            # A programming error, not the disk's: the caller gets it.
            logger.exception("metadata batch failed documents=%d", len(batch.contents))
            if not batch.decided.done():
                batch.decided.set_exception(error)
            batch.abandon(error)
        await self._finish_batch(batch)

    async def _write_batch(self, batch: BatchChange) -> None:
        if not batch.is_decided:
            try:
                await self._workers.run(self._decide, batch)
            except OSError as cause:
                batch.fail(cause)
                await self._insist(batch, self._take_back, pauses=RETRY_SECONDS)
                batch.decided.set_exception(DocumentWriteError(batch.path, cause))
                return
            batch.is_decided = True
            batch.decided.set_result(None)
        error = await self._insist(batch, self._carry_out)
        if error is not None:
            batch.fail(error)

    async def _insist(
        self,
        batch: BatchChange,
        work: Callable[[BatchChange], None],
        pauses: Iterable[float] | None = None,
    ) -> OSError | None:
        """Repeat some work until the disk accepts it; return the error of the last attempt.

        The store's end, or that of the pauses, ends the attempts. A disk may be full for days, so
        only the attempts 1, 2, 4, 8 and so on are reported.
        """
        error = None
        waits = pauses or chain(RETRY_SECONDS, repeat(RETRY_SECONDS[-1]))
        for attempt, pause in enumerate(waits, 1):
            try:
                await self._workers.run(work, batch)
            except OSError as cause:
                if attempt.bit_count() == 1:
                    logger.error(  # noqa: TRY400 - one line says it all
                        "metadata batch not written, tried again documents=%d attempts=%d error=%s",
                        len(batch.contents),
                        attempt,
                        cause,
                    )
                error = cause
                if batch.is_decided:
                    self._note_batch_refusal(batch, cause)
                if self._is_draining.is_set():
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_draining.wait(), pause)
            else:
                return None
        return error

    def _note_batch_refusal(self, batch: BatchChange, cause: OSError) -> None:
        """Keep why a decided batch cannot be written, and end those that wait for it."""
        batch.refusal = cause
        for other in tuple(self._unfinished):
            if isinstance(other, BatchChange) and other.is_closed and other not in self._batches:
                self._refuse_batch(other, cause)

    async def _finish_batch(self, batch: BatchChange) -> None:
        """Wake what waits for a batch, in parts."""
        self._unfinished.pop(batch, None)
        if batch.error is not None:
            self._left |= batch.left
        for count, path in enumerate(batch.contents, 1):
            if self._last.get(path) is batch:
                earlier = self._before(batch, path)
                if earlier is not None and earlier in self._unfinished:
                    self._last[path] = earlier
                else:
                    del self._last[path]
            if batch.error is None:
                self._refused.discard(path)
                if self.on_written is not None:
                    self.on_written(path)
            if count % FINISHED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if batch.error is not None:
            await self._keep_order(batch)
        batch.finish()
        while batch.is_waited_for:
            self._release_some(batch)
            await asyncio.sleep(0)
        for encoded_vhost in (*batch.vhosts, self._root.name):
            self._count_done(encoded_vhost)
        del self._batches[batch]

    async def _keep_order(self, batch: BatchChange) -> None:
        """Let those that wait for a batch that was not written wait for what came before it.

        A batch that was refused or cancelled may end long before a change that it has waited for.
        """
        for count, follower in enumerate(batch.followers, 1):
            paths = follower.contents if isinstance(follower, BatchChange) else (follower.path,)
            for path in paths:
                earlier = self._before(batch, path)
                if earlier is None:
                    continue
                if earlier in self._unfinished:
                    follower.wait_for(earlier)
                elif follower.error is None:
                    follower.error = earlier.error
            if count % FINISHED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _before(self, batch: BatchChange, path: Path) -> Change | None:
        """Return the last change of a document before an ended batch, if it still matters.

        That is one that is not done, or a decided batch that the disk has refused for good: the
        next load writes it over what follows.
        """
        earlier: Change | None = batch.replaced.get(path)
        while earlier is not None and earlier not in self._unfinished:
            if not isinstance(earlier, BatchChange):
                return None
            if earlier.is_decided:
                return earlier if earlier.error is not None else None
            earlier = earlier.replaced.get(path)
        return earlier

    # In a worker thread

    def _decide(self, batch: BatchChange) -> None:
        decide(self._root, self._files, batch.contents)

    def _take_back(self, batch: BatchChange) -> None:
        assert not batch.is_decided, "a decided batch counts"
        take_back(self._root, self._files)

    def _carry_out(self, batch: BatchChange) -> None:
        carry_out(self._root, self._files, batch.contents, self._names.add)

    def _apply_round(self, changes: list[Change]) -> None:
        by_directory: dict[Path, list[Change]] = {}
        for change in changes:
            if not change.sets_marks and change.error is None:
                by_directory.setdefault(change.path.parent, []).append(change)
        for directory, changed in by_directory.items():
            self._make_directories(directory, changed)
        forgotten = self._forget_names(changes)
        self._workers.share_out(changes, self._apply)
        self._workers.share_out(list(by_directory.items()), self._sync)
        self._list_names(changes, forgotten)
        kept = [each for each in changes if each.error and each.marks and not each.is_applied]
        self._workers.share_out(kept, self._remove_marks)

    def _forget_names(self, changes: list[Change]) -> set[Place]:
        """Take documents that are about to be removed off the list of names; return which were."""
        removed = [each for each in self._listed(changes) if each.content is None]
        try:
            return self._names.remove(each.path for each in removed)
        except OSError as cause:
            for change in removed:
                change.fail(cause)
            return set()

    def _list_names(self, changes: list[Change], forgotten: set[Place]) -> None:
        """List the documents that are on the disk now, or could not be removed."""
        written = [
            each
            for each in self._listed(changes, also_failed=True)
            if (
                each.error is None
                if each.content is not None
                # One that was never there must not count as lost.
                else each.error is not None and place_of_path(each.path) in forgotten
            )
        ]
        try:
            self._names.add(each.path for each in written)
        except OSError as cause:
            for change in written:
                change.fail(cause)

    def _listed(self, changes: list[Change], *, also_failed: bool = False) -> list[Change]:
        kinds = self._names.kinds
        return [
            each
            for each in changes
            if not each.sets_marks
            and each.path.parent.parent.name in kinds
            and (also_failed or each.error is None)
        ]

    def _make_directories(self, directory: Path, changes: list[Change]) -> None:
        """Create a directory that may not be durable yet, if a file is to be written in it."""
        written = [change for change in changes if change.content is not None]
        if not written or directory in self._durable_directories:
            return
        try:
            for path in (self._root, directory.parent, directory):
                self._files.make_directory(path)
                self._files.sync_directory(path.parent)
        except OSError as cause:
            for change in written:
                change.fail(cause)
        else:
            self._durable_directories.add(directory)

    def _apply(self, change: Change) -> None:
        if change.error is not None:
            return
        try:
            if change.sets_marks:
                self._set_marks(change)
            elif change.content is None:
                self._files.remove(change.path)
            else:
                temporary = temporary_path(change.path)
                self._files.write(temporary, change.content)
                self._files.rename(temporary, change.path)
        except OSError as cause:
            self._durable_directories.discard(change.path.parent)
            change.fail(cause)
        else:
            change.is_applied = True

    def _set_marks(self, change: Change) -> None:
        for mark in change.marks:
            self._files.with_room(mark.set)

    def _remove_marks(self, change: Change) -> None:
        """Remove the marks of a document that stays unchanged, so that its log stays too."""
        for mark in change.marks:
            try:
                mark.remove()
            except OSError as cause:
                logger.warning(
                    "deletion refused, but its mark is still there: the next start deletes path=%s "
                    "error=%s",
                    change.path,
                    cause,
                )

    def _sync(self, changed: tuple[Path, list[Change]]) -> None:
        directory, changes = changed
        try:
            self._files.sync_directory(directory)
        except OSError as cause:
            for change in changes:
                is_moot = change.content is None and isinstance(cause, FileNotFoundError)
                if not is_moot:
                    change.fail(cause)


def _take(line: deque[Change], count_max: int) -> list[Change]:
    """Remove and return the first changes of a line."""
    return [line.popleft() for _ in range(min(len(line), count_max))]
