"""Accounts for every offset of a job: it is a row, or the account says why not.

The account makes an output provably complete, so it is checked before each commit: of the files of
each range, which are siblings, `rows + missing + corrupt + excluded` is the number of its offsets,
no offset is in two ranges, and no file has an offset of another job.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.destination import CorruptRange, ExportJob, WrittenFile
from appendlog.spark.planning.ranges import (
    Range,
    first_overlap,
    join_ranges,
    offsets_in,
    subtract_ranges,
)


@dataclass(frozen=True, slots=True)
class Account:
    """Numbers of offsets of a job without a row.

    Attributes:
        missing: Offsets that the log did not have.
        corrupt: Offsets in damaged parts of the log.
        excluded: Offsets that the user did not ask for.
    """

    missing: int
    corrupt: int
    excluded: int


def contradictions(files: Iterable[tuple[Range, int]]) -> Iterator[str]:
    """Yield what is wrong with the ranges of files, one line each.

    Args:
        files: Range of each file of a commit, and the number of its offsets that the file accounts
            for. Files of one range are siblings.
    """
    known: dict[Range, int] = {}
    for range_, count in files:
        known[range_] = known.get(range_, 0) + count
    for (start, end), count in known.items():
        if count != end - start:
            yield f"offsets [{start}, {end}): files account for {count} of {end - start}"
    if twice := first_overlap(known):
        yield f"offsets [{twice[0]}, {twice[1]}) are in two files"


def settle_account(
    job: ExportJob,
    files: Sequence[WrittenFile],
    gaps: Sequence[Range],
    corrupt: Sequence[CorruptRange],
) -> Account:
    """Return the account of the offsets of a job that are no rows.

    Raises:
        OutputError: The numbers contradict each other, which is a bug: nothing may be committed.
    """
    for file in files:
        if file.rows < 1:
            raise OutputError(f"{file.path}: no rows: {file}")
    known = [
        ((f.start_offset, f.end_offset), f.rows + f.missing + f.corrupt + f.excluded) for f in files
    ]
    for contradiction in contradictions(known):
        raise OutputError(f"{contradiction}, in one export")
    in_files = [range_ for range_, _ in known]
    foreign = subtract_ranges(join_ranges(in_files), join_ranges(job.ranges))
    if foreign:
        raise OutputError(f"offsets [{foreign[0][0]}, {foreign[0][1]}) were not to be exported")
    left = subtract_ranges(join_ranges(job.ranges), join_ranges(in_files))
    after_gaps = subtract_ranges(left, join_ranges(gaps))
    after_damage = subtract_ranges(
        after_gaps, join_ranges((damage.start, damage.end) for damage in corrupt)
    )
    if after_damage and job.include == "all":
        start, end = after_damage[0]
        raise OutputError(f"offsets [{start}, {end}) are in no file, and nothing says why")
    return Account(
        missing=sum(f.missing for f in files) + offsets_in(left) - offsets_in(after_gaps),
        corrupt=sum(f.corrupt for f in files) + offsets_in(after_gaps) - offsets_in(after_damage),
        excluded=sum(f.excluded for f in files) + offsets_in(after_damage),
    )
