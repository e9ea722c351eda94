"""Accounts for every offset of a job: it is a row, or the account says why not.

The account makes an output provably complete, so it is checked before each commit:
`rows + missing + corrupt + excluded` is the number of offsets, no offset is in two files, and no
file has an offset of another job.
"""

from collections.abc import Sequence
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
        known = file.rows + file.missing + file.corrupt + file.excluded
        if known != file.end_offset - file.start_offset or file.rows < 1:
            raise OutputError(f"{file.path}: {known} of its offsets are known of: {file}")
    in_files = [(file.start_offset, file.end_offset) for file in files]
    twice = first_overlap(in_files)
    if twice:
        raise OutputError(f"offsets [{twice[0]}, {twice[1]}) are in two files of one export")
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
