"""Notes in the data directory what an export does, so that the server can show it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from appendlog.export_records import Record, begin_record, end_record
from appendlog.spark.objects.location import Location

_EXPORTED = "exported"
_NOTHING_NEW = "nothing_new"


class ExportRecord:
    """The note of one run. Without one, the export is as good.

    Args:
        storage_path: Data directory.
        record: The document; None if nothing is noted.
        say: Called with a line for the user if the note cannot be written.
    """

    def __init__(
        self, storage_path: Path, record: Record | None, say: Callable[[str], None]
    ) -> None:
        self._storage_path = storage_path
        self._record = record
        self._say = say

    @classmethod
    def begin(
        cls,
        storage_path: Path,
        out: str,
        settings: Mapping[str, object] | None,
        say: Callable[[str], None],
    ) -> Self:
        """Note that a run begins; nothing for a copy in an object store, or without settings."""
        record = None
        if settings is not None and Location.of(storage_path) is None:
            try:
                record = begin_record(storage_path, out, dict(settings), time.time_ns())
            except OSError as error:
                say(f"note: the server will not show this export: {error}")
        return cls(storage_path, record, say)

    def end(self, queues: Sequence[Mapping[str, Any]], exit_code: int) -> None:
        """Note what became of each queue, and the exit code."""
        if self._record is None:
            return
        rows = [_noted(each) for each in queues]
        try:
            end_record(self._storage_path, self._record, rows, exit_code, time.time_ns())
        except OSError as error:
            self._say(f"note: the server will not show this export: {error}")


def _noted(queue: Mapping[str, Any]) -> Record:
    """Return what is noted of a queue, from what the summary has of it."""
    names = ["vhost", "queue", "incarnation", "status", "error"]
    if queue["status"] in {_EXPORTED, _NOTHING_NEW}:
        names += ["end", "rows"]
    return {name: queue[name] for name in names if name in queue}
