"""Proves that an output is complete: rows = range - gaps - corrupt, and every file is whole.

It checks each manifest against its checksum and the sum of the earlier ones, each file against the
report of its task, and the folder against the list of files. Offsets are dense, so that counting
them is a proof.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from appendlog.spark.exporting.checking.faults import Fault
from appendlog.spark.exporting.checking.file_check import check_siblings
from appendlog.spark.exporting.committing.account import contradictions
from appendlog.spark.exporting.committing.manifest import (
    ListedFile,
    Manifest,
    OutputDamagedError,
    Total,
    add_to,
)
from appendlog.spark.exporting.committing.manifests import Manifests, listed_files, siblings_of
from appendlog.spark.planning.ranges import Range, first_overlap, offsets_in, subtract_ranges

CHECKS_AT_ONCE: Final = 4

OnChecked = Callable[[int, int], None]
"""Called with bytes of files that were checked, and bytes in all."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of the check of one queue of an output.

    Attributes:
        queue: Name of the queue.
        vhost: Virtual host of the queue.
        incarnation: Identity of the queue, as text.
        total: Sum of all exports, according to the output.
        manifests: Number of manifests.
        files: Files that the manifests list.
        holes: Offsets between exported ones that no export was asked for.
        faults: Faults that were found; none if the output is complete.
        is_deep: Whether every offset was read.
    """

    queue: str
    vhost: str
    incarnation: str
    total: Total
    manifests: int
    files: tuple[ListedFile, ...]
    holes: tuple[Range, ...]
    faults: tuple[Fault, ...]
    is_deep: bool


def verify_queue(
    manifests: Manifests, *, is_deep: bool = False, on_checked: OnChecked = lambda _, __: None
) -> Proof:
    """Check one queue of an output; completes commits that were interrupted.

    Reads every byte of the files once.

    Args:
        manifests: Manifests of the queue, at least one.
        is_deep: Whether to read every offset too.
        on_checked: Called now and then.

    Raises:
        OutputDamagedError: A manifest is missing, or none can be read.
        OutputError: A manifest is of a newer version.
        OSError: The store fails.
    """
    survey = manifests.survey()
    manifests.complete(survey)
    faults: list[Fault] = []
    read = _read_all(manifests, survey.manifests, faults)
    if not read:
        raise OutputDamagedError(
            faults[0].text if faults else f"{manifests.store.url}: no manifest"
        )
    faults += _check_chain(read)
    files = tuple(listed_files(read))
    # Listed first: a file of a commit after the read of the manifests would be unknown.
    there = {f.path: f.size_bytes for f in manifests.store.list(manifests.folder)}
    later = range(survey.manifests, manifests.survey().manifests)
    known = {f.path for number in later for f in manifests.read(number).files}
    faults += _unlisted(there.keys() - known - {file.path for file in files})
    faults += _check_files(manifests, files, is_deep=is_deep, on_checked=on_checked)
    total = read[-1].total
    hull = [(total.covered[0][0], total.covered[-1][1])] if total.covered else []
    return Proof(
        queue=read[-1].queue,
        vhost=read[-1].vhost,
        incarnation=str(read[-1].incarnation),
        total=total,
        manifests=survey.manifests,
        files=files,
        holes=tuple(subtract_ranges(hull, total.covered)),
        faults=tuple(faults),
        is_deep=is_deep,
    )


def _read_all(manifests: Manifests, count: int, faults: list[Fault]) -> list[Manifest]:
    read = []
    for number in range(count):
        try:
            read.append(manifests.read(number))
        except OutputDamagedError as error:
            faults.append(Fault("corrupt", str(error), manifests.path(number)))
    return read


def _check_chain(read: Sequence[Manifest]) -> Iterator[Fault]:
    """Check each manifest by itself, and against the one before it."""
    before: Manifest | None = None
    for manifest in read:
        for text in _contradictions(manifest, before):
            yield Fault(
                "corrupt",
                f"manifest {manifest.number} of queue {manifest.queue}: {text}",
                start=manifest.ranges[0][0] if manifest.ranges else None,
                end=manifest.ranges[-1][1] if manifest.ranges else None,
            )
        before = manifest


def _contradictions(manifest: Manifest, before: Manifest | None) -> Iterator[str]:
    known = manifest.rows + manifest.missing + manifest.corrupt_offsets + manifest.excluded
    if known != offsets_in(manifest.ranges):
        yield f"{offsets_in(manifest.ranges)} offsets, {known} are accounted for"
    yield from contradictions(
        ((file.start, file.end), file.rows + file.missing + file.corrupt + file.excluded)
        for file in manifest.files
    )
    if manifest.number and (before is None or before.number != manifest.number - 1):
        return  # the manifest before it cannot be read, which is reported already
    total = before.total if before else Total()
    if twice := first_overlap((*total.covered, *manifest.ranges)):
        yield f"offsets [{twice[0]}, {twice[1]}) were there before"
    if add_to(total, manifest) != manifest.total:
        yield "its sum is not that of the manifests up to it"
    if before and (before.queue, before.vhost, before.incarnation) != (
        manifest.queue,
        manifest.vhost,
        manifest.incarnation,
    ):
        yield "of another queue than the one before it"


def _unlisted(paths: set[str]) -> Iterator[Fault]:
    for path in sorted(paths):
        yield Fault(
            "corrupt",
            f"{path}: no manifest names it: readers of the folder read its rows too",
            path,
        )


def _check_files(
    manifests: Manifests, files: Sequence[ListedFile], *, is_deep: bool, on_checked: OnChecked
) -> list[Fault]:
    faults: list[Fault] = []
    total = sum(file.bytes for file in files)
    done = 0
    on_checked(done, total)
    with ThreadPoolExecutor(CHECKS_AT_ONCE, "verify") as pool:
        sets = siblings_of(files)
        checked = pool.map(
            lambda siblings: check_siblings(manifests.store, siblings, is_deep=is_deep), sets
        )
        for siblings, found in zip(sets, checked, strict=True):
            faults += found
            done += sum(file.bytes for file in siblings)
            on_checked(done, total)
    return faults
