"""Upgrades a data directory of an earlier format while a server starts on it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from metadata.errors import MetadataError
from metadata.upgrade import finish_upgrade

if TYPE_CHECKING:
    from metadata.directory_lock import DirectoryLock
    from metadata.loading import LoadReport
    from metadata.store import MetadataStore

logger = logging.getLogger("amqp_server.directory_upgrade")

DOCUMENTS_TOGETHER: Final = 1024
"""Documents that are written at the same time: a data directory may have a million bindings."""


class DirectoryUpgrade:
    """One upgrade: `write_documents`, then the rest of a start, then `finish`.

    A start never fails because of it. Documents that could not be written keep the earlier schema,
    and the next start resumes the upgrade.

    Args:
        lock: Claim on the data directory; it records that an upgrade runs.
    """

    def __init__(self, lock: DirectoryLock) -> None:
        self._lock = lock
        self._report: LoadReport | None = None

    async def write_documents(self, store: MetadataStore, report: LoadReport) -> None:
        """Write the documents of earlier schemas again, with a checksum.

        Args:
            store: Store of the documents.
            report: Documents that were loaded from it.
        """
        logger.info(
            "upgrading %s documents=%d: earlier programs refuse it from now on",
            self._lock.storage_path,
            len(report.earlier),
        )
        try:
            for at in range(0, len(report.earlier), DOCUMENTS_TOGETHER):
                documents = report.earlier[at : at + DOCUMENTS_TOGETHER]
                await asyncio.gather(*map(store.put, documents))
        except MetadataError as error:
            self._log_failure(error)
        else:
            self._report = report

    def finish(self) -> None:
        """Record in FORMAT that the upgrade is complete, if it is; blocks on the disk."""
        if self._report is None:
            return
        try:
            finish_upgrade(self._lock, self._report)
        except MetadataError as error:
            self._log_failure(error)

    def _log_failure(self, error: MetadataError) -> None:
        logger.warning(
            "upgrade of %s is not finished error=%s: the next start resumes it",
            self._lock.storage_path,
            error,
        )
