"""Reads every document at a start; an unreadable file does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from appendlog.files.bulk_reads import PATHS_AT_ONCE
from metadata.document import SCHEMA, Document, decode_with_schema, is_kind, read_fields
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentFormatError
from metadata.name_list import NAMES_NAME, StoredNames, read_names
from metadata.paths import DOCUMENT_SUFFIX, TEMPORARY_SUFFIX, place_of
from metadata.redo_file import REDO_NAME, read_redo

logger: Final = logging.getLogger("metadata.loading")

_MISSING: Final = f"missing, but {NAMES_NAME} has it"
_UNDECIDED: Final = REDO_NAME + TEMPORARY_SUFFIX
"""Name of the redo file of a batch that a crash has interrupted before its decision."""

_UNWRITTEN: Final = NAMES_NAME + TEMPORARY_SUFFIX


@dataclass(frozen=True, slots=True)
class UnreadableDocument:
    """A file, or a directory of files, that could not be used; it stays in its place.

    Attributes:
        path: Path of the file or directory.
        kind: Kind, from the directory's name.
        encoded_vhost: Virtual host, encoded by `encode_name`; empty if a whole kind is unreadable.
        encoded_name: Name, encoded by `encode_name`; empty if a whole virtual host is unreadable.
        reason: What is wrong with it.
        fields: Its members, if it is JSON; unreliable.
        is_damage: Whether its content is invalid; otherwise the disk refused to read it, and it may
            be intact.
        cause: Error of the operating system in that case.
        is_missing: Whether there is no file: only the list of the names proves that it existed.
    """

    path: Path
    kind: str
    encoded_vhost: str
    encoded_name: str
    reason: str
    is_damage: bool = True
    fields: dict[str, Any] | None = None
    cause: OSError | None = None
    is_missing: bool = False


@dataclass(slots=True)
class LoadReport:
    """Result of loading all documents.

    Attributes:
        documents: All readable documents, by kind, then encoded vhost, then encoded name.
        unreadable: What could not be read, by path. A queue among these is not deleted: its log
            directories belong to an unknown incarnation, and none of them may be removed.
        earlier: The readable documents that are stored in an earlier schema.
        unfinished_batch: What a crash has left to write of a decided batch, content by path. The
            documents in it are among the readable ones, whatever their own files contain.
        removed_temporaries: Number of half-written files of an earlier crash that were removed.
        names: The list of the names of some kinds; None if there is none.
    """

    documents: list[Document] = field(default_factory=list)
    unreadable: list[UnreadableDocument] = field(default_factory=list)
    earlier: list[Document] = field(default_factory=list)
    removed_temporaries: int = 0
    unfinished_batch: dict[Path, bytes] = field(default_factory=dict)
    names: StoredNames | None = None

    @property
    def has_any(self) -> bool:
        """Whether there are documents, readable or not: the data directory is not new."""
        return bool(self.documents or self.unreadable)


class _Place(NamedTuple):
    kind: str
    vhost: str
    file_name: str


ShareOut = Callable[[Sequence[Sequence[_Place]], Callable[[Sequence[_Place]], None]], None]
"""Calls a function for each group, in some threads at once; see `FileWorkers.share_out`."""


def load_documents(
    root: Path,
    files: DocumentFiles,
    share_out: ShareOut | None = None,
    *,
    accepts_unsigned: bool = False,
    believes_names: bool = False,
    expects_names: bool = False,
) -> LoadReport:
    """Read all documents below `root`, and remove half-written ones; blocks.

    Other files are left unchanged and not reported.

    Args:
        root: The `metadata` directory.
        files: File operations.
        share_out: Visits the files in several threads; None visits one file after another.
        accepts_unsigned: Whether to accept documents without a checksum: the data directory has an
            earlier format, or is being upgraded.
        believes_names: Whether documents that only the list of names has are missing. A program
            that knows no list may have removed them.
        expects_names: Whether it is known that there was a list.

    Raises:
        DocumentFormatError: The redo file of a batch is damaged.
        OSError: It cannot be read.
    """
    loading = _Loading(root, files, share_out, accepts_unsigned=accepts_unsigned)
    loading.run()
    if believes_names:
        loading.find_missing(expects_names=expects_names)
    return loading.report


def _may_hold_documents(place: _Place) -> bool:
    """Return whether a file may stand in the place of a directory of documents."""
    # No encoded name begins with a dot, so such a file is foreign.
    return not place.vhost.startswith(".") and (not place.kind or is_kind(place.kind))


def _place(path: Path) -> _Place:
    """Return the place of a document's file."""
    return _Place(path.parent.parent.name, path.parent.name, path.name)


