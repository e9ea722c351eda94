"""The redo file of a batch: all documents of it, so that a crash leaves every one or none.

    amqp-server batch 1
    <kind>/<encoded vhost>/<encoded name>.json <size>     for each document: its place and its size
    <the content of its file, that many bytes>
    end <documents> <crc32 of all bytes before this line, 8 hexadecimal digits>

The file is `batch.redo` in the `metadata` directory. Its rename from `batch.redo.tmp` decides: from
then on the documents in it count, whatever their own files contain. It is removed when all of these
files are on the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from zlib import crc32

from metadata.document import is_kind
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentFormatError
from metadata.names import is_encoded_name
from metadata.paths import DOCUMENT_SUFFIX

REDO_NAME: Final = "batch.redo"
"""Name of the file; no kind of documents can have it, because of the dot."""
REDO_BYTES_MAX: Final = 1 << 30
"""Largest redo file that is read."""
_PIECE_BYTES: Final = 256 * 1024
"""Bytes that are written at a time: few enough that a worker keeps no other thread waiting."""
_HEADER: Final = b"amqp-server batch 1\n"
_PLACE: Final = re.compile(rb"([a-z_-]+)/([^/ \n]+)/([^/ \n]+) ([0-9]{1,9})")
_END: Final = re.compile(rb"end ([0-9]{1,9}) ([0-9a-f]{8})\n")


def redo_pieces(root: Path, contents: Mapping[Path, bytes]) -> Iterator[bytes]:
    """Yield the bytes of a redo file in pieces.

    Args:
        root: The `metadata` directory.
        contents: Content of each document's file, by path.
    """
    checksum, size = crc32(_HEADER), 0
    waiting = [_HEADER]
    for path, content in contents.items():
        place = path.relative_to(root).as_posix()
        record = b"%s %d\n%s" % (place.encode("ascii"), len(content), content)
        waiting.append(record)
        checksum = crc32(record, checksum)
        size += len(record)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    waiting.append(b"end %d %08x\n" % (len(contents), checksum))
    yield b"".join(waiting)


def read_redo(root: Path, files: DocumentFiles) -> dict[Path, bytes]:
    """Return what a crash has left to do: content by path; empty if there is no redo file.

    Raises:
        DocumentFormatError: The redo file is damaged.
        OSError: It cannot be read.
    """
    path = root / REDO_NAME
    try:
        content = files.read(path, REDO_BYTES_MAX)
    except FileNotFoundError:
        return {}
    try:
        return _contents(root, content)
    except ValueError as error:
        raise DocumentFormatError(f"{path} is damaged: {error}") from error


def _contents(root: Path, content: bytes) -> dict[Path, bytes]:
    if not content.startswith(_HEADER):
        raise ValueError("it does not begin as a batch of this version")
    last = content.rfind(b"\nend ", 0) + 1
    end = _END.fullmatch(content, last)
    if not last or end is None:
        raise ValueError("its last line is missing")
    if crc32(memoryview(content)[:last]) != int(end[2], 16):
        raise ValueError("its checksum does not fit")
    contents: dict[Path, bytes] = {}
    at = len(_HEADER)
    while at < last:
        line_end = content.index(b"\n", at)
        place = _PLACE.fullmatch(content, at, line_end)
        if place is None:
            raise ValueError(f"no place of a document at byte {at}")
        start = line_end + 1
        at = start + int(place[4])
        contents[_path(root, *(part.decode("ascii") for part in place.groups()[:3]))] = content[
            start:at
        ]
    if at != last or len(contents) != int(end[1]):
        raise ValueError("it has another number of documents than it says")
    return contents


def _path(root: Path, kind: str, vhost: str, name: str) -> Path:
    stem = name.removesuffix(DOCUMENT_SUFFIX)
    if not (is_kind(kind) and is_encoded_name(vhost) and is_encoded_name(stem) and stem != name):
        raise ValueError(f"{kind}/{vhost}/{name} is no place of a document")
    return root / kind / vhost / name
