"""The files of the audit log: numbered, appended to, and bounded in size and number."""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

logger = logging.getLogger("amqp_server.audit.audit_files")

DIRECTORY_NAME: Final = "audit"
"""Name of the directory of the audit log in a data directory."""
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o600


class AuditFiles:
    """Appends lines to the newest of some numbered files; removes the oldest ones.

    A file is never renamed: a program that follows it continues with the next number. One thread at
    a time may use it; it opens nothing before the first line.

    Args:
        directory: Directory of the files; created if it is missing.
        kind: What all names begin with: `changes` or `sessions`.
        file_bytes_max: Size at which a file is complete.
        files_max: Files that are kept, with the one that is written; 1 or more.

    Attributes:
        directory: Directory of the files.
    """

    def __init__(self, directory: Path, kind: str, file_bytes_max: int, files_max: int) -> None:
        self.directory = directory
        self._kind = kind
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._descriptor = -1
        self._number = 0
        self._size_bytes = 0

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines, each with its line feed; return how many the kernel has.

        Raises:
            OSError: The disk refused the first line of those that are left; no part of it stays.
        """
        at = 0
        while at < len(lines):
            self._make_ready()
            end, size_bytes = at, self._size_bytes
            while end < len(lines) and (end == at or size_bytes < self._file_bytes_max):
                size_bytes += len(lines[end])
                end += 1
            try:
                self._write(b"".join(lines[at:end]))
            except OSError:
                if at:
                    return at
                raise
            at = end
        return at

    def close(self) -> None:
        """Write what the kernel has to the disk, and close the file.

        Raises:
            OSError: The disk refused.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _make_ready(self) -> None:
        """Open the file that the next line belongs to."""
        if self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink == 0:
            # A person has removed the file: the next lines should be found.
            os.close(self._descriptor)
            self._descriptor = -1
        if self._descriptor < 0:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            numbers = file_numbers(self.directory, self._kind)
            self._open(numbers[-1] if numbers else 1)
        if self._size_bytes >= self._file_bytes_max:
            self.close()
            self._open(self._number + 1)
            self._remove_oldest()

    def _open(self, number: int) -> None:
        path = self.directory / file_name(self._kind, number)
        descriptor = os.open(path, _FLAGS, _MODE)
        try:
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes and not _ends_a_line(path, size_bytes):
                # A crash has cut the last line: the next one must not become a part of it.
                size_bytes += os.write(descriptor, b"\n")
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor, self._number, self._size_bytes = descriptor, number, size_bytes

    def _write(self, octets: bytes) -> None:
        """Write all octets, or none.

        Raises:
            OSError: The disk refused.
        """
        left = memoryview(octets)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size_bytes)
            # If that failed too, the next opening ends the torn line.
            os.close(self._descriptor)
            self._descriptor = -1
            raise
        self._size_bytes += len(octets)

    def _remove_oldest(self) -> None:
        # A file that cannot be removed costs space, and must not cost events: the next file tries
        # again.
        for number in file_numbers(self.directory, self._kind)[: -self._files_max]:
            path = self.directory / file_name(self._kind, number)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("audit file not removed path=%s error=%s", path, error)


def file_name(kind: str, number: int) -> str:
    """Return the name of a file: `changes-00000001.jsonl`."""
    return f"{kind}-{number:08}.jsonl"


def file_numbers(directory: Path, kind: str) -> list[int]:
    """Return the numbers of the files of one kind, the oldest first.

    Raises:
        OSError: The directory cannot be read.
    """
    form = re.compile(re.escape(kind) + r"-([0-9]{8,18})\.jsonl")
    names = os.listdir(directory)  # noqa: PTH208 - names, not paths
    return sorted(int(found[1]) for name in names if (found := form.fullmatch(name)))


def _ends_a_line(path: Path, size_bytes: int) -> bool:
    with path.open("rb") as file:
        file.seek(size_bytes - 1)
        return file.read(1) == b"\n"
