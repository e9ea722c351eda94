"""The file operations of the metadata store, off the event loop.

aiofiles runs each in a worker thread; fsync, which it lacks, goes there through asyncio. Tests
replace this class by one that fails or stops at the Nth operation.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import aiofiles
import aiofiles.os

from metadata.document import DOCUMENT_BYTES_MAX


class DocumentFiles:
    """Reads, replaces and removes small files; every method may raise OSError."""

    async def list_names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted; none when it does not exist."""
        try:
            return sorted(await aiofiles.os.listdir(directory))
        except FileNotFoundError:
            return []

    async def read(self, path: Path) -> bytes:
        """Return a file's content; at most one byte more than the longest document."""
        async with aiofiles.open(path, "rb") as file:
            return await file.read(DOCUMENT_BYTES_MAX + 1)

    async def write(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file, and return when its content is on the disk."""
        async with aiofiles.open(path, "wb") as file:
            await file.write(content)
            await file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())

    async def rename(self, source: Path, target: Path) -> None:
        """Replace `target` by `source` atomically; durable after `sync_directory`."""
        await aiofiles.os.replace(source, target)

    async def remove(self, path: Path) -> None:
        """Unlink a file if it exists; durable after `sync_directory`."""
        try:
            await aiofiles.os.unlink(path)
        except FileNotFoundError:
            return

    async def make_directory(self, path: Path) -> None:
        """Create one directory if it is missing; durable after its parent is synced."""
        await aiofiles.os.makedirs(path, mode=0o700, exist_ok=True)

    async def remove_directory(self, path: Path) -> None:
        """Remove a directory with its files if it exists; durable after its parent is synced."""
        await asyncio.to_thread(_remove_directory, path)

    async def sync_directory(self, path: Path) -> None:
        """Return when the directory's entries are on the disk."""
        await asyncio.to_thread(_sync_directory, path)


def _remove_directory(path: Path) -> None:
    try:
        for file in path.iterdir():
            # Another removal of it may be at work.
            file.unlink(missing_ok=True)
        path.rmdir()
    except FileNotFoundError:
        return


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
