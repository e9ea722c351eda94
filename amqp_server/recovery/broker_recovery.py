"""Start-up: rebuild virtual hosts, exchanges, queues and bindings from the data directory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.broker.binding_source import SourceSearch
from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import (
    BINDINGS,
    EXCHANGES,
    QUEUES,
    QueueDefinition,
    bind_from,
    exchange_from,
    has_delay_queue,
    in_binding_order,
    is_binding_name,
    queue_from,
    with_policy,
)
from amqp_server.broker.placeholder_queue import make_placeholder
from amqp_server.broker.policies.documents import POLICY_KINDS, policy_from_document
from amqp_server.broker.policies.unknown_policy import UnknownPolicy
from amqp_server.recovery.malformed_definitions import log_invalid, malformed_definition
from amqp_server.recovery.queue_recovery import open_queue
from amqp_server.recovery.start_report import QueueReport
from amqp_server.recovery.vhost_recovery import recover_vhosts
from amqp_server.upkeep.open_file_limit import refuse_start_without_files
from appendlog import LogError, LogIdentity
from appendlog.files.bulk_reads import READERS, READS_NATIVELY
from appendlog.recovery.log_images import IMAGES_AT_ONCE
from metadata.names import encode_name
from metadata.paths import document_path
from offsets import known_ends

if TYPE_CHECKING:
    import concurrent.futures
    from asyncio import Future
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.opened_log import OpenedLog
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.storing.unopened_log import UnopenedLog
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.recovery.group_recovery import RecoveredGroups
    from amqp_server.recovery.redo import QueueRedo
    from amqp_server.recovery.start_report import MalformedDefinition
    from appendlog import RecoveryReport
    from metadata.document import Document
    from metadata.loading import LoadReport
    from offsets import QueueCheckpoint

    _Opened = tuple[OpenedLog, RecoveryReport]
    _Found = tuple[Document, QueueDefinition]
    _Look = concurrent.futures.Future[list[UnopenedLog]]

logger = logging.getLogger("amqp_server.recovery")

FILES_LOGGED_MAX: Final = 20
"""Foreign files of one queue that the log line names; the recovery report lists the others."""

OPENERS: Final = 1 if READS_NATIVELY else 2
"""Threads that open logs.

Without a kernel that has read them one waits for the disk while the other recovers. Otherwise two
would only take the interpreter's lock from each other.
"""
QUEUES_AT_ONCE: Final = 64
"""Queues that a worker opens before it hands them to the event loop.

