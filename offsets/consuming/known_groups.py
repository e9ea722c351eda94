"""Logs that each group reads, so that retention knows of a group before it has a position there.

A checkpoint has the positions of a group in the logs that it has seen. It lacks a log that appears
while no consumer of the group is active, although its records are for the group too. So the first
consumer of a group that uses a pattern stores the pattern in a document:

    metadata/groups/<vhost>/<group>.json    {"patterns": ["events-*"], "since_ns": 17...}

The group counts in each log that one of its patterns matches, from the log's first record.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from appendlog import FileSystem
from metadata.direct_write import remove_document, write_document
from metadata.document import DOCUMENT_BYTES_MAX, Document, decode_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentFormatError
from metadata.names import encode_name
from metadata.paths import DOCUMENT_SUFFIX, document_path
from offsets.consuming.claims import Claim

PATTERNS_MAX: Final = 64
"""Number of patterns above which a group counts in every log."""

_GROUPS: Final = "groups"
_EVERY_LOG: Final = "*"


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """Group that has had a consumer.

    Attributes:
        name: Name of the group; if its document cannot be read, the name of the file.
        patterns: Patterns of the logs that it reads, as passed to `Consumer`.
        since_ns: Time when its first consumer was opened, ns since 1970 UTC; 0 if unknown.
    """

    name: str
    patterns: tuple[str, ...]
    since_ns: int = 0

    def reads(self, log: str) -> bool:
        """Return whether the group reads a log of this name."""
        return any(fnmatchcase(log, pattern) for pattern in self.patterns)


class KnownGroups:
    """Documents of the groups of one virtual host.

    Args:
        root: Data directory.
        vhost: Name of the virtual host.
        filesystem: File operations; those of the operating system by default.
    """

    def __init__(self, root: Path, vhost: str, filesystem: FileSystem | None = None) -> None:
        self._root: Final = root
        self._metadata: Final = root / "metadata"
        self._vhost: Final = vhost
        self._filesystem: Final = filesystem or FileSystem()
        self._files: Final = DocumentFiles(self._filesystem)

    def load(self) -> dict[str, KnownGroup]:
        """Return all groups, by name.

        A group with a damaged document counts in every log, because its patterns are unknown.

        Raises:
            OSError: The directory, or a document, cannot be read.
        """
        directory = self._metadata / _GROUPS / encode_name(self._vhost)
        try:
            names = self._filesystem.listdir(directory)
        except FileNotFoundError:
            return {}
        groups = [self._read(directory / name) for name in names if name.endswith(DOCUMENT_SUFFIX)]
        return {group.name: group for group in groups if group is not None}

    def add(self, name: str, pattern: str) -> KnownGroup | None:
        """Add a pattern to the document of a group; return the group as it was before.

        Writes nothing if the group has the pattern already.

        Raises:
            OSError: The document cannot be read.
            DocumentWriteError: The document cannot be written.
            StorageLockedError: Another process blocks the checkpoints: its round does not end.
            StorageUnavailableError: The directory or its lock file cannot be made.
        """
        path = document_path(self._metadata, _GROUPS, self._vhost, name)
        known = self._read(path)
        if known is not None and pattern in known.patterns:
            return known
        # Two consumers of the group may start at the same time, each with its own pattern.
        with Claim.as_round_writer(self._root / "offsets"):
            known = self._read(path)
            patterns = () if known is None else known.patterns
            if pattern not in patterns:
                patterns = (*patterns, pattern)
            if len(patterns) > PATTERNS_MAX:
                patterns = (_EVERY_LOG,)
            since_ns = time.time_ns() if known is None else known.since_ns
            body: dict[str, Any] = {"patterns": list(patterns), "since_ns": since_ns}
            document = Document(_GROUPS, self._vhost, name, body)
            write_document(self._metadata, document, self._files)
        return known

    def remove(self, name: str) -> None:
        """Remove the document of a group, if there is one.

        Raises:
            DocumentWriteError: The document cannot be removed.
        """
        if self._filesystem.exists(document_path(self._metadata, _GROUPS, self._vhost, name)):
            remove_document(self._metadata, _GROUPS, self._vhost, name, self._files)

    def _read(self, path: Path) -> KnownGroup | None:
        """Return the group of a document; None if there is none."""
        try:
            content = self._filesystem.read_file(path, DOCUMENT_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        try:
            document = decode_document(content)
            return KnownGroup(document.name, *_body(document.body))
        except (DocumentFormatError, KeyError, TypeError, ValueError):
            return KnownGroup(path.stem, (_EVERY_LOG,))


def _body(body: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    patterns, since_ns = body["patterns"], body["since_ns"]
    if not all(isinstance(each, str) for each in patterns) or not isinstance(since_ns, int):
        raise TypeError("patterns must be strings, since_ns an integer")
    return tuple(patterns), since_ns
