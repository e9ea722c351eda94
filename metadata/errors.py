"""Every exception that leaves the metadata room.

Each carries what a caller needs to decide as attributes; the text is for people.
"""

from __future__ import annotations

from pathlib import Path


class MetadataError(Exception):
    """Base of all errors of this package."""


class StorageLockedError(MetadataError):
    """Another process holds the data directory.

    Attributes:
        path: The LOCK file.
        pid: The process that holds it, or None when it has not written its number yet.
    """

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"data directory is in use by {holder}: {path}")


class StorageFormatError(MetadataError):
    """The data directory is of a version that this program does not read.

    Attributes:
        path: The FORMAT file.
        found: What it says, or None when data is there but the file is not.
        supported: What it should say.
    """

    def __init__(self, path: Path, found: str | None, supported: str) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        what = "missing" if found is None else repr(found)
        super().__init__(f"data format of {path} is {what}, expected {supported!r}")


class StorageUnavailableError(MetadataError):
    """The data directory cannot be created, opened or written.

    Attributes:
        path: The file or directory that was refused.
        cause: What the operating system said.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"data directory is unusable at {path}: {cause.strerror or cause}")


class DocumentWriteError(MetadataError):
    """A document could not be made durable; the stored state is the old or the new one.

    Attributes:
        path: The document's file.
        cause: What the operating system said.
    """

    def __init__(self, path: Path, cause: OSError) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"metadata document {path} could not be written: {cause}")


class UnstorableDocumentError(MetadataError):
    """A document would not come back from JSON as it went in; nothing was written.

    Attributes:
        kind: The document's kind.
        name: The document's name.
        reason: What cannot be stored (NaN, bytes, a tuple, a key that is not text, ...).
    """

    def __init__(self, kind: str, name: str, reason: str) -> None:
        self.kind = kind
        self.name = name
        self.reason = reason
        super().__init__(f"{kind} document {name!r} cannot be stored as JSON: {reason}")


class DocumentFormatError(MetadataError):
    """A document's file content cannot be understood.

    Attributes:
        reason: What is wrong with it.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
