"""The file operations of a batch; they block."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from metadata.document_files import DocumentFiles
from metadata.paths import temporary_path
from metadata.redo_file import REDO_NAME, redo_pieces


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


def carry_out(root: Path, files: DocumentFiles, contents: Mapping[Path, bytes]) -> None:
    """Write the documents of a batch that is decided, sync them in one call, end the redo file.

    It may be repeated from the start.

    Args:
        root: The `metadata` directory.
        files: File operations.
        contents: Content of each document's file, by path.

    Raises:
        OSError: The disk refused; the redo file is there, or none of it is needed any more.
    """
    for directory in dict.fromkeys(path.parent for path in contents):
        files.make_directory(directory.parent)
        files.make_directory(directory)
    for path, content in contents.items():
        temporary = temporary_path(path)
        files.write_unsynced(temporary, content)
        files.rename(temporary, path)
    files.sync_all(root)
    files.remove(root / REDO_NAME)
    files.sync_directory(root)
