"""The last lines of the server's own log, kept for who wants to see them, and those that follow."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from amqp_server.base.log_text import record_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

LINES_MAX: Final = 1000
"""Lines that are kept."""
BYTES_MAX: Final = 1 << 20
"""Bytes that they may have together."""
TEXT_CHARACTERS_MAX: Final = 4096
"""Characters of a message, or of a traceback, that are kept."""


class LogTail(logging.Handler):
    """Keeps the last lines of the log of this process, while it is entered as a context.

    Any thread may log. Each line is one JSON object in ASCII with `id` (from 1, growing), `time`,
    `level`, `logger` and `message`, perhaps also `exception`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._number = 0
        self._listeners: list[Callable[[bytes], None]] = []

    def __enter__(self) -> Self:
        """Begin to keep lines."""
        logging.getLogger().addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Keep no more lines."""
        logging.getLogger().removeHandler(self)
        self.close()

    def begin(self, listener: Callable[[bytes], None], count_max: int) -> list[bytes]:
        """Call a listener with each line from now on; return the last lines before.

        Args:
            listener: Called with each line, from any thread; must not block or log.
            count_max: Most lines to return.
        """
        self.acquire()
        try:
            self._listeners.append(listener)
            return list(self._lines)[max(len(self._lines) - count_max, 0) :]
        finally:
            self.release()

    def end(self, listener: Callable[[bytes], None]) -> None:
        """Call a listener with no more lines."""
        self.acquire()
        try:
            self._listeners.remove(listener)
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line. `logging` calls this under the handler's lock."""
        try:
            self._number += 1
            line = _line(record, self._number)
        except Exception:  # noqa: BLE001 - as every handler: a bad record must not stop its caller
            self.handleError(record)
            return
        self._lines.append(line)
        self._bytes += len(line)
        while len(self._lines) > LINES_MAX or self._bytes > BYTES_MAX:
            self._bytes -= len(self._lines.popleft())
        for listener in self._listeners:
            listener(line)


def _line(record: logging.LogRecord, number: int) -> bytes:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    line: dict[str, object] = {
        "id": number,
        "time": f"{moment}.{int(record.msecs):03d}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _cut(record_text(record)),
    }
    if record.exc_info:
        line["exception"] = _cut(logging.Formatter().formatException(record.exc_info))
    return json.dumps(line, separators=(",", ":")).encode("ascii")


def _cut(text: str) -> str:
    # Names off the wire have surrogates for octets that are not UTF-8; JSON readers refuse them.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."