class _Loading:
    def __init__(
        self,
        root: Path,
        files: DocumentFiles,
        share_out: ShareOut | None,
        *,
        accepts_unsigned: bool,
    ) -> None:
        self.report = LoadReport()
        self._root = root
        self._files = files
        self._share_out = share_out
        self._accepts_unsigned = accepts_unsigned
        # Several threads add to these; each addition is one atomic step of the interpreter.
        self._found: dict[_Place, tuple[Document, int]] = {}
        self._removed: list[Path] = []

    def run(self) -> None:
        batch = self.report.unfinished_batch = read_redo(self._root, self._files)
        places = sorted({*self._places(), *(_place(path) for path in batch)})
        groups = [places[at : at + PATHS_AT_ONCE] for at in range(0, len(places), PATHS_AT_ONCE)]
        if self._share_out is None:
            for group in groups:
                self._visit(group)
        else:
            self._share_out(groups, self._visit)
        found = [self._found[place] for place in places if place in self._found]
        self.report.documents = [document for document, _ in found]
        self.report.earlier = [document for document, schema in found if schema < SCHEMA]
        self.report.removed_temporaries = len(self._removed)
        self.report.names = read_names(self._root, self._files)
        self.report.unreadable.sort(key=lambda unreadable: unreadable.path)

    def find_missing(self, *, expects_names: bool) -> None:
        """Report documents that are listed and not there."""
        stored = self.report.names
        if not self._found:
            # All of it is gone: a start on that must look at the whole.
            return
        if stored is None:
            # Until a batch is written to its files, nothing of it need be listed.
            if expects_names and not self.report.unfinished_batch:
                self._report_unreadable(_Place(NAMES_NAME, "", ""), "missing", is_missing=True)
            return
        if stored.damage:
            self._report_unreadable(_Place(NAMES_NAME, "", ""), stored.damage)
        known = {
            (each.kind, each.encoded_vhost, each.encoded_name) for each in self.report.unreadable
        }
        for place in self._still_missing(stored.places.difference(self._found)):
            kind, vhost, file_name = place
            name = file_name.removesuffix(DOCUMENT_SUFFIX)
            # Whatever cannot be read may be it.
            places = ((kind, vhost, name), (kind, vhost, ""), (kind, "", ""), ("", "", ""))
            if known.isdisjoint(places):
                self._report_unreadable(_Place(*place), _MISSING, is_missing=True)
        self.report.unreadable.sort(key=lambda unreadable: unreadable.path)

    def _still_missing(self, candidates: set[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
        """Return which of these places are listed and empty, also if a server changes some now.

        A server lists a document after it was written, and forgets it before it is removed.
        """
        if not candidates:
            return []
        absent = {place for place in candidates if not self._exists(place)}
        again = read_names(self._root, self._files)
        listed = again.places if again is not None else set()
        return sorted(place for place in absent & listed if not self._exists(place))

    def _exists(self, place: tuple[str, str, str]) -> bool:
        try:
            self._files.read(self._root.joinpath(*place), 0)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def _places(self) -> list[_Place]:
        kinds = self._list(_Place("", "", ""))
        for name in (_UNDECIDED, _UNWRITTEN):
            if name in kinds:
                kinds.remove(name)
                self._remove_temporary(_Place(name, "", ""))
        return [
            _Place(kind, vhost, file_name)
            for kind in kinds
            for vhost in self._list(_Place(kind, "", ""))
            for file_name in self._list(_Place(kind, vhost, ""))
        ]

    def _list(self, place: _Place) -> list[str]:
        try:
            return self._files.list_names(self._root.joinpath(*place))
        except FileNotFoundError as cause:
            # The whole tree may be missing. Below it the name was listed, so it is a dangling link.
            if place.kind:
                self._report_unreadable(place, str(cause))
            return []
        except NotADirectoryError as cause:
            if _may_hold_documents(place):
                self._report_unreadable(place, f"{cause.strerror}: a file is in its place")
            return []
        except OSError as cause:
            self._report_unreadable(place, str(cause), is_damage=False, cause=cause)
            return []

    def _visit(self, group: Sequence[_Place]) -> None:
        found = []
        for place in group:
            if place.file_name.endswith(TEMPORARY_SUFFIX):
                self._remove_temporary(place)
            elif place.file_name.endswith(DOCUMENT_SUFFIX):
                found.append(place)
        contents = self._files.read_many(["/".join((str(self._root), *each)) for each in found])
        for place, content in zip(found, contents, strict=True):
            self._read(place, content)

    def _remove_temporary(self, place: _Place) -> None:
        path = self._root.joinpath(*place)
        try:
            self._files.remove(path)
        except OSError as cause:
            # It is harmless: the next write of that document overwrites it.
            logger.warning("cannot remove temporary file path=%s cause=%s", path, cause)
        else:
            self._removed.append(path)

    def _read(self, place: _Place, content: bytes | None) -> None:
        batch = self.report.unfinished_batch
        try:
            if content is None or batch:
                path = self._root.joinpath(*place)
                content = batch.get(path) or content or self._files.read(path)
        except OSError as cause:
            # A directory or a dangling link in place of a file cannot be an intact document.
            is_damage = isinstance(cause, IsADirectoryError | FileNotFoundError)
            self._report_unreadable(place, str(cause), is_damage=is_damage, cause=cause)
            return
        try:
            document, schema = decode_with_schema(content, accepts_unsigned=self._accepts_unsigned)
        except DocumentFormatError as cause:
            self._report_unreadable(place, str(cause), fields=_readable_fields(content))
            return
        # Refuse a copy under another name: it would be loaded as a second, older definition.
        if place_of(document.kind, document.vhost, document.name) != place:
            self._report_unreadable(place, f"belongs to {document.kind} {document.name!r}")
            return
        self._found[place] = (document, schema)

    def _report_unreadable(
        self,
        place: _Place,
        reason: str,
        *,
        is_damage: bool = True,
        fields: dict[str, Any] | None = None,
        cause: OSError | None = None,
        is_missing: bool = False,
    ) -> None:
        path = self._root.joinpath(*place)
        logger.error("unreadable metadata path=%s reason=%s", path, reason)
        name = place.file_name.removesuffix(DOCUMENT_SUFFIX)
        self.report.unreadable.append(
            UnreadableDocument(
                path, place.kind, place.vhost, name, reason, is_damage, fields, cause, is_missing
            )
        )


def _readable_fields(content: bytes) -> dict[str, Any] | None:
    try:
        return read_fields(content)
    except DocumentFormatError:
        return None