The images of as many more are in memory: of all, 80 MiB in the worst case, and mostly 1 MiB.
"""
GROUPS_LOGGED_MAX = 10
"""Consumer groups of one stream that get a log line when the stream has lost their messages."""


@dataclass(slots=True)
class Recovered:
    """Result of a recovery.

    Attributes:
        queues: Number of queues that work again.
        lossy: Incarnations of those whose logs are damaged or have lost records.
        ready: Ready messages in all recovered queues.
        damaged: Names of queues and exchanges that could not be recovered; their files are
            untouched.
        malformed: Exchanges, bindings and policies whose definitions contain invalid values.
        reports: One report for each queue, including those that could not be recovered.
    """

    queues: int = 0
    lossy: set[UUID] = field(default_factory=set)
    ready: int = 0
    damaged: list[str] = field(default_factory=list)
    malformed: list[MalformedDefinition] = field(default_factory=list)
    reports: list[QueueReport] = field(default_factory=list)


async def recover(
    broker: Broker,
    report: LoadReport,
    checkpoints: Mapping[UUID, QueueCheckpoint],
    redo: Mapping[UUID, QueueRedo],
    groups: RecoveredGroups,
    *,
    was_clean: bool,
) -> Recovered:
    """Rebuild all virtual hosts from their documents, logs and checkpoints.

    Args:
        broker: An empty broker.
        report: The metadata documents; those of no known virtual host are removed from it.
        checkpoints: The last known settlement of each queue, by incarnation.
        redo: Work of committed transactions, by incarnation; carried out when this returns.
        groups: The last known state of each consumer group.
        was_clean: Whether the server stopped cleanly. If not, every recovered message is marked
            redelivered, because nothing records which ones were delivered.
    """
    await recover_vhosts(broker, report)
    for unreadable in report.unreadable:
        refuse_start_without_files(unreadable.reason, unreadable.cause)
        logger.error("metadata unreadable path=%s reason=%s", unreadable.path, unreadable.reason)
    by_kind: dict[str, list[Document]] = {EXCHANGES: [], QUEUES: [], BINDINGS: []}
    for document in report.documents:
        by_kind.setdefault(document.kind, []).append(document)
    recovered = Recovered()
    # First of all: exchanges and queues get their policies when they are made.
    _recover_policies(broker, report, by_kind, recovered)
    for vhost in broker.vhosts.values():
        for exchange in list(vhost.exchanges.values()):
            # The predeclared ones exist already.
            vhost.change_policy(exchange, vhost.policies.for_exchange(exchange.name))
    for document in by_kind[EXCHANGES]:
        vhost = _vhost(broker, document)
        try:
            vhost.add_exchange(exchange_from(document))
        except InvalidDefinitionError as error:
            reason = _note_malformed(broker, document, error, recovered)
            vhost.damaged.exchanges[encode_name(document.name)] = reason
    delayed = [each for each in by_kind[EXCHANGES] if has_delay_queue(each, broker.vhosts)]
    await _recover_queues(
        broker, delayed + by_kind[QUEUES], checkpoints, redo, groups, recovered, was_clean=was_clean
    )
    _note_unreadable(broker, report)
    for vhost in broker.vhosts.values():
        vhost.damaged.make_placeholder = partial(
            make_placeholder, vhost, broker.storage, broker.turn
        )
    _recover_bindings(broker, by_kind[BINDINGS], recovered)
    for queue in broker.queues():
        # Wake the queues last: messages that expired while the server was down may be dead-lettered
        # to any exchange.
        queue.wake()
    return recovered


def _recover_policies(
    broker: Broker,
    report: LoadReport,
    by_kind: Mapping[str, Sequence[Document]],
    recovered: Recovered,
) -> None:
    """Give the virtual hosts their policies; with a damaged one, none of them counts."""
    root = broker.config.storage_path
    for kind, whose in POLICY_KINDS.items():
        for document in by_kind.get(kind, ()):
            policies = _vhost(broker, document).policies
            try:
                policies.put(whose, (policy_from_document(document),))
            except InvalidDefinitionError as error:
                reason = _note_malformed(broker, document, error, recovered)
                path = document_path(root / "metadata", kind, document.vhost, document.name)
                unknown = _unknown_policy(root, path, reason, document.body)
                policies.damage(whose, encode_name(document.name), unknown)
        for each in report.unreadable:
            if each.kind not in (kind, ""):
                continue
            unknown = _unknown_policy(root, each.path, each.reason, (each.fields or {}).get("body"))
            for vhost in broker.vhosts.values():
                if each.encoded_vhost in ("", encode_name(vhost.name)):
                    vhost.policies.damage(whose, each.encoded_name, unknown)
    for vhost in broker.vhosts.values():
        for _, _, unknown in vhost.policies.damaged:
            logger.error(
                "policies unknown vhost=%r path=%s reason=%s",
                vhost.name,
                unknown.path,
                unknown.consequence(vhost.name),
            )


def _unknown_policy(root: Path, path: Path, reason: str, body: object) -> UnknownPolicy:
    pattern = body.get("pattern") if isinstance(body, dict) else None
    return UnknownPolicy(
        str(path.relative_to(root)), reason, pattern if isinstance(pattern, str) else ""
    )


def _note_malformed(
    broker: Broker, document: Document, error: InvalidDefinitionError, recovered: Recovered
) -> str:
    """Record an exchange, binding or policy with an invalid value; return the reason."""
    recovered.damaged.append(document.name)
    recovered.malformed.append(malformed_definition(broker.config.storage_path, document, error))
    return recovered.malformed[-1].reason


def _note_unreadable(broker: Broker, report: LoadReport) -> None:
    """Reserve the names of definitions that cannot be read, so that no client takes them."""
    for vhost in broker.vhosts.values():
        names = {QUEUES: vhost.damaged.queues, EXCHANGES: vhost.damaged.exchanges}
        # An unreadable directory of one kind hides that kind's documents of every virtual host.
        for each in report.unreadable:
            if each.kind in names and each.encoded_vhost in ("", encode_name(vhost.name)):
                names[each.kind][each.encoded_name] = each.reason
    _note_damaged_bindings(broker, report)


def _note_damaged_bindings(broker: Broker, report: LoadReport) -> None:
    """Make the source exchanges of damaged bindings refuse publishes."""
    search = SourceSearch()
    for vhost in broker.vhosts.values():
        for each in report.unreadable:
            if each.kind not in (BINDINGS, "") or each.encoded_vhost not in (
                "",
                encode_name(vhost.name),
            ):
                continue
            name = each.encoded_name
            if name and not is_binding_name(name):
                # A file that the broker did not write: no binding has such a name.
                continue
            body = (each.fields or {}).get("body")
            source = search.source_of(name, body, vhost.exchanges)
            vhost.damaged.damaged_bindings.add(name, source)


def _recover_bindings(broker: Broker, documents: list[Document], recovered: Recovered) -> None:
    """Recreate bindings; one without source or destination is kept: it proves a loss.

    Args:
        broker: Broker with its exchanges and queues.
        documents: Documents of all bindings.
        recovered: Result to which bindings with invalid values are added.
    """
    search = SourceSearch()
    for document in in_binding_order(documents):
        vhost = _vhost(broker, document)
        try:
            if bind_from(document, vhost):
                continue
        except InvalidDefinitionError as error:
            _note_malformed(broker, document, error, recovered)
            name = encode_name(document.name)
            source = search.source_of(name, document.body, vhost.exchanges)
            vhost.damaged.damaged_bindings.add(name, source)
            continue
        logger.warning(
            "binding without source or destination vhost=%s body=%s", document.vhost, document.body
        )
        vhost.damaged.bindings.append(document)


def _vhost(broker: Broker, document: Document) -> VirtualHost:
    return broker.vhosts[document.vhost]


async def _recover_queues(
    broker: Broker,
    documents: list[Document],
    checkpoints: Mapping[UUID, QueueCheckpoint],
    redo: Mapping[UUID, QueueRedo],
    groups: RecoveredGroups,
    recovered: Recovered,
    *,
    was_clean: bool,
) -> None:
    loop = asyncio.get_running_loop()
    ends = known_ends([*checkpoints.values(), *groups])

    def open_all(found: Sequence[_Found], looks: Sequence[_Look]) -> list[_Opened | LogError]:
        return [
            _try_open(
                broker.storage,
                unopened,
                definition,
                checkpoints.get(definition.incarnation),
                redo.get(definition.incarnation),
                ends.get(definition.incarnation, 0),
                was_clean=was_clean,
            )
            for unopened, definition in _looked_at(found, looks)
        ]

    found = _definitions(broker, documents, recovered)
    with (
        ThreadPoolExecutor(READERS, "log images") as lookers,
        ThreadPoolExecutor(OPENERS, "recovery") as workers,
    ):
        batches = deque(
            found[at : at + QUEUES_AT_ONCE] for at in range(0, len(found), QUEUES_AT_ONCE)
        )
        seen: deque[tuple[list[_Found], list[_Look]]] = deque()
        pending: deque[tuple[list[_Found], Future[list[_Opened | LogError]]]] = deque()

        def look_ahead() -> None:
            if batches:
                batch = batches.popleft()
                seen.append((batch, _begin_to_look(broker.storage, batch, lookers)))

        for _ in range(OPENERS):
            look_ahead()
        while seen or pending:
            while seen and len(pending) < OPENERS:
                # What is opened next is read in the meantime.
                look_ahead()
                batch, looks = seen.popleft()
                pending.append((batch, loop.run_in_executor(workers, open_all, batch, looks)))
            batch, opening = pending.popleft()
            for (document, definition), opened in zip(batch, await opening, strict=True):
                _take_queue(broker, document, definition, opened, groups, recovered)


def _definitions(broker: Broker, documents: list[Document], recovered: Recovered) -> list[_Found]:
    """Return the documents of queues with their definitions; record those that are not valid."""
    found: list[_Found] = []
    for document in documents:
        try:
            policies = _vhost(broker, document).policies
            found.append((document, with_policy(queue_from(document), policies)))
        except InvalidDefinitionError as error:
            _note_damaged(broker, document, recovered, log_invalid(document, error))
    return found


def _begin_to_look(
    storage: QueueStorage, found: Sequence[_Found], lookers: ThreadPoolExecutor
) -> list[_Look]:
    """Let other threads read what is in the logs of these queues, some logs each."""

    def look_at(some: Sequence[_Found]) -> list[UnopenedLog]:
        return storage.look_at(
            [
                (
                    LogIdentity(document.vhost, definition.name, definition.incarnation),
                    definition.storage_settings(storage),
                )
                for document, definition in some
            ]
        )

    return [
        lookers.submit(look_at, found[at : at + IMAGES_AT_ONCE])
        for at in range(0, len(found), IMAGES_AT_ONCE)
    ]


def _looked_at(
    found: Sequence[_Found], looks: Sequence[_Look]
) -> Iterator[tuple[UnopenedLog, QueueDefinition]]:
    """Yield the logs of these queues with their definitions, as soon as they are read."""
    definitions = iter(found)
    for look in looks:
        for unopened in look.result():
            _, definition = next(definitions)
            yield unopened, definition


def _try_open(
    storage: QueueStorage,
    unopened: UnopenedLog,
    definition: QueueDefinition,
    checkpoint: QueueCheckpoint | None,
    redo: QueueRedo | None,
    known_end: int,
    *,
    was_clean: bool,
) -> _Opened | LogError:
    """Open one queue's log in a worker; return the error if that fails."""
    try:
        return open_queue(
            storage, unopened, definition, checkpoint, redo, known_end, was_clean=was_clean
        )
    except LogError as error:
        return error


