"""Manages the manifests of one queue in an output, and the files before their moves.

    _amqplog/<queue>/manifest/<n>.json       20 digits, created if absent: the commit point
    _amqplog/<queue>/job-<n>-<job>/...       files of a run that will commit as number n
    _amqplog/<queue>/lock                    held by the running export, if the store has locks
    queue=<queue>/...                        files of the manifests, and no others

The folder of a job has the number under which the job would commit. Once there is a manifest of
that number, each file in the folder is decided: a file that the manifest lists moves to its final
place, and any other can be removed, even if a task is still writing it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from appendlog.spark.exporting.committing.manifest import (
    ListedFile,
    Manifest,
    OutputDamagedError,
    decode_manifest,
    encode_manifest,
    time_text,
)
from appendlog.spark.exporting.layout import WORK_DIRECTORY, folder_name
from appendlog.spark.exporting.stores.store import OutputStore, StoredFile
from appendlog.spark.planning.ranges import Range
from metadata.names import encode_name

_MANIFEST: Final = re.compile(r"manifest/(\d{20})\.json\Z")
_JOB_FILE: Final = re.compile(r"(job-(\d{20})-([0-9a-f]{32}))/")
BEGUN: Final = "begun.json"
"""File in the folder of each job with the time at which it began; vacuum reads its age."""


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Files of one run that are not in their final places.

    Attributes:
        path: Path of the folder in the store.
        number: Number under which the run would commit.
        job: Id of the run.
        files: Files in the folder.
    """

    path: str
    number: int
    job: str
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """Content of a queue's work folder.

    Attributes:
        manifests: Number of manifests; they have all lower numbers.
        jobs: Folders with files, in the order of their numbers.
        strays: Files that are neither manifests nor of a run.
    """

    manifests: int
    jobs: tuple[JobFolder, ...]
    strays: tuple[StoredFile, ...]


def listed_files(manifests: Iterable[Manifest]) -> list[ListedFile]:
    """Return the files of an output from all of its manifests, given in their order."""
    files: dict[str, ListedFile] = {}
    for manifest in manifests:
        for file in manifest.forgotten:
            files.pop(file.path, None)
        files.update((file.path, file) for file in manifest.files)
    return list(files.values())


def siblings_of(files: Iterable[ListedFile]) -> list[list[ListedFile]]:
    """Return the files of each range, ranges in their order; most have one file."""
    found: dict[Range, list[ListedFile]] = {}
    for file in sorted(files, key=lambda file: (file.start, file.end, file.path)):
        found.setdefault((file.start, file.end), []).append(file)
    return list(found.values())


class Manifests:
    """Manifests of one queue. Its only state is the store, so several processes may use it.

    Args:
        store: Store of the output.
        queue: Name of the queue.

    Attributes:
        store: Store of the output.
        work: Folder of manifests and unfinished files.
        folder: Folder of finished files.
    """

    def __init__(self, store: OutputStore, queue: str) -> None:
        self.store: Final = store
        self.work: Final = f"{WORK_DIRECTORY}/{encode_name(queue)}"
        self.folder: Final = folder_name(queue)

    def path(self, number: int) -> str:
        """Return the path of a manifest."""
        return f"{self.work}/manifest/{number:020d}.json"

    def job_path(self, number: int, job: str) -> str:
        """Return the folder of a run that will commit as `number`."""
        return f"{self.work}/job-{number:020d}-{job}"

    def survey(self) -> Survey:
        """List the work folder.

        Raises:
            OutputDamagedError: A manifest is missing: someone has removed it.
        """
        numbers: set[int] = set()
        jobs: dict[tuple[int, str], list[StoredFile]] = {}
        strays: list[StoredFile] = []
        for file in self.store.list(self.work):
            name = file.path.removeprefix(f"{self.work}/")
            if found := _MANIFEST.match(name):
                numbers.add(int(found[1]))
            elif found := _JOB_FILE.match(name):
                jobs.setdefault((int(found[2]), found[3]), []).append(file)
            elif name != "lock":
                strays.append(file)
        folders = [
            JobFolder(self.job_path(*key), *key, files=tuple(files))
            for key, files in sorted(jobs.items())
        ]
        count = max(numbers, default=-1) + 1
        for number in sorted(set(range(count)) - numbers):
            self._check_there(number)
        return Survey(count, tuple(folders), tuple(strays))

    def _check_there(self, number: int) -> None:
        """Look for a manifest that a listing lacks, though it shows a later one.

        A listing during which both were created may show the later one only.
        """
        path = self.path(number)
        try:
            self.store.read(path)
        except FileNotFoundError as error:
            raise OutputDamagedError(
                f"{self.store.url}/{path}: this manifest is missing"
            ) from error

    def read(self, number: int) -> Manifest:
        """Return a manifest.

        Raises:
            FileNotFoundError: There is no manifest of that number.
            OutputDamagedError: The manifest is damaged.
            OutputError: The manifest is of a newer version.
        """
        path = self.path(number)
        manifest = decode_manifest(self.store.read(path), f"{self.store.url}/{path}")
        if manifest.number != number:
            raise OutputDamagedError(
                f"{self.store.url}/{path}: damaged: it is number {manifest.number}"
            )
        return manifest

    def create(self, manifest: Manifest) -> bool:
        """Commit a manifest; return false if another run has taken its number.

        Raises:
            OSError: The store failed; a listing says whether the manifest is committed.
        """
        try:
            self.store.create(self.path(manifest.number), encode_manifest(manifest))
        except FileExistsError:
            # A store that retries by itself finds the manifest of its own first try.
            return self.read(manifest.number).job == manifest.job
        return True

    def roll_forward(self, survey: Survey, up_to: int | None = None) -> None:
        """Move files of commits to their places, and remove files that can never be committed.

        Args:
            survey: Content of the work folder.
            up_to: Number of manifests that exist by now; by default that of the survey.
        """
        self.remove(self.complete(survey, up_to))

    def complete(self, survey: Survey, up_to: int | None = None) -> list[str]:
        """Move files of commits to their places; return files that can never be committed.

        May be repeated, also by several processes at once: a manifest lists exactly one place for
        each file.
        """
        committed = survey.manifests if up_to is None else up_to
        useless: list[str] = []
        for job in survey.jobs:
            if job.number >= committed:
                continue
            manifest = self.read(job.number)
            moves = self.moves(manifest) if manifest.job == job.job else {}
            here = {file.path for file in job.files}
            self.move({source: moves[source] for source in here & moves.keys()})
            useless += here - moves.keys()
        return useless

    def begin_job(self, folder: str, now: datetime) -> None:
        """Make the folder of a run; see `job_path`."""
        with self.store.open_new(f"{folder}/{BEGUN}") as file:
            file.write(json.dumps({"created": time_text(now)}).encode("ascii"))

    def moves(self, manifest: Manifest) -> dict[str, str]:
        """Return source and final path of each file of a commit."""
        folder = self.job_path(manifest.number, manifest.job)
        return {f"{folder}/{file.source}": file.path for file in manifest.files if file.source}

    def move(self, moves: Mapping[str, str]) -> None:
        """Move files; several at once if the store is slow, otherwise in their order."""
        pairs = sorted(moves.items(), key=lambda pair: pair[1])
        if self.store.concurrency == 1:
            for source, target in pairs:
                self.store.move(source, target)
            return
        with ThreadPoolExecutor(self.store.concurrency, "move") as pool:
            list(pool.map(lambda pair: self.store.move(*pair), pairs))

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files."""
        for path in sorted(paths):
            self.store.delete(path)
