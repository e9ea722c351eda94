"""A list of the documents of some kinds, so that the loss of one leaves a trace.

    amqp-server names 1
    record <bytes of what follows> <crc32c of it, 8 hexadecimal digits>
    + <kind>/<encoded vhost>/<encoded name>.json
    - <kind>/<encoded vhost>/<encoded name>.json

The file is `names.list` in the `metadata` directory. A name is added when its document is on the
disk, before the caller gets its result, and removed before the document is. So whatever a crash
cuts, a listed document that is not there was lost. One that is there and not listed is of a change
that no caller was told of: the next start lists it.

The first record was written with the file, by an atomic rename; others are appended. The last one
may be torn by a crash. Any other invalid record is damage: then the list proves nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from appendlog.layout.crc import crc32c
from metadata.document import is_kind
from metadata.document_files import DocumentFiles
from metadata.names import is_encoded_name
from metadata.paths import DOCUMENT_SUFFIX, temporary_path

NAMES_NAME: Final = "names.list"
"""Name of the file; no kind of documents can have it, because of the dot."""
NAMES_BYTES_MAX: Final = 1 << 30
"""Largest list that is read."""
APPENDED_MIN: Final = 4096
"""Appended names from which on a list may be written again; see `NameList`."""
_HEADER: Final = b"amqp-server names 1\n"
_RECORD: Final = re.compile(rb"record ([0-9]{1,10}) ([0-9a-f]{8})\n")

Place = tuple[str, str, str]
"""Kind, encoded virtual host and file name of a document."""


class StoredNames(NamedTuple):
    """Content of a list.

    Attributes:
        places: The documents that it names.
        damage: What is wrong with it; empty if it can be believed.
        end: Where the next record begins; 0 if a crash has cut the last one.
    """

    places: set[Place]
    damage: str = ""
    end: int = 0


def read_names(root: Path, files: DocumentFiles) -> StoredNames | None:
    """Return the list of a directory of documents; None if there is none.

    Args:
        root: The `metadata` directory.
        files: File operations.
    """
    try:
        content = files.read(root / NAMES_NAME, NAMES_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as cause:
        return StoredNames(set(), str(cause))
    return _parsed(content)


def place_of_path(path: Path) -> Place:
    """Return the place of a document's file."""
    return path.parent.parent.name, path.parent.name, path.name


