"""All exceptions that the package `offsets` raises."""

from pathlib import Path


class OffsetsError(Exception):
    """Base class of all errors of this package."""


class CheckpointFailedError(OffsetsError):
    """A round may not be on the disk; earlier rounds are intact.

    Attributes:
        path: Checkpoint file or its directory.
        cause: Error of the operating system.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(f"{path}: checkpoint failed: {cause}")
        self.path = path
        self.cause = cause


class UnsupportedCheckpointError(OffsetsError):
    """A checkpoint is whole, but this program cannot read its version.

    Attributes:
        path: Checkpoint file.
        found: Version in the file.
        supported: Version that this program reads.
    """

    def __init__(self, path: Path, found: int, supported: int) -> None:
        super().__init__(f"{path}: checkpoint version {found} found, {supported} supported")
        self.path = path
        self.found = found
        self.supported = supported


class RedoFailedError(OffsetsError):
    """The redo journal cannot be read, or a round is not on the disk.

    Attributes:
        path: Redo file or its directory.
        cause: Error of the operating system.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(f"{path}: redo journal failed: {cause}")
        self.path = path
        self.cause = cause


class RedoUnknownError(RedoFailedError):
    """A round failed and could not be undone: the next start may find it committed, or not."""


class UnsupportedRedoError(OffsetsError):
    """A redo file is whole, but this program cannot read its version.

    Attributes:
        path: Redo file.
        found: Version in the file.
        supported: Version that this program reads.
    """

    def __init__(self, path: Path, found: int, supported: int) -> None:
        super().__init__(f"{path}: redo version {found} found, {supported} supported")
        self.path = path
        self.found = found
        self.supported = supported


class InvalidGroupNameError(OffsetsError):
    """The name is not valid for a consumer group.

    Attributes:
        group: Invalid name.
        reason: What is wrong with it.
    """

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(
            f"group name {group[:64]!a} {reason}: "
            "1 to 255 bytes of UTF-8 without control characters are expected"
        )
        self.group = group
        self.reason = reason


class UnknownGroupError(OffsetsError):
    """There is no group of this name on this log.

    Attributes:
        group: Name that was requested.
        log: Description of the log, for people.
    """

    def __init__(self, group: str, log: str) -> None:
        super().__init__(f"no group '{group}' on {log}")
        self.group = group
        self.log = log


class GroupInUseError(OffsetsError):
    """The request is impossible while the group has members.

    Attributes:
        group: Name of the group.
        log: Description of its log, for people.
        members: Number of members, >= 1.
    """

    def __init__(self, group: str, log: str, members: int) -> None:
        consumers = "1 consumer" if members == 1 else f"{members} consumers"
        super().__init__(f"group '{group}' on {log} is in use by {consumers}")
        self.group = group
        self.log = log
        self.members = members


class TooManyGroupsError(OffsetsError):
    """A log has reached its maximum number of groups.

    Attributes:
        group: Name of the refused group.
        log: Description of the log, for people.
        groups_max: Maximum number of groups of a log.
    """

    def __init__(self, group: str, log: str, groups_max: int) -> None:
        super().__init__(
            f"no room for group '{group}' on {log}: it has {groups_max} groups, "
            "as many as a log may have"
        )
        self.group = group
        self.log = log
        self.groups_max = groups_max


class RegressingCommitError(OffsetsError):
    """A commit would move a group back; only a seek may. Nothing was changed.

    Attributes:
        group: Name of the group.
        current: Lowest offset that a commit may name.
        attempted: Offset of the commit; below `current`.
    """

    def __init__(self, group: str, current: int, attempted: int) -> None:
        super().__init__(
            f"group '{group}': a commit of offset {attempted} would go back from {current}; "
            f"{current} or higher is expected, and a seek goes back"
        )
        self.group = group
        self.current = current
        self.attempted = attempted


class GroupOffsetOutOfRangeError(OffsetsError):
    """The log does not have the offset requested for a group. Nothing was changed.

    Attributes:
        group: Name of the group.
        offset: Offset that was requested.
        log_start_offset: Lowest valid offset.
        log_end_offset: Highest valid offset; there the group waits for the next record.
    """

    def __init__(self, group: str, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"group '{group}': offset {offset} is out of range; "
            f"{log_start_offset} to {log_end_offset} is expected"
        )
        self.group = group
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class InvalidLogNameError(OffsetsError):
    """The name is not valid for a log.

    Attributes:
        name: Name that was requested.
        reason: What is wrong with it.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"log name {name!r} {reason}")
        self.name = name
        self.reason = reason


class LogNotFoundError(OffsetsError):
    """There is no log of this name.

    Attributes:
        name: Name that was requested.
        root: Data directory.
    """

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(f"no log {name!r} in {root}")
        self.name = name
        self.root = root


class GroupLockedError(OffsetsError):
    """Another process consumes a log for this group: a group has one consumer for each log.

    Attributes:
        group: Name of the group.
        log: Name of the log.
        pid: Process that has the log, or None if it has not written its id yet.
    """

    def __init__(self, group: str, log: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"group {group!r} on log {log!r} is in use by {holder}")
        self.group = group
        self.log = log
        self.pid = pid
