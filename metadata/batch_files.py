"""The file operations of a batch; they block."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from metadata.document_files import DocumentFiles
from metadata.paths import temporary_path
from metadata.redo_file import REDO_NAME, redo_pieces

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk or a quota that is full."""


def decide(root: Path, files: DocumentFiles, contents: Mapping[Path, bytes]) -> None:
    """Write the redo file; when this returns, the documents count even after a crash.

    Args:
        root: The `metadata` directory.
        files: File operations.
        contents: Content of each document's file, by path.

    Raises:
        OSError: The disk refused. The redo file may or may not be there: call `take_back`.
    """
    files.make_directory(root)
    files.sync_directory(root.parent)
    check_room(root, files, contents)
    path = root / REDO_NAME
    temporary = temporary_path(path)
    files.write_pieces(temporary, partial(redo_pieces, root, contents))
    files.rename(temporary, path)
    files.sync_directory(root)


def take_back(root: Path, files: DocumentFiles) -> None:
    """Remove the redo file of a batch that failed; nothing of the batch counts when this returns.

    Raises:
        OSError: The disk refused; the batch may count after a crash.
    """
    files.remove(root / REDO_NAME)
    files.remove(temporary_path(root / REDO_NAME))
    files.sync_directory(root)


def carry_out(
    root: Path,
    files: DocumentFiles,
    contents: Mapping[Path, bytes],
    list_names: Callable[[Iterable[Path]], None] | None = None,
) -> None:
    """Write the documents of a batch that is decided, sync them in one call, end the redo file.

    It may be repeated from the start. If the disk has no room for all of them, those that are new
    are removed again: until the next attempt the redo file has them, and what frees space needs
    the room (checkpoints, marks of deletions).

    Args:
        root: The `metadata` directory.
        files: File operations.
        contents: Content of each document's file, by path.
        list_names: Lists the documents, before the redo file ceases to prove them.

    Raises:
        OSError: The disk refused; the redo file is there, or none of it is needed any more.
    """
    for directory in dict.fromkeys(path.parent for path in contents):
        files.make_directory(directory.parent)
        files.make_directory(directory)
    new: list[Path] = []
    try:
        for path, content in contents.items():
            temporary = temporary_path(path)
            if not files.exists(path):
                new += (temporary, path)
            files.write_unsynced(temporary, content)
            files.rename(temporary, path)
        files.sync_all(root, contents)
        if list_names is not None:
            list_names(contents)
    except OSError as error:
        if error.errno in NO_ROOM:
            for path in new:
                files.remove(path)
        raise
    files.remove(root / REDO_NAME)
    files.sync_directory(root)


def check_room(root: Path, files: DocumentFiles, contents: Mapping[Path, bytes]) -> None:
    """Refuse a batch for whose documents the disk has no room, before it is decided.

    Other writers may take the room later; then the documents are written when there is some again.

    Args:
        root: The `metadata` directory; must exist.
        files: File operations.
        contents: Content of each document's file, by path.

    Raises:
        OSError: ENOSPC, with what is needed and what is free.
    """
    room = files.room(root)
    sizes = [len(content) for content in contents.values()]
    needed = sum(-(-size // room.block_bytes) * room.block_bytes for size in sizes) + sum(sizes)
    if needed > room.free_bytes:
        raise OSError(
            errno.ENOSPC,
            f"the disk has no room for {len(sizes)} documents: "
            f"they need {needed} bytes, {room.free_bytes} are free",
        )
    # A file system that makes inodes as it needs them says that it has none.
    if room.files and len(sizes) > room.free_files:
        raise OSError(
            errno.ENOSPC,
            f"the disk has no room for {len(sizes)} documents: {room.free_files} inodes are free",
        )
