"""The entries of an import on their way from a client's process to the server's.

The client parses the definitions file, which takes a second for the largest one, and writes one
line for each entry into a file in the data directory. The server reads it in slices: each line is
parsed by itself. So no request holds the event loop, and none is larger than a line.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from typing import TYPE_CHECKING, Final

import orjson

from amqp_server.definitions_file.entry import Entry
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.file_content import FILE_BYTES_MAX, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_NAME: Final = re.compile(r"definitions-[0-9a-f]{32}\.lines")
BYTES_MAX: Final = 4 * FILE_BYTES_MAX
"""Largest such file: each entry also has its place."""
UPLOADS_MAX: Final = 4
"""Files of clients that are still writing, or wait for their import."""
UPLOAD_SECONDS_MAX: Final = 600.0
"""Seconds after which a file that no client has written to is removed."""


def write_entries(storage_path: Path, entries: Iterable[Entry]) -> str:
    """Write the entries into a new file of the data directory; return its name.

    Raises:
        OSError: It cannot be written.
    """
    name = f"definitions-{secrets.token_hex(16)}.lines"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(storage_path / name, flags, 0o600), "wb") as file:
        for entry in entries:
            fields = [entry.section, entry.index, entry.source, entry.fields]
            file.write(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))
    return name


def append_lines(storage_path: Path, name: str, lines: str) -> str:
    """Append text to such a file, for a client that may not write to the directory; blocks.

    Args:
        storage_path: The data directory.
        name: Name of the file; empty: a new one.
        lines: Lines, or parts of them; the file is complete when its last line is.

    Returns:
        The name of the file.

    Raises:
        DefinitionsError: There is no such file, it would be too large, there are too many of them,
            or the disk refused.
    """
    if name and _NAME.fullmatch(name) is None:
        raise DefinitionsError(f"{name!r:.100} is no name of a file with entries")
    octets = lines.encode()
    try:
        if not name:
            _make_room(storage_path)
            name = write_entries(storage_path, ())
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(storage_path / name, flags), "wb") as file:
            if file.tell() + len(octets) > BYTES_MAX:
                raise DefinitionsError(f"{name}: larger than {BYTES_MAX >> 20} MiB, the limit")
            file.write(octets)
    except OSError as error:
        raise DefinitionsError(f"{name}: {error.strerror or error}") from error
    return name


def _make_room(storage_path: Path) -> None:
    """Remove the files of clients that ended; refuse one more if too many are in use.

    Raises:
        DefinitionsError: There are too many.
    """
    now = time.time()
    in_use = 0
    for path in storage_path.glob("definitions-*.lines"):
        try:
            age_seconds = now - path.stat().st_mtime
        except FileNotFoundError:
            continue
        if age_seconds > UPLOAD_SECONDS_MAX:
            path.unlink(missing_ok=True)
        else:
            in_use += 1
    if in_use >= UPLOADS_MAX:
        raise DefinitionsError(f"{UPLOADS_MAX} imports of definitions wait, the most allowed")


def take_content(storage_path: Path, name: str) -> bytes:
    """Return the content of such a file, and remove it; blocks.

    Raises:
        DefinitionsError: There is no such file, or it is too large.
    """
    if _NAME.fullmatch(name) is None:
        raise DefinitionsError(f"{name!r:.100} is no name of a file with entries")
    path = storage_path / name
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
        path.unlink()
    except OSError as error:
        raise DefinitionsError(f"{path}: {error.strerror or error}") from error
    if len(content) > BYTES_MAX:
        raise DefinitionsError(f"{path}: larger than {BYTES_MAX >> 20} MiB, the limit")
    return content


def read_entries(content: bytes) -> Iterator[Entry]:
    """Yield the entries of such a file; each step parses one line.

    Raises:
        DefinitionsError: A line is no entry.
    """
    at = 0
    while at < len(content):
        end = content.find(b"\n", at)
        if end < 0:
            raise DefinitionsError("the last entry is incomplete")
        try:
            section, index, source, fields = orjson.loads(memoryview(content)[at:end])
        except (orjson.JSONDecodeError, TypeError, ValueError):
            raise DefinitionsError(f"no entry at byte {at}") from None
        if section not in SECTIONS or not isinstance(fields, dict):
            raise DefinitionsError(f"no entry at byte {at}")
        yield Entry(section, int(index), str(source), fields)
        at = end + 1


def remove_leftovers(storage_path: Path) -> None:
    """Remove the files of clients that ended before the server read them."""
    for path in storage_path.glob("definitions-*.lines"):
        if _NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
