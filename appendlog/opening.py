"""Opening a log: recovers its files and makes the log's state from them."""

from dataclasses import replace
from pathlib import Path

from appendlog.append import Append
from appendlog.errors import LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.files.found_files import FoundFiles
from appendlog.identity import LogIdentity
from appendlog.layout.format import GAP_LOST
from appendlog.log_state import LogState
from appendlog.options import LogOptions
from appendlog.recovery.log_images import LogImage
from appendlog.recovery.log_recovery import RecoveredLog, recover
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.recovery.segment_recovery import RecoveryContext
from appendlog.recovery.whole_log import recover_whole


def open_state(
    directory: Path,
    identity: LogIdentity,
    options: LogOptions,
    filesystem: FileSystem,
    settled_floor: int = 0,
    known_end: int = 0,
    image: LogImage | None = None,
    found_files: FoundFiles | None = None,
) -> tuple[LogState, RecoveryReport]:
    """Recover a log and write the result to the disk; see `Log.open`.

    Raises:
        UnsupportedFormatError: A segment is of another format version.
        LogFailedError: A file operation failed.
    """
    report = RecoveryReport(directory)
    context = RecoveryContext(
        directory,
        identity,
        filesystem,
        options.descriptors,
        options.index_interval_bytes,
        report,
        settled_floor,
        known_end,
        options.time_ns(),
    )
    try:
        recovered = None if image is None else recover_whole(context, image)
        if recovered is None:
            recovered = recover(context)
    except OSError as error:
        raise LogFailedError(directory, error) from error
    state = LogState(directory, identity, options, filesystem, recovered)
    state.settle_recovery(recovered, found_files)
    return state, report


def fresh_state(
    directory: Path, identity: LogIdentity, options: LogOptions, filesystem: FileSystem
) -> LogState:
    """Return the state of a log without any record; does not touch the disk."""
    return LogState(directory, identity, options, filesystem, RecoveredLog())


def reopen_state(state: LogState) -> tuple[LogState, RecoveryReport]:
    """Recover a failed log without what its failed append left; see `Log.reopen`.

    Args:
        state: State that failed. Its segments can be read until the new state replaces it.

    Raises:
        LogFailedError: The files still fail; the state stays unchanged.
    """
    state.close_files(state.segments.snapshot)
    try:
        state.writer.roll_back(state.segments.snapshot)
    except OSError as error:
        raise LogFailedError(state.directory, error) from error
    # Existing directories may not be on the disk yet: this log may have made them.
    options = replace(state.options, directories=state.writer.directories)
    reopened, report = open_state(state.directory, state.identity, options, state.filesystem)
    if reopened.log_end_offset < state.log_end_offset:
        report.add_lost(reopened.log_end_offset, state.log_end_offset)
        reopened.append(Append([], state.log_end_offset, sync=True, gap_reason=GAP_LOST))
    return reopened, report
