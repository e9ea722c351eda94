"""Recovers a server from its data directory: all that a start does between reading and serving."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from amqp_server.base.errors import StartupError
from amqp_server.broker.damaged_documents import DamagedDocument
from amqp_server.broker.definitions import VHOSTS
from amqp_server.recovery.accepted_loss import accept_loss
from amqp_server.recovery.access_consistency import missing_access
from amqp_server.recovery.access_recovery import recover_access
from amqp_server.recovery.broker_recovery import recover
from amqp_server.recovery.cleaning import begin_cleaning
from amqp_server.recovery.first_round import first_round
from amqp_server.recovery.group_recovery import RecoveredGroups
from amqp_server.recovery.parameter_recovery import recover_parameters
from amqp_server.recovery.redo import redo_by_queue, remaining
from amqp_server.recovery.start_report import StartReport
from amqp_server.recovery.vhost_recovery import recover_vhost_limits
from metadata.data_format import read_format
from metadata.errors import MetadataError
from metadata.name_list import NAMES_NAME
from metadata.names import encode_name
from offsets.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Collection

    from amqp_server.broker.broker import Broker
    from amqp_server.recovery.cleaning import Cleaning
    from amqp_server.recovery.directory_upgrade import DirectoryUpgrade
    from amqp_server.recovery.first_round import FirstRound
    from amqp_server.recovery.missing_parts import Part
    from amqp_server.recovery.start_report import MalformedDefinition
    from amqp_server.recovery.stored_state import StoredState
    from amqp_server.server import Server
    from metadata.loading import LoadReport
    from offsets import RedoTransaction

logger = logging.getLogger("amqp_server.server_recovery")


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
    is_earlier_format = read_format(path).has_unsigned_documents
    cleaning = await asyncio.to_thread(
        begin_cleaning,
        path,
        documents,
        filesystem,
        # These two move logs, or documents: what was listed before is not what is there now.
        None if accepted or upgrade is not None else stored.logs,
        is_earlier_format=is_earlier_format,
    )
    missing = await asyncio.to_thread(
        missing_access,
        path,
        documents,
        filesystem,
        first_user=server.config.default_user,
        is_earlier_format=is_earlier_format,
    )
    documents.unreadable += missing
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
    malformed = recovered.malformed
    recover_parameters(broker, documents, malformed)
    await recover_access(
        server.access,
        server.config,
        documents,
        tuple(broker.vhosts),
        stored.metadata,
        malformed,
        is_loss_accepted=accepted_loss.has_definitions,
    )
    recover_vhost_limits(broker, documents, malformed)
    _note_damage(broker, documents, malformed, cleaning.findings.missing_vhosts)
    stored.metadata.on_written = broker.damaged_documents.discard
    knows_all = not (documents.unreadable or recovered.damaged or malformed)
    queues = groups.restore(broker.queues())
    known = {queue.incarnation for queue in queues}
    await _list_names(stored, cleaning)
    await cleaning.remove_files(path, filesystem, broker.definitions)
    changed = {*redo, *recovered.lossy}
    first = first_round(queues, stored.settled, groups, changed, knows_all=knows_all)
    left = remaining(transactions, lambda each: not knows_all and each not in known)
    await _revoke_clean_stop(server, first, left)
    report.note_queues(
        recovered.reports + accepted_loss.logs,
        malformed,
        redo_left=len(left),
        cleaning=cleaning,
        seconds=stored.read_seconds + time.perf_counter() - started_seconds,
    )
    written = {state.incarnation for state in first.states}
    server.checkpointer.take_over({*stored.settled, *written, *redo, *groups.incarnations})
    return report


async def _list_names(stored: StoredState, cleaning: Cleaning) -> None:
    """Let no start miss the documents that an upgrade sets aside, and list all others."""
    try:
        if cleaning.findings.orphans:
            await stored.metadata.forget_names(cleaning.findings.orphans)
    except MetadataError as error:
        raise StartupError(f"cannot write the data directory: {error}") from error
    try:
        await stored.metadata.write_names()
    except MetadataError as error:
        # The next change writes it: a full disk must not keep the server from starting.
        logger.warning("list of names not written error=%s", error)


def _note_damage(
    broker: Broker,
    documents: LoadReport,
    malformed: list[MalformedDefinition],
    restored_vhosts: Collection[str],
) -> None:
    """Keep what is not known of the directory: it is shown until it is replaced."""
    restored = {encode_name(name) for name in restored_vhosts}
    for unreadable in documents.unreadable:
        is_restored = unreadable.kind == VHOSTS and unreadable.encoded_name in restored
        if not is_restored and unreadable.kind != NAMES_NAME:
            broker.damaged_documents.add_unreadable(unreadable)
    for each in malformed:
        kind, vhost = each.path.parent.parent.name, each.path.parent.name
        broker.damaged_documents.add(
            DamagedDocument(each.path, kind, vhost, encode_name(each.name), each.reason)
        )
    for damaged in broker.damaged_documents.all():
        logger.error("damaged document path=%s effect=%s", damaged.path, damaged.effect)


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
