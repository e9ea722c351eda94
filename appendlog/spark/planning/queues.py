"""From a queue's name to its log: read the definitions without touching them.

The broker may be running: nothing is locked, written or cleaned up here (loading a
`MetadataStore` would remove temporary files that the broker is just writing).
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from appendlog.spark.errors import QueueNotFoundError, StorageNotFoundError
from metadata.document import Document, decode_document
from metadata.errors import DocumentFormatError
from metadata.names import encode_name, log_directory
from metadata.paths import DOCUMENT_SUFFIX, document_path

QUEUES: Final = "queues"
NEAR_MAX: Final = 3
"""Names that an error suggests."""


@dataclass(frozen=True, slots=True)
class QueueLog:
    """Where one queue's messages are.

    Attributes:
        vhost: Virtual host.
        queue: Name.
        incarnation: Of the queue; deleting and declaring again makes another.
        directory: Of the log; absent until the first message.
    """

    vhost: str
    queue: str
    incarnation: UUID
    directory: Path


def find_queue(storage_path: Path, vhost: str, queue: str) -> QueueLog:
    """Return the log of a durable queue.

    Args:
        storage_path: The data directory.
        vhost: Virtual host.
        queue: Name.

    Raises:
        StorageNotFoundError: There is no data directory, or the definition is unreadable.
        QueueNotFoundError: No such queue; names the nearest ones that exist.
    """
    root = _metadata(storage_path)
    path = document_path(root, QUEUES, vhost, queue)
    document = _read(path)
    if document is None and path.exists():
        raise StorageNotFoundError(path, "the definition of the queue is not readable")
    if document is None:
        raise _not_found(root, vhost, queue)
    return _log(storage_path, document)


def list_queues(storage_path: Path, vhost: str) -> list[QueueLog]:
    """Return the logs of all durable queues of a virtual host, by name.

    Passes over what is no definition: `amqp-server verify` tells of it.

    Args:
        storage_path: The data directory.
        vhost: Virtual host; one that does not exist has no queues.

    Raises:
        StorageNotFoundError: There is no data directory.
    """
    root = _metadata(storage_path)
    documents = []
    for path in (root / QUEUES / encode_name(vhost)).glob(f"*{DOCUMENT_SUFFIX}"):
        document = _read(path)
        # A copy under another name is no second queue.
        if document is not None and path == document_path(root, QUEUES, vhost, document.name):
            documents.append(document)
    return [_log(storage_path, each) for each in sorted(documents, key=lambda each: each.name)]


def _metadata(storage_path: Path) -> Path:
    """Return where the definitions are."""
    if not storage_path.is_dir():
        raise StorageNotFoundError(
            storage_path, "no such data directory: give the one of the server"
        )
    root = storage_path / "metadata"
    if not root.is_dir():
        raise StorageNotFoundError(
            storage_path, "not a data directory of amqp-server: no metadata folder in it"
        )
    return root


def _log(storage_path: Path, document: Document) -> QueueLog:
    incarnation = UUID(document.body["incarnation"])
    directory = log_directory(storage_path, document.vhost, document.name, incarnation)
    return QueueLog(document.vhost, document.name, incarnation, directory)


def _not_found(root: Path, vhost: str, queue: str) -> QueueNotFoundError:
    documents = _documents(root / QUEUES)
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


def _documents(directory: Path) -> list[Document]:
    found = (_read(path) for path in sorted(directory.glob(f"*/*{DOCUMENT_SUFFIX}")))
    return [document for document in found if document is not None]


def _read(path: Path) -> Document | None:
    """Return a document; None when there is none or it is not readable."""
    try:
        document = decode_document(path.read_bytes())
    except (OSError, DocumentFormatError):
        return None
    is_in_place = path.parent.name == encode_name(document.vhost)
    return document if is_in_place and "incarnation" in document.body else None
