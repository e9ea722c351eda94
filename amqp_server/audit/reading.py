"""Reads the audit log: of a running server or a stopped one, across all of its files."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Any, Final

from amqp_server.audit.audit_files import DIRECTORY_NAME, file_name, file_numbers
from amqp_server.audit.audit_log import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ_BYTES: Final = 256 * 1024


class AuditReader:
    """Returns the events that it has not returned yet, again and again.

    Args:
        storage_path: Data directory.
        since_ns: Leaves out files that were complete before this time; nanoseconds since 1970 UTC.
    """

    def __init__(self, storage_path: Path, since_ns: int = 0) -> None:
        self._tails = [_Tail(storage_path / DIRECTORY_NAME, kind, since_ns) for kind in KINDS]

    @property
    def unreadable(self) -> int:
        """Number of lines that are no events, such as one that a crash has cut."""
        return sum(tail.unreadable for tail in self._tails)

    def new_events(self) -> Iterator[dict[str, Any]]:
        """Iterate over the events since the last call, by time.

        A last line without its end is not returned: it is being written, or a crash has cut it.

        Raises:
            OSError: A file cannot be read; one that is missing is no error.
        """
        return heapq.merge(*(tail.new_events() for tail in self._tails), key=_time)


class _Tail:
    """The files of one kind, read up to a place in one of them."""

    def __init__(self, directory: Path, kind: str, since_ns: int) -> None:
        self.unreadable = 0
        self._directory = directory
        self._kind = kind
        self._since_ns = since_ns
        self._number = 0
        self._at = 0

    def new_events(self) -> Iterator[dict[str, Any]]:
        for line in self._new_lines():
            event = _decoded(line)
            if event is None:
                self.unreadable += bool(line.strip())
            else:
                yield event

    def _new_lines(self) -> Iterator[bytes]:
        try:
            # List first: when there is a next file, nothing more comes into the one before it.
            numbers = file_numbers(self._directory, self._kind)
        except FileNotFoundError:
            # The server makes the directory with the first event.
            return
        for number in numbers:
            if number < self._number:
                continue
            if number > self._number:
                self._number, self._at = number, 0
            path = self._directory / file_name(self._kind, number)
            try:
                yield from self._lines_of(path)
            except FileNotFoundError:
                # It was the oldest, and is gone.
                continue

    def _lines_of(self, path: Path) -> Iterator[bytes]:
        with path.open("rb") as file:
            if path.stat().st_mtime_ns < self._since_ns:
                return
            file.seek(self._at)
            rest = b""
            while octets := file.read(READ_BYTES):
                *lines, rest = (rest + octets).split(b"\n")
                for line in lines:
                    self._at += len(line) + 1
                    yield line


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and {"time", "event", "user"} <= event.keys() else None


def _time(event: dict[str, Any]) -> str:
    return str(event["time"])
