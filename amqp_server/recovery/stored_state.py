"""Stored state that a start reads: definitions, checkpoints, the redo journal."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import StartupError
from amqp_server.broker.damaged_documents import LISTED_KINDS
from amqp_server.recovery.start_report_file import known_names
from amqp_server.upkeep.disk_reserve import ReservedDocumentFiles
from metadata.data_format import read_format
from metadata.errors import MetadataError
from metadata.log_directories import find_logs
from metadata.names import LOGS_NAME
from metadata.store import MetadataStore
from offsets.checkpoint import CheckpointStore
from offsets.errors import OffsetsError
from offsets.redo_journal import RedoJournal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack
    from uuid import UUID

    from amqp_server.base.config import ServerConfig
    from amqp_server.upkeep.disk_reserve import DiskReserve
    from appendlog import FileSystem
    from metadata.loading import LoadReport
    from metadata.log_directories import FoundLogs
    from offsets import QueueCheckpoint


LISTING_SECONDS_MAX: Final = 5.0
"""Time for which a start that has failed waits for what it still reads."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The three stores of a data directory, opened, and what they contain.

    Attributes:
        metadata: Store of the definitions.
        checkpoints: Store of the checkpoints.
        journal: Redo journal, with the transactions that it contains.
        documents: The definitions, and what could not be read of them.
        logs: The directories of logs.
        settled: The last known settlement of each queue, by incarnation.
        was_clean: Whether the last server stopped cleanly.
        read_seconds: Time that reading took.
    """

    metadata: MetadataStore
    checkpoints: CheckpointStore
    journal: RedoJournal
    documents: LoadReport
    logs: FoundLogs
    settled: Mapping[UUID, QueueCheckpoint]
    was_clean: bool
    read_seconds: float


async def _end(listing: asyncio.Task[FoundLogs]) -> None:
    """Let a start that fails leave no thread behind, unless the disk hangs."""
    await asyncio.wait({listing}, timeout=LISTING_SECONDS_MAX)
    listing.cancel()
    await asyncio.gather(listing, return_exceptions=True)


async def open_stores(
    config: ServerConfig, filesystem: FileSystem, reserve: DiskReserve, opened: AsyncExitStack
) -> StoredState:
    """Open the stores of a data directory and read what they contain; write nothing.

    Args:
        config: Settings; names the data directory.
        filesystem: File operations.
        reserve: Disk reserve for later writes of definitions.
        opened: Gets the close of each store.

    Raises:
        StartupError: The data directory cannot be read.
    """
    started_seconds = time.perf_counter()
    path = config.storage_path
    files = ReservedDocumentFiles(filesystem, reserve)
    metadata = MetadataStore(path / "metadata", files, LISTED_KINDS)
    opened.push_async_callback(metadata.close)
    # Beside the definitions: one waits for the disk, the other for the interpreter.
    listing = asyncio.create_task(asyncio.to_thread(find_logs, path / LOGS_NAME, filesystem))
    opened.push_async_callback(_end, listing)
    try:
        accepts_unsigned = read_format(path).has_unsigned_documents
        known = await asyncio.to_thread(known_names, path)
        documents = await metadata.load(
            accepts_unsigned=accepts_unsigned,
            believes_names=known.believes_names and not accepts_unsigned,
            expects_names=known.expects_names,
        )
        checkpoints, settled, was_clean = await asyncio.to_thread(
            CheckpointStore.open, path / "offsets", filesystem
        )
        opened.callback(checkpoints.close)
        journal = await asyncio.to_thread(RedoJournal.open, path / "transactions", filesystem)
        opened.callback(journal.close)
        logs = await listing
    except (OSError, MetadataError, OffsetsError) as error:
        raise StartupError(f"cannot read the data directory {path}: {error}") from error
    return StoredState(
        metadata,
        checkpoints,
        journal,
        documents,
        logs,
        settled,
        was_clean,
        time.perf_counter() - started_seconds,
    )
