"""Removes files of killed exports; never files that a manifest lists or a running job may need.

If the number of a job is taken, its files are listed in that manifest, or are useless. A job whose
number is free may be running. If the lock says that no export runs, or the job began long enough
ago, this first takes its number with a manifest that adds nothing. Should the job be running after
all, its commit fails as a whole.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from appendlog.spark.exporting.committing.manifest import fence_after
from appendlog.spark.exporting.committing.manifests import (
    BEGUN,
    JobFolder,
    Manifests,
    Survey,
    listed_files,
)
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.layout import part_range
from appendlog.spark.exporting.stores.store import StoredFile

UNFINISHED: Final = "of a run that was not committed"
UNLISTED: Final = "no manifest names it"
STRAY: Final = "nothing that an export keeps"
RUNNING: Final = "an export is running"
TOO_YOUNG: Final = "its run may be alive: --older-than"
FOREIGN: Final = "not a file of an export"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that belongs to no commit.

    Attributes:
        path: Path in the store.
        size_bytes: Size of the file in bytes.
        reason: Why it is removed, or why it is kept.
    """

    path: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """Files that were removed, or would be.

    Attributes:
        removed: Files that were removed.
        spared: Files that were kept although no manifest lists them.
    """

    removed: tuple[Orphan, ...]
    spared: tuple[Orphan, ...]


def vacuum_queue(
    manifests: Manifests, older_than_seconds: float, now: datetime, *, is_dry_run: bool
) -> VacuumReport:
    """Remove the files of one queue that no commit needs.

    Args:
        manifests: Manifests of the queue, at least one.
        older_than_seconds: Age at which a run counts as killed, if the store has no locks.
        now: Present time, with a time zone.
        is_dry_run: Whether to change nothing.

    Raises:
        OutputChangedError: An export has committed during this; all removals were right.
        OutputError: A manifest is missing or cannot be read.
        OSError: The store fails.
    """
    with _lock(manifests) as (is_alone, is_running):
        # Before the manifests are read: then no file that is moved in later counts as unlisted.
        in_place = manifests.store.list(manifests.folder)
        survey = manifests.survey()
        removed, spared = _in_place(manifests, survey, in_place)
        for job in survey.jobs:
            if job.number >= survey.manifests and not is_alone:
                is_old = _age_seconds(manifests, job, now) >= older_than_seconds
                if is_running or not is_old:
                    reason = RUNNING if is_running else TOO_YOUNG
                    spared += _orphans(job.files, reason)
                    continue
            removed += _orphans(_leftover_files(manifests, survey, job), UNFINISHED)
        (removed if is_alone else spared).extend(_orphans(survey.strays, STRAY))
        if not is_dry_run:
            manifests.complete(survey)
            _fence(manifests, survey, {orphan.path for orphan in removed}, now)
            manifests.remove(orphan.path for orphan in removed)
    return VacuumReport(tuple(removed), tuple(spared))


@contextmanager
def _lock(manifests: Manifests) -> Iterator[tuple[bool, bool]]:
    """Yield two flags: no other export can be running; another export is running."""
    with ExitStack() as stack:
        is_running = is_alone = False
        try:
            is_alone = stack.enter_context(manifests.store.locked(f"{manifests.work}/lock"))
        except BlockingIOError:
            is_running = True
        yield is_alone, is_running


def _in_place(
    manifests: Manifests, survey: Survey, files: Iterable[StoredFile]
) -> tuple[list[Orphan], list[Orphan]]:
    read = (manifests.read(number) for number in range(survey.manifests))
    named = {file.path for file in listed_files(read)}
    ours: list[Orphan] = []
    foreign: list[Orphan] = []
    for file in files:
        if file.path not in named:
            is_ours = part_range(file.path.rpartition("/")[2]) is not None
            orphans = ours if is_ours else foreign
            orphans += _orphans([file], UNLISTED if is_ours else FOREIGN)
    return ours, foreign


def _leftover_files(manifests: Manifests, survey: Survey, job: JobFolder) -> list[StoredFile]:
    if job.number >= survey.manifests:
        return list(job.files)
    manifest = manifests.read(job.number)
    moves = manifests.moves(manifest) if manifest.job == job.job else {}
    return [file for file in job.files if file.path not in moves]


def _age_seconds(manifests: Manifests, job: JobFolder, now: datetime) -> float:
    """Return the age of a run in seconds; infinite if nothing says when it began."""
    try:
        begun = json.loads(manifests.store.read(f"{job.path}/{BEGUN}"))["created"]
        return (now - datetime.fromisoformat(begun)).total_seconds()
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return float("inf")


def _fence(manifests: Manifests, survey: Survey, removed: set[str], now: datetime) -> None:
    """Take the numbers of jobs whose files will be removed, so that they can never commit."""
    is_needed = any(
        job.number >= survey.manifests and any(file.path in removed for file in job.files)
        for job in survey.jobs
    )
    if is_needed and not manifests.create(fence_after(manifests.read(survey.manifests - 1), now)):
        where = f"{manifests.store.url}/{manifests.folder}"
        raise OutputChangedError(f"{where}: another export has written here; run it again")


def _orphans(files: Iterable[StoredFile], reason: str) -> list[Orphan]:
    return [Orphan(file.path, file.size_bytes, reason) for file in files]
