"""Which logs each group reads, so that retention knows of a group before it has a place in a log.

A checkpoint says where a group is in the logs that it has seen. A log that appears while no
consumer of the group runs is not among them, though its records are for the group too. So the
first consumer of a group that names a pattern writes it down, in a document:

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
"""A group with more patterns than this counts in every log."""

_GROUPS: Final = "groups"
_EVERY_LOG: Final = "*"


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A group that had a consumer once.

    Attributes:
        name: Its name; of a document that cannot be read, the name of the file.
        patterns: Of the logs that it reads, as `Consumer` takes them.
        since_ns: When its first consumer was opened, ns since 1970 UTC; 0: not known.
    """

    name: str
    patterns: tuple[str, ...]
    since_ns: int = 0

    def reads(self, log: str) -> bool:
        """Tell whether the group counts in a log of this name."""
        return any(fnmatchcase(log, pattern) for pattern in self.patterns)


class KnownGroups:
    """The documents of the groups of one virtual host.

    Args:
        root: The data directory.
        vhost: Name of the virtual host.
        filesystem: The operating system's by default.
    """

    def __init__(self, root: Path, vhost: str, filesystem: FileSystem | None = None) -> None:
        self._root: Final = root
        self._metadata: Final = root / "metadata"
        self._vhost: Final = vhost
        self._filesystem: Final = filesystem or FileSystem()
        self._files: Final = DocumentFiles(self._filesystem)

    def load(self) -> dict[str, KnownGroup]:
        """Return all groups, by name.

        A group whose document is damaged counts in every log: what it reads is not known.

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
        """Write down that a group reads the logs of a pattern; return what was known before.

        Nothing is written if the pattern was known.

        Raises:
            OSError: The document cannot be read.
            DocumentWriteError: The disk refused.
            StorageLockedError: Another process is in the middle of a round, and stays there.
            StorageUnavailableError: The directory or its lock cannot be made.
        """
        path = document_path(self._metadata, _GROUPS, self._vhost, name)
        known = self._read(path)
        if known is not None and pattern in known.patterns:
            return known
        # Two consumers of the group may come at the same time, each with a pattern of its own.
        with Claim.for_a_round(self._root / "offsets"):
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
        """Forget a group; one that is not known is fine.

        Raises:
            DocumentWriteError: The disk refused.
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
        raise TypeError("patterns are text, since_ns is a number")
    return tuple(patterns), since_ns