def _take_queue(
    broker: Broker,
    document: Document,
    definition: QueueDefinition,
    opened: _Opened | LogError,
    groups: RecoveredGroups,
    recovered: Recovered,
) -> None:
    """Add a queue whose log is open to the broker, or record why it is not."""
    if isinstance(opened, LogError):
        refuse_start_without_files(opened, getattr(opened, "cause", None))
        _note_damaged(broker, document, recovered, str(opened))
        logger.error(
            "queue damaged vhost=%s queue=%s error=%s", document.vhost, document.name, opened
        )
        return
    log, report = opened
    ahead = groups.ahead_of(definition.incarnation, report.end_offset)
    _log_report(document, report, ahead)
    if report.is_damaged:
        recovered.lossy.add(definition.incarnation)
    queue = _add_queue(broker, document, definition, log)
    recovered.queues += 1
    recovered.ready += queue.ready_count
    recovered.reports.append(
        QueueReport(
            document.vhost,
            document.name,
            definition.is_delay_queue,
            report,
            queue.ready_count,
            ahead,
        )
    )


def _add_queue(
    broker: Broker, document: Document, definition: QueueDefinition, opened: OpenedLog
) -> Queue:
    vhost = _vhost(broker, document)
    if definition.is_delay_queue:
        exchange = vhost.exchanges[document.name]
        return broker.add_delay_queue(vhost, exchange, definition.incarnation, opened)
    queue = broker.add_queue(
        vhost,
        document.name,
        durable=True,
        exclusive_owner=None,
        auto_delete=definition.auto_delete,
        arguments=definition.arguments,
        incarnation=definition.incarnation,
        opened=opened,
        policy=definition.policy,
    )
    queue.is_paused = definition.is_paused
    return queue


