"""Writes the audit log in a thread, from a bounded buffer."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.audit.audit_files import AuditFiles

logger = logging.getLogger("amqp_server.audit.audit_writer")

BUFFER_BYTES_MAX: Final = 1024 * 1024
"""Bytes of lines that wait for the disk; above it, new ones are dropped and counted."""
GATHER_SECONDS: Final = 0.05
"""Seconds that the thread waits for more lines: each wake of it costs the event loop time."""
BATCH_LINES: Final = 1024
"""Lines that are written at a time."""


class AuditWriter:
    """Takes lines from one thread, and writes them in its own.

    `put` never blocks. Lines that the disk refuses stay in the buffer, and are tried again with the
    next one. While the buffer is full, new lines are dropped; a line that counts them follows.

    Args:
        files: Files that lines go to.
        note_lost: Returns the line that reports how many lines were lost.
        buffer_bytes_max: Bytes of lines that may wait.
    """

    def __init__(
        self,
        files: AuditFiles,
        note_lost: Callable[[int], bytes],
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
    ) -> None:
        self._files = files
        self._note_lost = note_lost
        self._buffer_bytes_max = buffer_bytes_max
        self._lines: deque[bytes] = deque()
        # Each counter has one thread that changes it, so no lock is needed.
        self._put_bytes = 0
        self._taken_bytes = 0
        self._dropped = 0
        self._dropped_noted = 0
        self._is_refused = False
        self._pending: list[bytes] = []
        self._is_ending = threading.Event()
        self._has_work = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, line: bytes) -> None:
        """Add a line; drop it if the buffer is full."""
        if self._put_bytes - self._taken_bytes + len(line) > self._buffer_bytes_max:
            self._dropped += 1
            return
        self._put_bytes += len(line)
        self._lines.append(line)
        if not self._has_work.is_set():
            self._has_work.set()

    def start(self, name: str) -> None:
        """Start the thread.

        Args:
            name: Name of the thread.
        """
        self._is_ending.clear()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write everything that waits, and end the thread; blocks until the disk has it."""
        if self._thread is not None:
            self._is_ending.set()
            self._has_work.set()
            self._thread.join()
            self._thread = None

    # In the thread

    def _run(self) -> None:
        while not self._is_ending.is_set():
            self._has_work.wait()
            self._is_ending.wait(GATHER_SECONDS)
            self._has_work.clear()
            self._write_all()
        self._write_all()
        try:
            self._files.close()
        except OSError as error:
            self._note_refusal(error)

    def _write_all(self) -> None:
        """Write what waits; return when nothing does, or when the disk refuses."""
        while True:
            while self._lines and len(self._pending) < BATCH_LINES:
                self._pending.append(self._lines.popleft())
            # Lines are dropped while the buffer is full: they come after all that was in it.
            dropped = 0 if self._lines else self._dropped - self._dropped_noted
            if not self._pending and not dropped:
                return
            notes = [self._note_lost(dropped)] if dropped else []
            try:
                written = self._files.append([*self._pending, *notes])
            except OSError as error:
                self._note_refusal(error)
                return
            self._is_refused = False
            if written > len(self._pending):
                self._dropped_noted += dropped
            done = self._pending[:written]
            del self._pending[:written]
            self._taken_bytes += sum(map(len, done))

    def _note_refusal(self, error: OSError) -> None:
        """Log once until the disk takes something again."""
        if not self._is_refused:
            self._is_refused = True
            logger.warning(
                "audit log not written path=%s reason=%s note=events wait in a bounded buffer",
                self._files.directory,
                error.strerror or error,
            )
