"""One run of the back-ups that a timer makes: copy, check, and only then remove the oldest."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from amqp_server.base.errors import StartupError
from amqp_server.maintenance.backup import back_up
from amqp_server.maintenance.backup_series import BackupSeries
from appendlog.checking.problem import Level
from metadata.reading_lock import check_data_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from amqp_server.maintenance.backup import Backup
    from amqp_server.maintenance.directory_check import DirectoryCheck

CLOCK_SLACK_SECONDS = 60
"""Seconds by which an older back-up may have a later name without a word about the clock."""


@dataclass(slots=True)
class BackupRun:
    """What a run has made, and what it has removed.

    Attributes:
        path: The new back-up.
        copied: Counts of what was copied.
        check: Result of its check.
        shares_disk: Whether it lies on the file system of the data directory.
        removed: Back-ups that were removed, oldest first: good ones, or damaged ones that tell
            nothing new.
        kept: Good back-ups that are there now, by name.
        damaged: Copies with damage that are there now, by name.
        leftovers: What interrupted runs had left, and was removed.
        foreign: Directories that look like leftovers but have files of somebody else.
        later: Good back-ups from before the run with later names: the clock was wrong.
        not_removed: Why an old back-up could not be removed; empty if all could.
    """

    path: Path
    copied: Backup
    check: DirectoryCheck
    shares_disk: bool
    removed: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)
    later: list[Path] = field(default_factory=list)
    not_removed: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the check found no damage; what a crash cuts short is none."""
        return is_good(self.check)


def is_good(check: DirectoryCheck) -> bool:
    """Return whether a check found no damage."""
    return check.worst in (None, Level.HARMLESS)


def back_up_into(
    storage_path: Path,
    directory: Path,
    *,
    keep: int | None,
    may_link: bool,
    redo_number: Callable[[], int | None],
    check: Callable[[Path], DirectoryCheck],
    on_log: Callable[[int, int], None] | None = None,
) -> BackupRun:
    """Make a new back-up in a directory of back-ups, check it, and remove the oldest.

    A failed run removes its copy. A copy with damage stays under a name that no run counts,
    and no good back-up is removed then.

    Args:
        storage_path: The data directory; not changed, a server may run on it.
        directory: Directory of the back-ups; created if it is missing.
        keep: How many good back-ups stay, 1 to `KEEP_MAX`, and two damaged ones; None: all.
        may_link: Whether to hard-link sealed segments instead of copying them, where possible.
        redo_number: As for `back_up`.
        check: Checks a data directory.
        on_log: As for `back_up`.

    Raises:
        MetadataError: The source is no data directory, or has another format.
        StartupError: The directory lies in the data directory, or another run works in it.
        BackupFailedError: The data directory changed faster than it could be copied.
        OSError: A file cannot be read or written.
    """
    check_data_directory(storage_path)
    _refuse_inside(storage_path, directory)
    series = BackupSeries(directory)
    with series.hold():
        leftovers, foreign = series.remove_leftovers()
        later = series.later_than(time.time() + CLOCK_SLACK_SECONDS)
        partial = series.begin()
        is_whole = False
        try:
            copied = back_up(
                storage_path, partial, may_link=may_link, redo_number=redo_number, on_log=on_log
            )
            checked = check(partial)
            is_whole = True
        finally:
            if not is_whole:
                # A full disk gets its room back at once.
                series.discard(partial)
        path = series.end(partial, is_good=is_good(checked))
        _follow_name(checked, partial, path)
        run = BackupRun(path, copied, checked, _shares_disk(storage_path, directory))
        run.leftovers, run.foreign, run.later = leftovers, foreign, later
        if keep is not None:
            try:
                if run.is_good:
                    run.removed = series.remove_oldest(path, keep, later)
                else:
                    run.removed = series.remove_damaged()
            except OSError as error:
                run.not_removed = f"{error.filename or directory}: {error.strerror or error}"
        run.kept, run.damaged = series.good(), series.damaged()
        return run


def _refuse_inside(storage_path: Path, directory: Path) -> None:
    resolved = directory.resolve()
    if storage_path.resolve() in (resolved, *resolved.parents):
        raise StartupError(f"{directory} lies in the data directory {storage_path}")


def _follow_name(check: DirectoryCheck, before: Path, after: Path) -> None:
    """Have the problems of a check name the files by the name that the back-up has now."""
    for problems in (check.problems, *(each.problems for each in check.queues)):
        for number, problem in enumerate(problems):
            if problem.path.is_relative_to(before):
                path = after / problem.path.relative_to(before)
                problems[number] = replace(problem, path=path)


def _shares_disk(storage_path: Path, directory: Path) -> bool:
    return storage_path.stat().st_dev == directory.stat().st_dev
