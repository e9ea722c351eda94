"""Definitions on disk: one JSON document per entity, and the data directory's lock."""

from metadata.directory_lock import DirectoryLock
from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import (
    DocumentFormatError,
    DocumentWriteError,
    MetadataError,
    StorageFormatError,
    StorageLockedError,
    StorageUnavailableError,
    UnstorableDocumentError,
)
from metadata.loading import LoadReport, UnreadableDocument
from metadata.names import encode_name, log_directory
from metadata.store import MetadataStore

__all__ = [
    "DirectoryLock",
    "Document",
    "DocumentFiles",
    "DocumentFormatError",
    "DocumentWriteError",
    "LoadReport",
    "MetadataError",
    "MetadataStore",
    "StorageFormatError",
    "StorageLockedError",
    "StorageUnavailableError",
    "UnreadableDocument",
    "UnstorableDocumentError",
    "encode_name",
    "log_directory",
]
