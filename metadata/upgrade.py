"""Upgrades a data directory of an earlier format, for programs without an event loop.

A server does the same on its own event loop when it starts.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from metadata.direct_write import write_document
from metadata.directory_lock import DirectoryLock
from metadata.document_files import DocumentFiles
from metadata.loading import LoadReport, load_documents

logger: Final = logging.getLogger("metadata.upgrade")

SERVER_REPORT_NAME: Final = "recovery.json"
"""File that exists if a server has run on a data directory."""


def upgrade_directory(storage_path: Path, filesystem: FileSystem | None = None) -> None:
    """Write every document of an earlier schema again, then FORMAT when all have a checksum.

    Documents that cannot be read stay unchanged. An interrupted upgrade is resumed. If a server has
    run on the directory, its next start finishes the upgrade. Only a server can recognise logs that
    deletions and transient queues left, and it must set these aside first.

    Args:
        storage_path: The data directory; locked for this process alone during the upgrade.
        filesystem: File operations; by default the operating system's.

    Raises:
        StorageLockedError: Another process uses the directory.
        StorageFormatError: It has a version that this program does not read.
        StorageUnavailableError: FORMAT cannot be written.
        DocumentWriteError: A document cannot be written; the next attempt resumes.
    """
    files = DocumentFiles(filesystem)
    with DirectoryLock.acquire(storage_path, filesystem) as lock:
        if not lock.is_upgrade:
            return
        root = storage_path / "metadata"
        report = load_documents(root, files, accepts_unsigned=True)
        for document in report.earlier:
            write_document(root, document, files)
        if not (storage_path / SERVER_REPORT_NAME).exists():
            finish_upgrade(lock, report)


def finish_upgrade(lock: DirectoryLock, report: LoadReport) -> None:
    """Record in FORMAT that the upgrade is complete; all of `report.earlier` must be written.

    If the disk refused to read a document, it may be intact and of an earlier schema. The upgrade
    then stays unfinished, and the next start resumes it.

    Raises:
        StorageUnavailableError: FORMAT cannot be written.
    """
    refused = [each.path for each in report.unreadable if not each.is_damage]
    if refused:
        logger.warning(
            "upgrade of %s is not finished: %d definitions cannot be read, first %s; the next "
            "start resumes it",
            lock.storage_path,
            len(refused),
            refused[0],
        )
        return
    lock.finish_upgrade()
    logger.info("upgraded %s documents=%d", lock.storage_path, len(report.earlier))
