"""Recovery without serving clients: does what a start does, or reports what it would do.

It runs the same code as a start, so that both find the same. A dry run uses a file system that
records changes instead of making them.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.start_and_stop import recover_and_stop, try_recovery
from appendlog.files.dry_run import DryRunFileSystem
from metadata.errors import MetadataError
from metadata.reading_lock import check_data_directory, reading_lock

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from amqp_server.recovery.missing_parts import Part
    from amqp_server.recovery.start_report import StartReport


def recover_directory(
    storage_path: Path, *, is_dry_run: bool, accepted: Collection[Part] = ()
) -> StartReport:
    """Recover a data directory as a start would, and stop cleanly.

    Blocks; runs an event loop of its own.

    Args:
        storage_path: An existing data directory on which no server runs.
        is_dry_run: Whether to change nothing; no server can start on the directory until it ends.
        accepted: Parts of the directory whose loss the operator accepts if they are missing.

    Returns:
        What was found and, without `is_dry_run`, done; the latter is also in `recovery.json`.

    Raises:
        StartupError: A start would be refused as well: the directory is locked, unreadable, of
            another format, or a part of it is missing that is not accepted as lost.
    """
    try:
        check_data_directory(storage_path)
        with ExitStack() as locks:
            if is_dry_run:
                locks.enter_context(reading_lock(storage_path))
            return asyncio.run(_recover(storage_path, accepted, is_dry_run=is_dry_run))
    except MetadataError as error:
        raise StartupError(str(error)) from error


async def _recover(
    storage_path: Path, accepted: Collection[Part], *, is_dry_run: bool
) -> StartReport:
    config = ServerConfig(storage_path=storage_path)
    if is_dry_run:
        with DryRunFileSystem() as filesystem:
            report = await try_recovery(config, filesystem, accepted)
        report.is_dry_run = True
        return report
    return await recover_and_stop(config, accepted)
