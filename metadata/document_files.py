"""The file operations of the metadata store, off the event loop.

aiofiles runs each in a worker thread; what it does there is done by `FileSystem`, as everywhere,
so that tests can fail any operation of any room.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import aiofiles.os

from appendlog.files.filesystem import FileSystem
from metadata.document import DOCUMENT_BYTES_MAX

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

DIRECTORY_MODE: Final = 0o700


class DocumentFiles:
    """Reads, replaces and removes small files; every method may raise OSError.

    Args:
        filesystem: The operating system's by default.
    """

    def __init__(self, filesystem: FileSystem | None = None) -> None:
        """Touch nothing."""
        self._filesystem = FileSystem() if filesystem is None else filesystem

    async def list_names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted; none when it does not exist."""
        try:
            return sorted(await _in_worker(self._filesystem.listdir, directory))
        except FileNotFoundError:
            return []

    async def read(self, path: Path) -> bytes:
        """Return a file's content; at most one byte more than the longest document."""
        return await _in_worker(self._filesystem.read_file, path, DOCUMENT_BYTES_MAX + 1)

    async def write(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file, and return when its content is on the disk."""
        await _in_worker(self._filesystem.write_file, path, content)

    async def rename(self, source: Path, target: Path) -> None:
        """Replace `target` by `source` atomically; durable after `sync_directory`."""
        await _in_worker(self._filesystem.rename, source, target)

    async def remove(self, path: Path) -> None:
        """Unlink a file if it exists; durable after `sync_directory`."""
        with suppress(FileNotFoundError):
            await _in_worker(self._filesystem.unlink, path)

    async def make_directory(self, path: Path) -> None:
        """Create one directory if it is missing; durable after its parent is synced."""
        with suppress(FileExistsError):
            await _in_worker(self._filesystem.mkdir, path, DIRECTORY_MODE)

    async def remove_directory(self, path: Path) -> None:
        """Remove a directory with its files if it exists; durable after its parent is synced."""
        await _in_worker(_remove_directory, self._filesystem, path)

    async def sync_directory(self, path: Path) -> None:
        """Return when the directory's entries are on the disk."""
        await _in_worker(self._filesystem.sync_directory, path)


def _remove_directory(filesystem: FileSystem, path: Path) -> None:
    try:
        for name in filesystem.listdir(path):
            # Another removal of it may be at work.
            with suppress(FileNotFoundError):
                filesystem.unlink(path / name)
        filesystem.rmdir(path)
    except FileNotFoundError:
        return


async def _in_worker(function: Callable[P, ResultT], *arguments: P.args, **_: P.kwargs) -> ResultT:
    return await aiofiles.os.wrap(function)(*arguments)