class NameList:
    """The list of one directory of documents. Any thread may use it.

    The file is written again when most of it is out of date, and after a write that failed.

    Args:
        root: The `metadata` directory.
        files: File operations.
        kinds: Kinds of the documents that are listed; without any there is no file.
    """

    def __init__(self, root: Path, files: DocumentFiles, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self._root = root
        self._path = root / NAMES_NAME
        self._files = files
        self._lock = threading.Lock()
        self._places: set[Place] = set()
        self._end = 0
        self._appended = 0
        self._is_written = False

    def take_over(self, stored: StoredNames | None, places: Iterable[Place]) -> None:
        """Replace the list by what a load has found; the next change, or `write`, makes it durable.

        Args:
            stored: What the file contains.
            places: The documents that are there, or that are missed.
        """
        with self._lock:
            self._places = {place for place in places if place[0] in self.kinds}
            if stored is not None and stored.end and stored.places == self._places:
                self._end = stored.end
                self._is_written = True

    def write(self) -> None:
        """Write the file if it contains something else; without names there need be none.

        Raises:
            OSError: The disk refused; the next change tries again.
        """
        with self._lock:
            if not self._is_written and self._places:
                self._write()

    def add(self, paths: Iterable[Path]) -> None:
        """List documents that are on the disk; return when their names are.

        Raises:
            OSError: The disk refused; some of the names may be listed.
        """
        with self._lock:
            new = {place_of_path(path) for path in paths} - self._places
            new = {place for place in new if place[0] in self.kinds}
            self._places |= new
            self._append(b"+", new)

    def remove(self, paths: Iterable[Path]) -> set[Place]:
        """Forget documents that are about to be removed; return when that is on the disk.

        Returns:
            Those that were listed.

        Raises:
            OSError: The disk refused; the documents must stay.
        """
        with self._lock:
            gone = self._places & {place_of_path(path) for path in paths}
            self._remove(gone)
            return gone

    def remove_vhost(self, encoded_vhost: str) -> None:
        """Forget all documents of a virtual host; as `remove`."""
        with self._lock:
            self._remove({place for place in self._places if place[1] == encoded_vhost})

    def _remove(self, gone: set[Place]) -> None:
        self._places -= gone
        try:
            self._append(b"-", gone)
        except OSError:
            self._places |= gone
            raise

    def _append(self, sign: bytes, places: set[Place]) -> None:
        if not places:
            return
        if not self._is_written or self._appended > max(len(self._places), APPENDED_MIN):
            self._write()
            return
        record = _record(b"%s %s\n" % (sign, _line(place)) for place in sorted(places))
        self._is_written = False
        end = self._end
        self._files.with_room(lambda: self._files.append(self._path, record, end))
        self._is_written = True
        self._end += len(record)
        self._appended += len(places)

    def _write(self) -> None:
        """Write the whole list, beside the old one."""
        self._is_written = False
        content = _HEADER + _record(b"+ %s\n" % _line(place) for place in self._places)
        temporary = temporary_path(self._path)
        self._files.write(temporary, content)
        self._files.rename(temporary, self._path)
        self._files.sync_directory(self._root)
        self._is_written = True
        self._end = len(content)
        self._appended = 0


def _line(place: Place) -> bytes:
    return "/".join(place).encode("ascii")


def _record(lines: Iterable[bytes]) -> bytes:
    payload = b"".join(lines)
    return b"record %d %08x\n%s" % (len(payload), crc32c(payload), payload)


def _parsed(content: bytes) -> StoredNames:
    if not content.startswith(_HEADER):
        return StoredNames(set(), "it does not begin as a list of this version")
    places: set[Place] = set()
    at, is_first = len(_HEADER), True
    while at < len(content):
        payload = _payload(content, at)
        if payload is None:
            if is_first or _has_record_behind(content, at):
                return StoredNames(set(), f"the record at byte {at} is not as it was written")
            return StoredNames(places)
        start, end = payload
        for line in content[start:end].splitlines():
            place = _place(line[2:])
            if place is None or line[:2] not in (b"+ ", b"- "):
                return StoredNames(set(), f"{line!r} names no document")
            if line[:1] == b"+":
                places.add(place)
            else:
                places.discard(place)
        at, is_first = end, False
    if is_first:
        return StoredNames(set(), "its first record is missing")
    return StoredNames(places, end=at)


def _payload(content: bytes, at: int) -> tuple[int, int] | None:
    """Return where the payload of a valid record begins and ends."""
    header = _RECORD.match(content, at)
    if header is None:
        return None
    end = header.end() + int(header[1])
    if end > len(content) or crc32c(content[header.end() : end]) != int(header[2], 16):
        return None
    return header.end(), end


def _has_record_behind(content: bytes, at: int) -> bool:
    """Return whether a valid record follows an invalid one: no crash leaves that."""
    while (at := content.find(b"record ", at + 1)) >= 0:
        if _payload(content, at) is not None:
            return True
    return False


def _place(line: bytes) -> Place | None:
    try:
        kind, vhost, name = line.decode("ascii", "replace").split("/")
    except ValueError:
        return None
    stem = name.removesuffix(DOCUMENT_SUFFIX)
    if not (is_kind(kind) and is_encoded_name(vhost) and is_encoded_name(stem) and stem != name):
        return None
    return kind, vhost, name


def forget_name(root: Path, files: DocumentFiles, place: Place) -> None:
    """Take one document off the list of a directory that no server uses: its loss is accepted.

    Raises:
        OSError: The disk refused.
    """
    stored = read_names(root, files)
    if stored is not None and place in stored.places:
        names = NameList(root, files, frozenset(kind for kind, _, _ in stored.places))
        names.take_over(stored, stored.places - {place})
        names.write()
