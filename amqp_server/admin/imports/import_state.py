"""The state of an import: a small file that records what a queue has already got.

The state contains ranges of offsets of the exported queue. So an import can be repeated with any
ranges, and each message is still imported once. A crash leaves at most one batch unfinished. Its
chunks carry an id that contains the batch's first offset, and the state contains an offset of the
target queue below which the batch has no messages. So the next start can count what the log has of
it.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

import orjson

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem

FOLDER: Final = "imports"
VERSION: Final = 1
STATE_BYTES_MAX: Final = 16 << 20
BATCH_SUFFIX: Final = ".batch"
_SUFFIX: Final = ".json"
_NAME: Final = re.compile(r"[0-9a-f]{32}\.json\Z")

Range = tuple[int, int]


@dataclass(slots=True)
class ImportState:
    """State of the import of one export into one queue.

    Attributes:
        incarnation: Incarnation of the queue that gets the messages.
        source: Name of the exported queue.
        run: Number of the run; grows when everything is imported once more.
        ranges: Imported offsets of the exported queue: disjoint, joined ranges in order.
        partial: For each unfinished batch, by first offset: persistent messages that were imported.
        floor: Offset of the target queue below which an unfinished batch has no messages.
        is_open: Whether there may be an unfinished batch.
        imported: Messages imported in all runs.
    """

    incarnation: UUID
    source: str
    run: int = 0
    ranges: list[Range] = field(default_factory=list)
    partial: dict[int, int] = field(default_factory=dict)
    floor: int = 0
    is_open: bool = False
    imported: int = 0

    @property
    def name(self) -> str:
        """Return the name of the import; it depends only on queue and source."""
        text = f"{self.incarnation}\0{self.source}".encode("utf-8", "surrogateescape")
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def batch_id(self, start: int) -> bytes:
        """Return the id for the chunks of a batch, 16 bytes."""
        return self._tag() + start.to_bytes(8, "big")

    def batch_start(self, batch_id: bytes) -> int | None:
        """Return the first offset of a batch of this import's run; None for any other id."""
        return int.from_bytes(batch_id[8:], "big") if batch_id[:8] == self._tag() else None

    def add(self, start: int, end: int) -> None:
        """Record that all messages of a range are imported."""
        joined: list[Range] = []
        for low, high in sorted([*self.ranges, (start, end)]):
            if joined and low <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
            else:
                joined.append((low, high))
        self.ranges = joined
        self.partial = {at: count for at, count in self.partial.items() if not start <= at < end}

    def _tag(self) -> bytes:
        return hashlib.blake2b(f"{self.name}/{self.run}".encode(), digest_size=8).digest()


class ImportStates:
    """The state files of all imports. Blocks; only one caller at a time may use one import.

    Args:
        storage_path: The data directory.
        filesystem: File operations.
    """

    def __init__(self, storage_path: Path, filesystem: FileSystem) -> None:
        self.folder: Final = storage_path / FOLDER
        self._files: Final = filesystem

    def all(self) -> list[ImportState]:
        """Return all readable states.

        Raises:
            OSError: The directory cannot be read.
        """
        if not self._files.exists(self.folder):
            return []
        names = sorted(name for name in self._files.listdir(self.folder) if _NAME.match(name))
        found = (self.read(name.removesuffix(_SUFFIX)) for name in names)
        return [state for state in found if state is not None]

    def read(self, name: str) -> ImportState | None:
        """Return the state of an import; None if there is none or its content is invalid.

        Raises:
            OSError: The file cannot be read.
        """
        path = self._path(name)
        if not self._files.exists(path):
            return None
        try:
            fields = orjson.loads(self._files.read_file(path, STATE_BYTES_MAX))
            if fields.pop("version") != VERSION:
                return None
            fields["incarnation"] = UUID(fields["incarnation"])
            fields["ranges"] = [(start, end) for start, end in fields["ranges"]]
            fields["partial"] = {int(at): count for at, count in fields["partial"].items()}
            return ImportState(**fields)
        except (ValueError, KeyError, TypeError):
            return None

    def write(self, state: ImportState) -> None:
        """Replace the state of an import; it is on the disk when this returns.

        Raises:
            OSError: The disk refused the write; the old or the new state is there.
        """
        if not self._files.exists(self.folder):
            self._files.mkdir(self.folder)
            self._files.sync_directory(self.folder.parent)
        path = self._path(state.name)
        temporary = path.with_suffix(".tmp")
        fields = asdict(state) | {"version": VERSION, "incarnation": str(state.incarnation)}
        content = orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)
        self._files.write_file(temporary, content)
        self._files.rename(temporary, path)
        self._files.sync_directory(self.folder)

    def batch_path(self, name: str) -> Path:
        """Return the path where a client writes the messages of one request."""
        return self.folder / f"{name}{BATCH_SUFFIX}"

    def remove_batch(self, name: str) -> None:
        """Remove the file of a request if it exists."""
        with suppress(FileNotFoundError):
            self._files.unlink(self.batch_path(name))

    def remove_batches(self) -> None:
        """Remove the files of clients that were killed."""
        if self._files.exists(self.folder):
            for name in self._files.listdir(self.folder):
                if name.endswith(BATCH_SUFFIX):
                    self.remove_batch(name.removesuffix(BATCH_SUFFIX))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"
