"""Commits files of a queue to an output of plain files: Parquet, JSON lines.

The highest manifest is the state of the output. A run takes the next number when it begins. The run
that creates the manifest of that number first wins; no reader ever sees the files of the others.
Files move to their final places after the commit of their manifest, and the next run completes
interrupted moves. So a plain reader always sees whole, committed files, and no offset twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.account import Account, settle_account
from appendlog.spark.exporting.committing.adoption import earlier_files
from appendlog.spark.exporting.committing.manifest import (
    Kind,
    ListedFile,
    Manifest,
    Total,
    add_to,
    time_text,
)
from appendlog.spark.exporting.committing.manifests import Manifests, Survey
from appendlog.spark.exporting.committing.output_layout import Layout, OutputLayout
from appendlog.spark.exporting.destination import (
    CorruptRange,
    Exported,
    ExportJob,
    OtherQueueError,
    OutputChangedError,
    WrittenFile,
)
from appendlog.spark.exporting.layout import part_range
from appendlog.spark.exporting.stores.contents import Contents, refuse_other_contents
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range, join_ranges, subtract_ranges
from appendlog.spark.schema.columns import SCHEMA_VERSION


@dataclass(slots=True)
class _Begun:
    """A run between `begin` and its end.

    Attributes:
        number: Number of the manifest that it will create.
        folder: Folder of its files.
        total: Sum of the output before this run.
        is_over: Whether a commit was tried; then this run must not remove files any more.
    """

    number: int
    folder: str
    total: Total
    is_over: bool = False


class FilesDestination:
    """Output of plain files for one queue; see `Destination`. Not thread-safe.

    Args:
        store: Store of the output.
        log: Queue whose messages the files hold.
        layout: Kind and folders of the files, which all queues of the output share; None to look at
            any output.
    """

    def __init__(
        self,
        store: OutputStore,
        log: QueueLog,
        layout: OutputLayout | None = None,
    ) -> None:
        self._store: Final = store
        self._layout: Final = layout
        self._log: Final = log
        self._manifests: Final = Manifests(store, log.queue)
        self._begun: _Begun | None = None

    @property
    def store(self) -> OutputStore:
        """See `Destination.store`."""
        return self._store

    @property
    def folder(self) -> str:
        """Return the folder of the queue's files in the store."""
        return self._manifests.folder

    def covered(self) -> list[Range]:
        """See `Destination.covered`; reads one manifest.

        Completes interrupted commits first, so that readers can read all that it returns.
        """
        survey, earlier = self._look()
        if not survey.manifests:
            if self._layout is not None and not earlier:
                self._layout.check()
            return join_ranges((file.start, file.end) for file in earlier)
        covered = list(self._total(survey).covered)
        self._manifests.complete(survey)
        return covered

    def last_end(self) -> int | None:
        """See `Destination.last_end`."""
        covered = self.covered()
        return covered[-1][1] if covered else None

    def exported(self) -> Exported | None:
        """See `Destination.exported`; reads the last manifest that has files."""
        for number in reversed(range(self._manifests.survey().manifests)):
            files = self._manifests.read(number).files
            if files:
                end = max(file.end for file in files)
                # The message before the end is in one of the siblings.
                times = [file.max_ts for file in files if file.end == end]
                known = [time for time in times if time is not None]
                return Exported(end, max(known)) if len(known) == len(times) else None
        return None

    @contextmanager
    def begin(self, job: ExportJob) -> Iterator[str]:
        """See `Destination.begin`."""
        assert self._begun is None
        try:
            with self._store.locked(f"{self._manifests.work}/lock") as is_alone:
                begun = self._begun = self._prepare(job, is_alone=is_alone)
                try:
                    self._manifests.begin_job(begun.folder, datetime.now(UTC))
                    yield begun.folder
                except Exception as error:
                    self._refuse_overtaken(begun, error)
                    raise
                finally:
                    self._begun = None
                    if not begun.is_over:
                        self._manifests.remove(f.path for f in self._store.list(begun.folder))
        except BlockingIOError as error:
            where = f"{self._store.url}/{self.folder}"
            raise OutputError(f"{where}: another export is writing here; wait for it") from error

    def commit(
        self,
        job: ExportJob,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
    ) -> None:
        """See `Destination.commit`."""
        begun = self._begun
        assert begun is not None
        assert not begun.is_over
        account = settle_account(job, files, gaps, corrupt)
        self._check_files(begun, files)
        manifest = self._manifest(job, begun, files, gaps, corrupt, account)
        if self._layout is not None and files and not begun.total.files:
            self._layout.claim()
        # From here on the manifest may exist, even if `create` raises.
        begun.is_over = True
        if not self._manifests.create(manifest):
            begun.is_over = False
            raise self._changed()
        try:
            self._manifests.move(self._manifests.moves(manifest))
            # The other files are of failed tries, of this run and of other runs.
            self._manifests.roll_forward(self._manifests.survey())
        except OSError as error:
            text = f"{error.strerror or error}: all of it is exported, but not every file is in its"
            raise OSError(
                error.errno, f"{text} place: the next run completes it", error.filename
            ) from error

    def _prepare(self, job: ExportJob, *, is_alone: bool) -> _Begun:
        """Complete interrupted commits, and take the next number."""
        survey, earlier = self._look()
        total = self._total(survey)
        number = survey.manifests
        self._manifests.roll_forward(survey)
        if earlier:
            total = self._add("adopted", job, number, total, earlier)
            number += 1
            self._check_layout(self._manifests.read(number - 1))
        if tuple(total.covered) != job.covered:
            raise self._changed()
        if total.include not in (None, job.include):
            raise OutputError(
                f"{self._store.url}/{self.folder}: holds --include {total.include}, and not "
                f"{job.include}: what one leaves out is not what the other does; give another --out"
            )
        self._refuse_unlisted(job, number)
        waiting = [each for each in survey.jobs if each.number >= number]
        if is_alone and waiting:
            # The process of the job is gone, but its workers may still write, and locks may fail.
            # Once its number is taken, the job cannot be committed, and its files can go.
            total = self._add("fence", job, number, total)
            number += 1
            self._manifests.roll_forward(survey, number)
        return _Begun(number, self._manifests.job_path(number, job.job_id), total)

    def _look(self) -> tuple[Survey, list[ListedFile]]:
        """Return what the work folder shows, and the files of an output without manifests.

        A commit creates its manifest before it moves its files. So files belong to an earlier
        version only if there is still no manifest after they were listed; otherwise another
        export has committed them since the first look, and its manifest says what they are.
        """
        survey = self._manifests.survey()
        if survey.manifests:
            return survey, []
        try:
            earlier = self._earlier()
        except OutputError:
            survey = self._manifests.survey()
            if survey.manifests:
                return survey, []
            raise
        survey = self._manifests.survey()
        return survey, [] if survey.manifests else earlier

    def _add(
        self,
        kind: Kind,
        job: ExportJob,
        number: int,
        total: Total,
        files: Sequence[ListedFile] = (),
    ) -> Total:
        ranges = tuple(join_ranges((file.start, file.end) for file in files))
        manifest = Manifest(
            number=number,
            kind=kind,
            vhost=self._log.vhost,
            queue=self._log.queue,
            incarnation=self._log.incarnation,
            start=ranges[0][0] if ranges else job.start,
            end=ranges[-1][1] if ranges else job.start,
            ranges=ranges,
            files=tuple(files),
            gaps=(),
            corrupt=(),
            missing=sum(file.missing for file in files),
            corrupt_offsets=sum(file.corrupt for file in files),
            excluded=0,
            include="all",
            schema_version=SCHEMA_VERSION,
            job=job.job_id,
            created=time_text(datetime.now(UTC)),
            total=total,
        )
        manifest = replace(manifest, total=add_to(total, manifest))
        if not self._manifests.create(manifest):
            raise self._changed()
        return manifest.total

    def _manifest(
        self,
        job: ExportJob,
        begun: _Begun,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
        account: Account,
    ) -> Manifest:
        manifest = Manifest(
            number=begun.number,
            kind="export",
            vhost=self._log.vhost,
            queue=self._log.queue,
            incarnation=self._log.incarnation,
            start=job.start,
            end=job.end,
            ranges=tuple(join_ranges(job.ranges)),
            files=tuple(
                self._listed(file, begun.folder)
                for file in sorted(files, key=lambda file: (file.start_offset, file.target))
            ),
            gaps=tuple(join_ranges(gaps)),
            corrupt=tuple(sorted(corrupt, key=lambda damage: (damage.start, damage.position))),
            missing=account.missing,
            corrupt_offsets=account.corrupt,
            excluded=account.excluded,
            include=job.include,
            schema_version=SCHEMA_VERSION,
            job=job.job_id,
            created=time_text(datetime.now(UTC)),
            total=begun.total,
        )
        manifest = replace(manifest, total=add_to(begun.total, manifest))
        assert manifest.total.is_exact
        return manifest

    def _listed(self, file: WrittenFile, folder: str) -> ListedFile:
        return ListedFile(
            path=f"{self.folder}/{file.target}",
            source=file.path.removeprefix(f"{folder}/"),
            start=file.start_offset,
            end=file.end_offset,
            rows=file.rows,
            bytes=file.size_bytes,
            min_ts=file.min_timestamp_ns,
            max_ts=file.max_timestamp_ns,
            sha256=file.sha256,
            missing=file.missing,
            corrupt=file.corrupt,
            excluded=file.excluded,
            metadata=dict(file.metadata),
        )

    def _check_files(self, begun: _Begun, files: Sequence[WrittenFile]) -> None:
        """Compare the reports of tasks with the files in the store."""
        there = {file.path: file.size_bytes for file in self._store.list(begun.folder)}
        for file in files:
            found = there.get(file.path)
            if found != file.size_bytes:
                self._refuse_overtaken(begun, None)
                state = "is not there" if found is None else f"has {found}"
                raise OutputError(
                    f"{self._store.url}/{file.path}: its task wrote {file.size_bytes} bytes, "
                    f"it {state}; nothing was exported"
                )

    def _total(self, survey: Survey) -> Total:
        """Return the sum of the output.

        Raises:
            OutputError: The output is of another queue or incarnation.
        """
        if not survey.manifests:
            return Total()
        number = survey.manifests - 1
        manifest = self._manifests.read(number)
        self._check_owner(manifest, f"{self._store.url}/{self._manifests.path(number)}")
        self._check_layout(manifest)
        return manifest.total

    def _check_owner(self, manifest: Manifest, where: str) -> None:
        for what in ("vhost", "queue", "incarnation"):
            found = getattr(manifest, what)
            expected = getattr(self._log, what)
            if found != expected:
                raise OtherQueueError(
                    f"{where}: {what} is {found}, that of the queue is {expected}: "
                    "offsets of one are not those of the other; give another --out"
                )

    def _check_layout(self, manifest: Manifest) -> None:
        if self._layout is None:
            return
        # A fence has no files, and neither has an export of a gap.
        while not manifest.files and manifest.total.files and manifest.number:
            manifest = self._manifests.read(manifest.number - 1)
        for file in manifest.files[:1]:
            there = Layout.of(file.path)
            self._layout.refuse_other(there, f"{self._store.url}/{self.folder}")
        if not manifest.files:
            self._layout.check()

    def _refuse_unlisted(self, job: ExportJob, number: int) -> None:
        """Refuse to add offsets of a file that no manifest lists: readers would read both.

        Such a file is there if manifests were removed, or an older copy of them was put back.
        """
        for file in self._store.list(self.folder):
            found = part_range(file.path.rpartition("/")[2])
            if found is not None and subtract_ranges([found], job.ranges) != [found]:
                if self._manifests.survey().manifests > number:
                    raise self._changed()
                raise OutputError(
                    f"{self._store.url}/{file.path}: no manifest names it, and its offsets are to "
                    "be exported: readers would see them twice; remove it (amqp-server export "
                    "vacuum), or give another --out"
                )

    def _earlier(self) -> list[ListedFile]:
        refuse_other_contents(self._store, Contents.FILES)
        return earlier_files(self._store, self.folder, self._log)

    def _refuse_overtaken(self, begun: _Begun, error: Exception | None) -> None:
        """Raise OutputChangedError if a faster export has removed the files of this one."""
        if begun.is_over or isinstance(error, OutputChangedError):
            return
        if self._manifests.survey().manifests > begun.number:
            raise self._changed() from error

    def _changed(self) -> OutputChangedError:
        return OutputChangedError(
            f"{self._store.url}/{self.folder}: another export has written here; run it again"
        )
