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
        """Keep the path and the operating system's error."""
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
        """Keep the path and both versions."""
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
        """Keep the path and the operating system's error."""
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
        """Keep the path and both versions."""
        super().__init__(f"{path}: redo version {found} found, {supported} supported")
        self.path = path
        self.found = found
        self.supported = supported
