"""Finds the logs of queues by reading definitions.

The broker may be running, so this module locks, writes and removes nothing. `MetadataStore.load`
would remove temporary files that the broker is writing.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from appendlog.files.deleted_mark import has_deleted_mark
from appendlog.files.filesystem import FileSystem
from appendlog.spark.errors import QueueNotFoundError, StorageNotFoundError, StoreError
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.object_filesystem import filesystem_of
from appendlog.spark.objects.store_options import NO_OPTIONS, StoreOptions
from metadata.document import Document, decode_document
from metadata.errors import DocumentFormatError
from metadata.names import encode_name, log_directory
from metadata.paths import DOCUMENT_SUFFIX, document_path

QUEUES: Final = "queues"
NEAR_MAX: Final = 3
"""Most names that an error suggests."""
DOCUMENT_BYTES_MAX: Final = 16 << 20
"""Largest size of a definition."""


@dataclass(frozen=True, slots=True)
class QueueLog:
    """Names of a queue, and the place of its log.

    Attributes:
        vhost: Virtual host.
        queue: Name of the queue.
        incarnation: Identity of the queue; one that is deleted and declared again has another.
        directory: Directory of the log; absent until the first message. May stand for a place in
            an object store, see `objects.location`.
        store_options: Options of that store; never shown.
    """

    vhost: str
    queue: str
    incarnation: UUID
    directory: Path
    store_options: StoreOptions = NO_OPTIONS

    @property
    def filesystem(self) -> FileSystem:
        """Return the file system that the log is read through, in this process.

        Raises:
            StoreError: The object store cannot be used.
        """
        return filesystem_of(self.directory, self.store_options)


def find_queue(
    storage_path: Path, vhost: str, queue: str, store_options: StoreOptions = NO_OPTIONS
) -> QueueLog:
    """Return the log of a durable queue.

    Args:
        storage_path: Data directory, on this machine or in an object store.
        vhost: Virtual host.
        queue: Name of the queue.
        store_options: Options of the object store.

    Raises:
        StorageNotFoundError: There is no data directory, or the definition is unreadable.
        QueueNotFoundError: There is no such queue; the message has the most similar names.
        StoreError: The store cannot be used.
    """
    files = filesystem_of(storage_path, store_options)
    root = _metadata(files, storage_path)
    try:
        path = document_path(root, QUEUES, vhost, queue)
    except UnicodeEncodeError:  # AMQP cannot carry such a name
        raise _not_found(files, root, vhost, queue) from None
    document = _read(files, path)
    if document is None and files.exists(path):
        raise StorageNotFoundError(path, "the definition of the queue is not readable")
    log = None if document is None else _log(storage_path, document, store_options)
    if log is None or has_deleted_mark(files, log.directory):
        # A marked queue is being deleted: a start of the server completes the deletion.
        raise _not_found(files, root, vhost, queue)
    return log


def list_queues(
    storage_path: Path, vhost: str, store_options: StoreOptions = NO_OPTIONS
) -> list[QueueLog]:
    """Return the logs of all durable queues of a virtual host, ordered by name.

    Skips files that are no definitions; `amqp-server verify` reports them. A definition that the
    disk refuses to read is an error: otherwise its queue would be missing without a word, and a
    stream would take it for a new queue later.

    Args:
        storage_path: Data directory, on this machine or in an object store.
        vhost: Virtual host; one that does not exist has no queues.
        store_options: Options of the object store.

    Raises:
        StorageNotFoundError: There is no data directory, or a definition cannot be read.
        StoreError: The store cannot be used.
    """
    files = filesystem_of(storage_path, store_options)
    root = _metadata(files, storage_path)
    documents = []
    folder = root / QUEUES / encode_name(vhost)
    for path, document in _documents(files, folder, is_strict=True):
        # A copy of a definition under another name is no second queue.
        if path == document_path(root, QUEUES, vhost, document.name):
            documents.append(document)
    logs = [
        _log(storage_path, each, store_options)
        for each in sorted(documents, key=lambda each: each.name)
    ]
    return [log for log in logs if not has_deleted_mark(files, log.directory)]


def _metadata(files: FileSystem, storage_path: Path) -> Path:
    """Return the directory of the definitions."""
    root = storage_path / "metadata"
    if files.exists(root):
        return root
    if not files.exists(storage_path):
        raise StorageNotFoundError(
            storage_path, "no such data directory: give the one of the server"
        )
    raise StorageNotFoundError(
        storage_path, "not a data directory of amqp-server: no metadata folder in it"
    )


def _log(storage_path: Path, document: Document, store_options: StoreOptions) -> QueueLog:
    incarnation = UUID(document.body["incarnation"])
    directory = log_directory(storage_path, document.vhost, document.name, incarnation)
    location = Location.of(storage_path)
    if location is not None:
        # Read here, in the user's process: workers have another environment.
        store_options = store_options.with_environment(location.scheme)
    return QueueLog(document.vhost, document.name, incarnation, directory, store_options)


def _not_found(files: FileSystem, root: Path, vhost: str, queue: str) -> QueueNotFoundError:
    folders = _names(files, root / QUEUES)
    documents = [
        document for folder in folders for _, document in _documents(files, root / QUEUES / folder)
    ]
    here = sorted(d.name for d in documents if d.vhost == vhost)
    near = difflib.get_close_matches(queue, here, NEAR_MAX, cutoff=0.4) or here[:NEAR_MAX]
    elsewhere = sorted(d.vhost for d in documents if d.name == queue)
    if elsewhere:
        advice = f"it is in virtual host {', '.join(elsewhere[:NEAR_MAX])}"
    elif near:
        advice = f"nearest of {len(here)}: {', '.join(near)}"
    elif documents:
        hosts = sorted({d.vhost for d in documents})
        advice = f"that has no queue; there are queues in {', '.join(hosts[:NEAR_MAX])}"
    else:
        advice = "there is no durable queue at all"
    return QueueNotFoundError(vhost, queue, near, advice)


def _documents(
    files: FileSystem, folder: Path, *, is_strict: bool = False
) -> Iterator[tuple[Path, Document]]:
    for name in _names(files, folder):
        if name.endswith(DOCUMENT_SUFFIX):
            document = _read(files, folder / name, is_strict=is_strict)
            if document is not None:
                yield folder / name, document


def _names(files: FileSystem, directory: Path) -> list[str]:
    try:
        return sorted(files.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(files: FileSystem, path: Path, *, is_strict: bool = False) -> Document | None:
    """Return a document; None if there is none, or it is no valid definition.

    Raises:
        StorageNotFoundError: The document exists and the disk refuses to read it (`is_strict`).
    """
    try:
        # A reader accepts what an upgrade accepts, and needs no file FORMAT in an object store.
        content = files.read_file(path, DOCUMENT_BYTES_MAX)
        document = decode_document(content, accepts_unsigned=True)
    except StoreError:
        raise
    except (FileNotFoundError, IsADirectoryError, DocumentFormatError):
        return None
    except OSError as error:
        if is_strict:
            reason = f"the definition of a queue cannot be read: {error.strerror or error}"
            raise StorageNotFoundError(path, reason) from error
        return None
    is_in_place = path.parent.name == encode_name(document.vhost)
    return document if is_in_place and "incarnation" in document.body else None
