"""Recovers a server from its data directory: all that a start does between reading and serving."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from amqp_server.accepted_loss import accept_loss
from amqp_server.access_recovery import recover_access
from amqp_server.cleaning import begin_cleaning
from amqp_server.errors import StartupError
from amqp_server.first_round import first_round
from amqp_server.group_recovery import RecoveredGroups
from amqp_server.limit_settings import recover_vhost_limits
from amqp_server.parameter_recovery import recover_parameters
from amqp_server.recovery import recover
from amqp_server.redo import redo_by_queue, remaining
from amqp_server.start_report import StartReport
from metadata.data_format import read_format
from offsets.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Collection

    from amqp_server.directory_upgrade import DirectoryUpgrade
    from amqp_server.first_round import FirstRound
    from amqp_server.missing_parts import Part
    from amqp_server.server import Server
    from amqp_server.stored_state import StoredState
    from offsets import RedoTransaction


async def recover_server(
    server: Server,
    stored: StoredState,
    upgrade: DirectoryUpgrade | None,
    accepted: Collection[Part],
) -> StartReport:
    """Fill an empty server with what its data directory contains, and revoke the clean stop.

    Args:
        server: An assembled server; its flusher need not run yet.
        stored: What was read from the directory.
        upgrade: Upgrade of a directory of an earlier format; None if there is none.
        accepted: Parts of the directory whose loss the operator accepts if they are missing.

    Raises:
        StartupError: A part is missing, or the directory cannot be read or written.
    """
    started_seconds = time.perf_counter()
    path, filesystem = server.config.storage_path, server.filesystem
    documents, was_clean = stored.documents, stored.was_clean
    groups = RecoveredGroups(stored.checkpoints.take_groups(), was_clean=was_clean)
    accepted_loss = await asyncio.to_thread(
        accept_loss,
        path,
        filesystem,
        accepted,
        documents,
        stored.settled,
        groups,
        has_checkpoints=stored.checkpoints.generation > 0,
    )
    if upgrade is not None:
        # Sign the documents before the cleaning removes any: it must not be written again after
        # that.
        await upgrade.write_documents(stored.metadata, documents)
    cleaning = await asyncio.to_thread(
        begin_cleaning,
        path,
        documents,
        filesystem,
        is_earlier_format=read_format(path).has_unsigned_documents,
    )
    report = StartReport()
    report.accepted_loss = accepted_loss.parts
    report.note_files(
        documents, stored.checkpoints.recovery, stored.journal.recovery, was_clean=was_clean
    )
    transactions = stored.journal.recovery.transactions
    redo = redo_by_queue(transactions)
    broker = server.broker
    await cleaning.remove_documents(filesystem, broker.definitions)
    recovered = await recover(broker, documents, stored.settled, redo, groups, was_clean=was_clean)
    recover_parameters(broker, documents)
    await recover_access(
        server.access, server.config, documents, tuple(broker.vhosts), stored.metadata
    )
    recover_vhost_limits(broker, documents)
    knows_all = not documents.unreadable and not recovered.damaged
    queues = groups.restore(broker.queues())
    known = {queue.incarnation for queue in queues}
    await cleaning.remove_files(path, filesystem, broker.definitions)
    changed = {*redo, *recovered.lossy}
    first = first_round(queues, stored.settled, groups, changed, knows_all=knows_all)
    left = remaining(transactions, lambda each: not knows_all and each not in known)
    await _revoke_clean_stop(server, first, left)
    report.note_queues(
        recovered.reports + accepted_loss.logs,
        recovered.malformed,
        redo_left=len(left),
        cleaning=cleaning,
        seconds=stored.read_seconds + time.perf_counter() - started_seconds,
    )
    written = {state.incarnation for state in first.states}
    server.checkpointer.take_over({*stored.settled, *written, *redo, *groups.incarnations})
    return report


async def _revoke_clean_stop(
    server: Server, first: FirstRound, left: list[RedoTransaction]
) -> None:
    """Write the first checkpoint round, and what recovery could not complete of commits."""
    try:
        await asyncio.to_thread(server.reserve.run, first.write, server.checkpoints)
        # Every other committed transaction is in the logs and in a checkpoint now.
        await asyncio.to_thread(server.journal.finish_recovery, left)
    except OffsetsError as error:
        path = server.config.storage_path
        raise StartupError(f"cannot write the data directory {path}: {error}") from error
