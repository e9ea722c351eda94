"""Start-up: finish what deletions have begun, and say what lies there that is not ours.

Only what is marked as deleted is removed. The documents go before anything is brought back, the
logs when it is known that the start succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.errors import StartupError
from amqp_server.evidence import find_evidence
from amqp_server.maintenance.quarantine import Quarantine
from metadata.errors import MetadataError
from metadata.log_directories import find_logs, remove_log
from metadata.names import LOGS_NAME, SPILL_NAME, encode_name, is_encoded_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from amqp_server.broker.definitions import Definitions
    from amqp_server.evidence import Evidence
    from appendlog import FileSystem
    from metadata.document import Document
    from metadata.loading import LoadReport

logger = logging.getLogger(__name__)

TOGETHER: Final = 1024
"""Documents whose removal is asked for at a time."""
STRANGERS_LOGGED_MAX: Final = 100
"""How many things that are not ours get a line of their own in the log."""


@dataclass(slots=True)
class Cleaning:
    """What one start removes, and what it leaves alone.

    Attributes:
        evidence: What was found.
        removed_logs: Logs of deleted queues that were removed.
        quarantined: What an upgrade has set aside: new paths.
        strangers: What lies among the logs and is none.
    """

    evidence: Evidence
    removed_logs: int = 0
    quarantined: list[Path] = field(default_factory=list)
    strangers: list[Path] = field(default_factory=list)

    async def remove_documents(self, definitions: Definitions) -> None:
        """Remove the documents of what is deleted, and bring back those of virtual hosts.

        Raises:
            StartupError: The disk refused.
        """
        evidence = self.evidence
        try:
            for note in evidence.deleted_vhosts:
                await definitions.clear_vhost(encode_name(note.name))
            await _remove_all(definitions, evidence.dependents)
            await _remove_all(definitions, evidence.deleted)
            for name in evidence.missing_vhosts:
                # There is nothing in it that could be lost: whatever speaks of it is the rest.
                await definitions.save_vhost(name)
        except MetadataError as error:
            raise StartupError(f"cannot write the data directory: {error}") from error

    async def remove_files(
        self, storage_path: Path, filesystem: FileSystem, definitions: Definitions
    ) -> None:
        """Remove the logs of what is deleted, and of queues that no restart survives.

        What cannot be removed is told, and tried again by the next start.
        """
        kept = await asyncio.to_thread(self._remove_files, storage_path, filesystem)
        for note in self.evidence.deleted_vhosts:
            if encode_name(note.name) not in kept:
                with suppress(MetadataError):
                    await definitions.forget_vhost(note.name)

    def _remove_files(self, storage_path: Path, filesystem: FileSystem) -> set[str]:
        """Do it; return the encoded names of virtual hosts whose logs cannot be removed."""
        kept: set[str] = set()
        for log in self.evidence.deleted_logs:
            if _is_removed(log.path, filesystem):
                # An empty directory is what a crash left of a removal: it holds nothing to count.
                self.removed_logs += not log.is_empty
            else:
                kept.add(log.encoded_vhost)
        self._set_orphans_aside(storage_path, filesystem)
        spilled = find_logs(storage_path / SPILL_NAME, filesystem)
        for log in spilled.logs:
            _is_removed(log.path, filesystem)
        for name in (LOGS_NAME, SPILL_NAME):
            _remove_empty_directories(storage_path / name, filesystem)
        self.strangers = [*self.evidence.strangers, *spilled.strangers]
        for path in self.strangers[:STRANGERS_LOGGED_MAX]:
            logger.warning("not a log of this server, left alone path=%s", path)
        if len(self.strangers) > STRANGERS_LOGGED_MAX:
            logger.warning("not logs of this server, left alone count=%d", len(self.strangers))
        return kept

    def _set_orphans_aside(self, storage_path: Path, filesystem: FileSystem) -> None:
        if not self.evidence.orphans:
            return
        quarantine = Quarantine(storage_path, filesystem)
        for path in self.evidence.orphans:
            try:
                quarantine.take(path)
            except OSError as error:
                logger.warning("belongs to no queue, not set aside path=%s error=%s", path, error)
        self.quarantined = quarantine.moved
        logger.warning(
            "set aside what belongs to no queue or virtual host: count=%d path=%s: remove it when "
            "you do not miss anything",
            *(len(quarantine.moved), quarantine.path),
        )


def begin_cleaning(
    storage_path: Path, report: LoadReport, filesystem: FileSystem, *, is_earlier_format: bool
) -> Cleaning:
    """Find out what there is to be removed, and leave the rest in what was loaded; blocks.

    Args:
        storage_path: The data directory.
        report: Its documents. What is deleted is taken out, what is missing is added to what
            cannot be read.
        filesystem: All file calls go through it; nothing is changed.
        is_earlier_format: Whether deletions left no marks when the directory was written.
    """
    evidence = find_evidence(storage_path, report, filesystem, is_earlier_format=is_earlier_format)
    evidence.take_out(report)
    return Cleaning(evidence)


async def _remove_all(definitions: Definitions, documents: Sequence[Document]) -> None:
    for at in range(0, len(documents), TOGETHER):
        await asyncio.gather(*map(definitions.remove_document, documents[at : at + TOGETHER]))


def _is_removed(path: Path, filesystem: FileSystem) -> bool:
    try:
        remove_log(path, filesystem)
    except OSError as error:
        logger.warning("log of a deleted queue not removed path=%s error=%s", path, error)
        return False
    return True


def _remove_empty_directories(logs: Path, filesystem: FileSystem) -> None:
    """Remove the directories of queues, then those of virtual hosts, in which nothing is left."""
    for vhost in _named_directories(logs, filesystem):
        for queue in _named_directories(vhost, filesystem):
            _remove_empty(queue, filesystem)
        _remove_empty(vhost, filesystem)


def _named_directories(parent: Path, filesystem: FileSystem) -> list[Path]:
    try:
        names = filesystem.listdir(parent)
    except OSError:
        return []
    paths = [parent / name for name in sorted(names) if is_encoded_name(name)]
    return [path for path in paths if filesystem.is_directory(path)]


def _remove_empty(directory: Path, filesystem: FileSystem) -> None:
    with suppress(OSError):
        if not filesystem.listdir(directory):
            filesystem.rmdir(directory)
