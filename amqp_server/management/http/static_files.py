"""Files that never change while the server runs: read once, sent only to those who lack them."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amqp_server.management.http.answers import NOTHING, Answer, AnyAnswer, Octets
from amqp_server.management.http.responses import COMPRESSED_BYTES_MIN, compress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import Call

INDEX: Final = "index.html"
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".woff2": "font/woff2"}
_PACKED: Final = (".woff2", ".png")
"""Files that are compressed already."""
_HIDDEN: Final = (".py", ".pyc")
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(slots=True)
class StaticFile:
    """One file.

    Attributes:
        content_type: Value of the header.
        body: The whole file.
        headers: Headers of its answers.
        changed_seconds: Unix time of its last change, whole seconds.
        gzipped: The file compressed; None before the first client has asked for that.
        is_packed: Whether the file is compressed already.
    """

    content_type: str
    body: bytes
    headers: dict[str, str]
    changed_seconds: int
    gzipped: bytes | None = None
    is_packed: bool = False


class StaticFiles:
    """The files of a directory, by their paths below it with slashes.

    Args:
        directory: Read now, with everything below it; it may be missing.
    """

    def __init__(self, directory: Path) -> None:
        self._files = {
            path.relative_to(directory).as_posix(): _read(path)
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.suffix not in _HIDDEN
        }

    async def answer(self, call: Call, name: str) -> AnyAnswer | None:
        """Return the answer to a request for a file; None if there is none.

        Args:
            call: The request.
            name: Path of the file; empty for the index.
        """
        file = self._files.get(name or INDEX)
        if file is None:
            return None
        if _is_known(file, call.headers):
            return Answer(HTTPStatus.NOT_MODIFIED, NOTHING, file.headers)
        if file.gzipped is None and not file.is_packed and len(file.body) >= COMPRESSED_BYTES_MIN:
            file.gzipped = await compress(file.body)
        return Octets(
            HTTPStatus.OK,
            file.content_type,
            file.body,
            file.headers,
            file.gzipped,
            file.is_packed,
        )


def _read(path: Path) -> StaticFile:
    body = path.read_bytes()
    changed_seconds = int(path.stat().st_mtime)
    headers = {
        **_HEADERS,
        "etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "last-modified": formatdate(changed_seconds, usegmt=True),
    }
    guessed = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if guessed.startswith("text/"):
        guessed += "; charset=utf-8"
    return StaticFile(
        content_type=_TYPES.get(path.suffix, guessed),
        body=body,
        headers=headers,
        changed_seconds=changed_seconds,
        is_packed=path.suffix in _PACKED,
    )


def _is_known(file: StaticFile, headers: Mapping[str, str]) -> bool:
    """Return whether a client says that it has this file already."""
    etags = headers.get("If-None-Match")
    if etags is not None:
        known = {each.strip().removeprefix("W/") for each in etags.split(",")}
        return file.headers["etag"] in known or "*" in known
    since = headers.get("If-Modified-Since")
    if since is None:
        return False
    try:
        return file.changed_seconds <= parsedate_to_datetime(since).timestamp()
    except ValueError:
        return False