def _note_damaged(broker: Broker, document: Document, recovered: Recovered, reason: str) -> None:
    recovered.damaged.append(document.name)
    is_delay_queue = document.kind == EXCHANGES
    recovered.reports.append(
        QueueReport(document.vhost, document.name, is_delay_queue, error=reason)
    )
    vhost = _vhost(broker, document)
    if is_delay_queue:
        # Without its hidden queue the exchange could store nothing: clients must see it as missing.
        vhost.remove_exchange(vhost.exchanges[document.name])
        vhost.damaged.exchanges[encode_name(document.name)] = reason
    else:
        vhost.damaged.queues[encode_name(document.name)] = reason


def _log_report(
    document: Document, report: RecoveryReport, groups_ahead: list[tuple[str, int]]
) -> None:
    for group, settled_end in groups_ahead[:GROUPS_LOGGED_MAX]:
        logger.error(
            "group ahead of its log vhost=%s queue=%s group=%s settled_end=%d log_end=%d groups=%d",
            document.vhost,
            document.name,
            group,
            settled_end,
            report.end_offset,
            len(groups_ahead),
        )
    if report.is_clean:
        return
    logger.warning(
        "recovered vhost=%s queue=%s records=%d scanned_bytes=%d cut_bytes=%d damaged_chunks=%d "
        "lost_ranges=%s foreign_files=%s seconds=%.3f",
        document.vhost,
        document.name,
        report.record_count,
        report.scanned_bytes,
        report.cut_bytes,
        report.damaged_chunks,
        report.lost,
        report.foreign_files[:FILES_LOGGED_MAX],
        report.seconds,
    )
