"""Every exception that leaves the offsets room."""

from pathlib import Path


class OffsetsError(Exception):
    """Base of all errors of this package."""


class CheckpointFailedError(OffsetsError):
    """A round is not known to be on the disk; what earlier rounds wrote is untouched.

    Attributes:
        path: The checkpoint file or its directory.
        cause: What the operating system said.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(f"{path}: checkpoint failed: {cause}")
        self.path = path
        self.cause = cause


class UnsupportedCheckpointError(OffsetsError):
    """A checkpoint is whole but of a version that this program does not read.

    Attributes:
        path: The checkpoint file.
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
        path: The redo file or its directory.
        cause: What the operating system said.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(f"{path}: redo journal failed: {cause}")
        self.path = path
        self.cause = cause


class RedoUnknownError(RedoFailedError):
    """A round failed and could not be taken back: the next start may find it committed, or not."""


class UnsupportedRedoError(OffsetsError):
    """A redo file is whole but of a version that this program does not read.

    Attributes:
        path: The redo file.
        found: Version in the file.
        supported: Version that this program reads.
    """

    def __init__(self, path: Path, found: int, supported: int) -> None:
        super().__init__(f"{path}: redo version {found} found, {supported} supported")
        self.path = path
        self.found = found
        self.supported = supported


class InvalidGroupNameError(OffsetsError):
    """A name that no consumer group can have.

    Attributes:
        group: The name.
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
        group: The name that was asked for.
        log: What the log is called, in words for people.
    """

    def __init__(self, group: str, log: str) -> None:
        super().__init__(f"no group '{group}' on {log}")
        self.group = group
        self.log = log


class GroupInUseError(OffsetsError):
    """What was asked for cannot be done while a group has members.

    Attributes:
        group: The group.
        log: What its log is called, in words for people.
        members: How many it has, >= 1.
    """

    def __init__(self, group: str, log: str, members: int) -> None:
        consumers = "1 consumer" if members == 1 else f"{members} consumers"
        super().__init__(f"group '{group}' on {log} is in use by {consumers}")
        self.group = group
        self.log = log
        self.members = members


class TooManyGroupsError(OffsetsError):
    """A log has as many groups as it may have.

    Attributes:
        group: The one that would have been one more.
        log: What the log is called, in words for people.
        groups_max: How many it may have.
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
    """A commit that would take a group back; only a seek does that. Nothing was changed.

    Attributes:
        group: The group.
        current: Lowest offset that a commit may name.
        attempted: What the commit named; below `current`.
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
    """A place for a group that its log does not have. Nothing was changed.

    Attributes:
        group: The group.
        offset: What was asked for.
        log_start_offset: Lowest valid place.
        log_end_offset: Highest valid place: the group then waits for what comes next.
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
    """No log can have this name.

    Attributes:
        name: What was asked for.
        reason: What is wrong with it.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"log name {name!r} {reason}")
        self.name = name
        self.reason = reason


class LogNotFoundError(OffsetsError):
    """A log was named that is not there.

    Attributes:
        name: What was asked for.
        root: Where.
    """

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(f"no log {name!r} in {root}")
        self.name = name
        self.root = root


class GroupLockedError(OffsetsError):
    """Another process consumes a log for this group: the place of a group has one writer.

    Attributes:
        group: The group.
        log: The log.
        pid: The process that has it, or None when it has not written its number yet.
    """

    def __init__(self, group: str, log: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"group {group!r} on log {log!r} is in use by {holder}")
        self.group = group
        self.log = log
        self.pid = pid
