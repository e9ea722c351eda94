"""Signs a definition that a person has repaired, so that a start accepts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.base.errors import StartupError
from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import check_definition, names_queue, queue_from
from amqp_server.recovery.quarantine import Quarantine
from amqp_server.recovery.storage_lock import lock_storage
from appendlog import FileSystem
from metadata.direct_write import write_document
from metadata.document import DOCUMENT_BYTES_MAX, decode_document, sign_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentFormatError
from metadata.names import log_directory
from metadata.paths import document_path
from metadata.reading_lock import check_data_directory

if TYPE_CHECKING:
    from pathlib import Path

    from metadata.document import Document


def accept_definition(storage_path: Path, path: Path) -> Path | None:
    """Write the checksum of an edited definition; a copy of the file goes to quarantine.

    Args:
        storage_path: A data directory on which no server runs.
        path: The document's file, in its place below `metadata`.

    Returns:
        The copy of the file before the change; None if its checksum is valid already.

    Raises:
        StartupError: The file is no definition of this data directory, or contains an invalid
            value; nothing was changed.
        MetadataError: The directory cannot be used, or the disk refused a write.
        OSError: A file cannot be read or written.
    """
    check_data_directory(storage_path)
    filesystem = FileSystem()
    with lock_storage(storage_path, filesystem):
        content = filesystem.read_file(path, DOCUMENT_BYTES_MAX + 1)
        document = _checked(storage_path, path, content)
        if _is_signed(content):
            return None
        quarantine = Quarantine(storage_path, filesystem)
        kept = quarantine.copy(_place(storage_path, document))
        write_document(storage_path / "metadata", document, DocumentFiles(filesystem))
        return kept


def _checked(storage_path: Path, path: Path, content: bytes) -> Document:
    try:
        document = sign_document(content)
        check_definition(document)
    except (DocumentFormatError, InvalidDefinitionError) as error:
        raise StartupError(f"{path}: not accepted: {error}") from error
    place = _place(storage_path, document)
    if place.resolve() != path.resolve():
        raise StartupError(
            f"{path}: not accepted: {document.kind} {document.name!r} in vhost "
            f"{document.vhost!r} belongs in {place}"
        )
    if names_queue(document):
        _check_incarnation(storage_path, path, document)
    return document


def _check_incarnation(storage_path: Path, path: Path, document: Document) -> None:
    """Check that the definition still names the log that exists for its queue."""
    definition = queue_from(document)
    log = log_directory(storage_path, document.vhost, definition.name, definition.incarnation)
    others = sorted(each.name for each in log.parent.glob("*") if each.is_dir())
    if others and log.name not in others:
        raise StartupError(
            f"{path}: not accepted: incarnation {log.name} has no log; the logs of this queue are "
            f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''} in {log.parent}"
        )


def _place(storage_path: Path, document: Document) -> Path:
    root = storage_path / "metadata"
    return document_path(root, document.kind, document.vhost, document.name)


def _is_signed(content: bytes) -> bool:
    try:
        decode_document(content)
    except DocumentFormatError:
        return False
    return True
