"""Writes one definition in the calling thread, for programs without an event loop."""

from __future__ import annotations

from pathlib import Path

from metadata.document import Document, encode_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.paths import document_path, temporary_path


def write_document(root: Path, document: Document, files: DocumentFiles | None = None) -> None:
    """Create or replace a document; it is on the disk when this returns.

    No other thread or process may change the document during that time.

    Args:
        root: The `metadata` directory; its parent must exist.
        document: Document to write.
        files: File operations; by default the operating system's.

    Raises:
        UnstorableDocumentError: JSON cannot hold it exactly; nothing was written.
        DocumentWriteError: The disk refused; the stored document is the old or the new one.
    """
    files = DocumentFiles() if files is None else files
    path = document_path(root, document.kind, document.vhost, document.name)
    content = encode_document(document)
    temporary = temporary_path(path)
    directory = path.parent
    try:
        for each in (root, directory.parent, directory):
            files.make_directory(each)
            files.sync_directory(each.parent)
        files.write(temporary, content)
        files.rename(temporary, path)
        files.sync_directory(directory)
    except OSError as cause:
        raise DocumentWriteError(path, cause) from cause


def remove_document(
    root: Path, kind: str, vhost: str, name: str, files: DocumentFiles | None = None
) -> None:
    """Remove a document if it exists; the removal is on the disk when this returns.

    Raises:
        DocumentWriteError: The disk refused; the document may still exist.
    """
    files = DocumentFiles() if files is None else files
    path = document_path(root, kind, vhost, name)
    try:
        files.remove(path)
        files.sync_directory(path.parent)
    except OSError as cause:
        raise DocumentWriteError(path, cause) from cause
