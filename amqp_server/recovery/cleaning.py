"""Start-up: completes deletions that a crash interrupted, and reports foreign files.

It removes only what is marked as deleted. Documents are removed before anything is recovered, logs
when the start is known to succeed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import StartupError
from amqp_server.recovery.consistency_check import check_consistency
from amqp_server.recovery.quarantine import Quarantine
from appendlog.files.deleted_mark import set_deleted_mark
from metadata.errors import MetadataError
from metadata.log_directories import find_logs, remove_log
from metadata.names import LOGS_NAME, SPILL_NAME, encode_name, is_encoded_name

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

    from amqp_server.broker.definitions import Definitions
    from amqp_server.recovery.consistency_check import ConsistencyFindings
    from appendlog import FileSystem
    from metadata.document import Document
    from metadata.loading import LoadReport
    from metadata.log_directories import FoundLogs

logger = logging.getLogger("amqp_server.cleaning")

REMOVALS_AT_ONCE: Final = 1024
"""Documents that are removed at the same time."""
FOREIGN_PATHS_LOGGED_MAX: Final = 100
"""Foreign files that get a log line each; the others are counted in one line."""


@dataclass(slots=True)
class Cleaning:
    """Removals of one start, and the unknown files that it leaves unchanged.

    Attributes:
        findings: Result of the consistency check: deleted, missing and foreign files.
        removed_logs: Number of logs of deleted queues that were removed.
        quarantined: New paths of what an upgrade moved to quarantine.
        foreign_paths: Paths among the logs that are no logs of this server.
    """

    findings: ConsistencyFindings
    removed_logs: int = 0
    quarantined: list[Path] = field(default_factory=list)
    foreign_paths: list[Path] = field(default_factory=list)

    async def remove_documents(self, filesystem: FileSystem, definitions: Definitions) -> None:
        """Remove the documents of deleted things, and restore lost ones of virtual hosts.

        Args:
            filesystem: All file operations on logs.
            definitions: Definitions on the disk.

        Raises:
            StartupError: The disk refused a change.
        """
        findings = self.findings
        try:
            for note in findings.deleted_vhosts:
                await definitions.clear_vhost(encode_name(note.name))
            # Record these first: the bindings that prove their deletion go now.
            await asyncio.to_thread(self._mark_logs, filesystem)
            await _note_all(definitions, findings.unused)
            await _remove_all(definitions, findings.dependents)
            await _remove_all(definitions, findings.deleted)
            for name in findings.missing_vhosts:
                # Safe: the document of a virtual host contains nothing but the name.
                await definitions.save_vhost(name)
        except (MetadataError, OSError) as error:
            raise StartupError(f"cannot write the data directory: {error}") from error

    def _mark_logs(self, filesystem: FileSystem) -> None:
        for log in self.findings.unmarked_logs:
            set_deleted_mark(filesystem, log.path)

    async def remove_files(
        self, storage_path: Path, filesystem: FileSystem, definitions: Definitions
    ) -> None:
        """Remove the logs of deleted and of transient queues.

        What cannot be removed is logged; the next start tries again.
        """
        kept = await asyncio.to_thread(self._remove_files, storage_path, filesystem)
        for note in self.findings.deleted_vhosts:
            if encode_name(note.name) not in kept:
                with suppress(MetadataError):
                    await definitions.forget_vhost(note.name)

    def _remove_files(self, storage_path: Path, filesystem: FileSystem) -> set[str]:
        """Remove files in a worker; return the encoded virtual hosts whose logs are still there."""
        kept: set[str] = set()
        for log in self.findings.deleted_logs:
            if _is_removed(log.path, filesystem):
                # A removal that a crash interrupted left an empty directory: it does not count.
                self.removed_logs += not log.is_empty
            else:
                kept.add(log.encoded_vhost)
        self._set_orphans_aside(storage_path, filesystem)
        spilled = find_logs(storage_path / SPILL_NAME, filesystem)
        for log in spilled.logs:
            _is_removed(log.path, filesystem)
        for name in (LOGS_NAME, SPILL_NAME):
            _remove_empty_directories(
                storage_path / name, filesystem, self.findings.queue_directories
            )
        self.foreign_paths = [*self.findings.foreign_paths, *spilled.foreign_paths]
        for path in self.foreign_paths[:FOREIGN_PATHS_LOGGED_MAX]:
            logger.warning("not a log of this server, left unchanged path=%s", path)
        if len(self.foreign_paths) > FOREIGN_PATHS_LOGGED_MAX:
            logger.warning(
                "not logs of this server, left unchanged count=%d", len(self.foreign_paths)
            )
        return kept

    def _set_orphans_aside(self, storage_path: Path, filesystem: FileSystem) -> None:
        if not self.findings.orphans:
            return
        quarantine = Quarantine(storage_path, filesystem)
        for path in self.findings.orphans:
            try:
                quarantine.take(path)
            except OSError as error:
                logger.warning(
                    "file of no queue not moved to quarantine path=%s error=%s", path, error
                )
        self.quarantined = quarantine.moved
        logger.warning(
            "files of no queue or virtual host moved to quarantine count=%d path=%s: "
            "delete them if nothing is missing",
            len(quarantine.moved),
            quarantine.path,
        )


def begin_cleaning(
    storage_path: Path,
    report: LoadReport,
    filesystem: FileSystem,
    logs: FoundLogs | None = None,
    *,
    is_earlier_format: bool,
) -> Cleaning:
    """Find what is to be removed, and reduce the load report to the rest; blocks.

    Args:
        storage_path: The data directory.
        report: Its documents. Deleted ones are removed from it, missing ones are added to the
            unreadable ones.
        filesystem: All file operations; they change nothing.
        logs: The logs, if they were listed and are as they were then.
        is_earlier_format: Whether deletions left no marks when the directory was written.
    """
    findings = check_consistency(
        storage_path, report, filesystem, logs, is_earlier_format=is_earlier_format
    )
    findings.apply_to(report)
    return Cleaning(findings)


async def _note_all(definitions: Definitions, exchanges: Sequence[Document]) -> None:
    for at in range(0, len(exchanges), REMOVALS_AT_ONCE):
        await asyncio.gather(
            *map(definitions.record_deletion, exchanges[at : at + REMOVALS_AT_ONCE])
        )


async def _remove_all(definitions: Definitions, documents: Sequence[Document]) -> None:
    for at in range(0, len(documents), REMOVALS_AT_ONCE):
        await asyncio.gather(
            *map(definitions.remove_document, documents[at : at + REMOVALS_AT_ONCE])
        )


def _is_removed(path: Path, filesystem: FileSystem) -> bool:
    try:
        remove_log(path, filesystem)
    except OSError as error:
        logger.warning("log of a deleted queue not removed path=%s error=%s", path, error)
        return False
    return True


def _remove_empty_directories(logs: Path, filesystem: FileSystem, used: Container[str]) -> None:
    """Remove empty directories of queues, then empty ones of virtual hosts.

    Args:
        logs: `logs` or `spill` of the data directory.
        filesystem: All file operations.
        used: Paths of directories that are known to have a log.
    """
    for vhost in _named_directories(logs, filesystem, used):
        for queue in _named_directories(vhost, filesystem, used):
            _remove_empty(queue, filesystem)
        _remove_empty(vhost, filesystem)


def _named_directories(parent: Path, filesystem: FileSystem, used: Container[str]) -> list[Path]:
    try:
        names = filesystem.listdir(parent)
    except OSError:
        return []
    paths = [
        parent / name
        for name in sorted(names)
        if f"{parent}/{name}" not in used and is_encoded_name(name)
    ]
    return [path for path in paths if filesystem.is_directory(path)]


def _remove_empty(directory: Path, filesystem: FileSystem) -> None:
    with suppress(OSError):
        if not filesystem.listdir(directory):
            filesystem.rmdir(directory)
