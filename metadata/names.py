"""Converts any AMQP name to a file name that is safe on every file system.

A name is up to 255 bytes that a client chose: `../x`, `CON`, the empty name, `orders` beside
`Orders`. Two rules prevent collisions, even on file systems that ignore case or normalise Unicode.
The result contains only lower-case ASCII. Each byte of UTF-8 that is not in a small safe alphabet
becomes `%xx`. `%` itself is always escaped, so that no name can imitate another's escape. A result
that would be too long keeps a readable beginning and ends in `~` and a hash; `~` occurs nowhere
else. File names are never decoded: the true name is inside the document.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Final
from uuid import UUID

ENCODED_NAME_BYTES_MAX: Final = 240
"""Longest result of `encode_name`: leaves 15 of a file name's 255 bytes for `.json` and `.tmp`."""

LOGS_NAME: Final = "logs"
"""Directory of the logs of all queues that survive a restart."""
SPILL_NAME: Final = "spill"
"""Directory of the logs of all other queues."""

_EMPTY: Final = "%"
_HASH_MARK: Final = "~"
_HASH_HEX_DIGITS: Final = 40

# Upper-case letters are escaped: `Orders` would overwrite `orders` on a file system that ignores
# case.
_UNSAFE: Final = re.compile(rb"[^a-z0-9_.-]")
_PLAIN: Final = re.compile(r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])\Z)[a-z0-9_-]{1,240}")
_ENCODED: Final = re.compile(r"[a-z0-9_%-][a-z0-9_.%~-]{0,239}")
_INCARNATION: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Device names on Windows, with any extension: `con.json` opens the console.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")


def encode_name(name: str) -> str:
    """Encode a name as one safe path component; different names never collide.

    The result is never empty, `.` or `..`, contains no separator, and does not begin or end with a
    dot. It differs from every other name's result even if case is ignored.

    Args:
        name: Any text; bytes that were not UTF-8 on the wire are accepted as surrogate escapes.

    Returns:
        1 to `ENCODED_NAME_BYTES_MAX` characters of lower-case ASCII.

    Raises:
        UnicodeEncodeError: `name` contains a surrogate that stands for no byte.
    """
    if _PLAIN.fullmatch(name):
        # So are most names, and a start encodes each of them several times.
        return name
    raw = name.encode("utf-8", "surrogateescape")
    if not raw:
        return _EMPTY
    encoded = _UNSAFE.sub(_escape, raw).decode("ascii")
    if _RESERVED.match(encoded) or encoded[0] == ".":
        encoded = f"%{ord(encoded[0]):02x}{encoded[1:]}"
    # Some file systems drop a trailing dot, which would merge `a.` with `a`.
    if encoded[-1] == ".":
        encoded = f"{encoded[:-1]}%2e"
    if len(encoded) <= ENCODED_NAME_BYTES_MAX:
        return encoded
    return _shorten(encoded, raw)


def log_directory(storage_path: Path, vhost: str, queue: str, incarnation: UUID) -> Path:
    """Return the directory of one queue incarnation's log.

    Args:
        storage_path: The data directory.
        vhost: Virtual host name, any text.
        queue: Queue name, any text.
        incarnation: The queue's incarnation.

    Returns:
        `<storage_path>/logs/<vhost>/<queue>/<incarnation>`, names encoded; nothing is created.
    """
    # One call: each `/` would parse the path again, which is a large part of a declare's cost.
    return vhost_directory(storage_path, vhost).joinpath(encode_name(queue), str(incarnation))


def is_encoded_name(name: str) -> bool:
    """Return whether a file name may be a result of `encode_name`."""
    return _ENCODED.fullmatch(name) is not None


def is_incarnation(text: str) -> bool:
    """Return whether a text is a UUID in canonical spelling: the name of the directory of a log."""
    return _INCARNATION.fullmatch(text) is not None


@lru_cache(maxsize=256)
def vhost_directory(storage_path: Path, vhost: str) -> Path:
    """Return the directory of the logs of all queues of a virtual host.

    Args:
        storage_path: The data directory.
        vhost: Virtual host name, any text.

    Returns:
        `<storage_path>/logs/<vhost>`, the name encoded; nothing is created.
    """
    return storage_path.joinpath(LOGS_NAME, encode_name(vhost))


def queue_directory(storage_path: Path, vhost: str, queue: str) -> Path:
    """Return the directory of the logs of all incarnations of a queue.

    Args:
        storage_path: The data directory.
        vhost: Virtual host name, any text.
        queue: Queue name, any text.

    Returns:
        `<storage_path>/logs/<vhost>/<queue>`, names encoded; nothing is created.
    """
    return vhost_directory(storage_path, vhost) / encode_name(queue)


def spill_directory(storage_path: Path, vhost: str, queue: str, incarnation: UUID) -> Path:
    """Return the directory where a queue that no restart survives writes what its ring cannot hold.

    Args:
        storage_path: The data directory.
        vhost: Virtual host name, any text.
        queue: Queue name, any text.
        incarnation: The queue's incarnation.

    Returns:
        `<storage_path>/spill/<vhost>/<queue>/<incarnation>`; each start empties `spill`.
    """
    return storage_path.joinpath(
        SPILL_NAME, encode_name(vhost), encode_name(queue), str(incarnation)
    )


def _escape(match: re.Match[bytes]) -> bytes:
    return b"%%%02x" % match[0][0]


def _shorten(encoded: str, raw: bytes) -> str:
    digest = hashlib.sha256(raw).hexdigest()[:_HASH_HEX_DIGITS]
    beginning = encoded[: ENCODED_NAME_BYTES_MAX - len(_HASH_MARK) - _HASH_HEX_DIGITS]
    return f"{beginning}{_HASH_MARK}{digest}"
