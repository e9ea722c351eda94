"""Consistency check: finds what was deleted or lost, and files that are not the broker's.

A deletion is recorded on the disk before anything is removed: a log gets a mark, and a virtual
host, exchange or queue gets a note in place of its document. So something that is merely absent was
not deleted. If another file refers to it, it was lost. A log and a binding prove their queue, a
binding proves its exchanges, and anything in a virtual host proves that host. See
docs/architecture/start-and-stop.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import (
    BINDINGS,
    DEFAULT_VHOST,
    EXCHANGES,
    QUEUES,
    VHOSTS,
    check_definition,
    is_deletion_note,
    names_queue,
    stored_incarnation,
)
from amqp_server.broker.transfers.delay_queue import DELAY_QUEUE_NAME
from amqp_server.broker.virtual_host import EVENT_EXCHANGES, PREDECLARED_EXCHANGES
from appendlog import UnsupportedFormatError
from appendlog.files.descriptors import Descriptors
from appendlog.recovery.log_owner import log_owner
from appendlog.segments.segment import segment_names
from metadata.document import Document
from metadata.loading import UnreadableDocument
from metadata.log_directories import find_logs
from metadata.names import LOGS_NAME, encode_name
from metadata.paths import DOCUMENT_SUFFIX, document_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from appendlog import FileSystem, LogIdentity
    from metadata.loading import LoadReport
    from metadata.log_directories import FoundLogs, LogDirectory

DESCRIPTORS_MAX = 8
"""Files of orphaned logs that are open at the same time."""
LOGS = LOGS_NAME
"""Kind of a missing part when a log proves something whose name is unknown."""

_Entity = tuple[str, str, str]
"""Kind, virtual host and name of a queue or exchange."""
_Place = tuple[str, str]
"""Virtual host and name, both encoded by `encode_name`."""
_DEFAULT = encode_name(DEFAULT_VHOST)
_OF_NO_VHOST = encode_name("")
_DELAY_QUEUE = encode_name(DELAY_QUEUE_NAME)
_PREDECLARED = frozenset(name for name, _, _ in PREDECLARED_EXCHANGES + EVENT_EXCHANGES)


@dataclass(slots=True)
class ConsistencyFindings:
    """Result of the check, which changes nothing.

    Attributes:
        deleted_vhosts: Notes of deleted virtual hosts.
        dependents: Documents of bindings whose source or destination is deleted.
        deleted: Documents of deleted queues and exchanges, or the notes in their place.
        unused: Those among them whose deletion is not recorded yet: auto-delete exchanges that a
            recorded deletion leaves without a binding.
        unmarked_logs: Logs of their hidden queues.
        deleted_logs: Logs of deleted queues, and empty directories that crashes left.
        kept_logs: Logs that an unreadable definition may name.
        queue_directories: Directories of queues whose logs are named by a definition.
        missing: Lost definitions: where the document should be, and what proves it.
        missing_vhosts: Names, where known, of virtual hosts without a document.
        orphan_vhosts: Encoded names of virtual hosts without a document, in a directory of an
            earlier format.
        orphan_documents: Documents of no existing virtual host or queue.
        orphans: Paths of these documents, and of logs of no existing virtual host or queue.
        foreign_paths: Paths among the logs that are no logs of this server.
    """

    deleted_vhosts: list[Document] = field(default_factory=list)
    dependents: list[Document] = field(default_factory=list)
    deleted: list[Document] = field(default_factory=list)
    unused: list[Document] = field(default_factory=list)
    unmarked_logs: list[LogDirectory] = field(default_factory=list)
    deleted_logs: list[LogDirectory] = field(default_factory=list)
    kept_logs: list[LogDirectory] = field(default_factory=list)
    queue_directories: set[str] = field(default_factory=set)
    missing: list[UnreadableDocument] = field(default_factory=list)
    missing_vhosts: list[str] = field(default_factory=list)
    orphan_vhosts: list[str] = field(default_factory=list)
    orphan_documents: list[Document] = field(default_factory=list)
    orphans: list[Path] = field(default_factory=list)
    foreign_paths: list[Path] = field(default_factory=list)

    def apply_to(self, report: LoadReport) -> None:
        """Remove from the load report what is not to be recovered; add to it what is missing."""
        vhosts = {encode_name(each.name) for each in self.deleted_vhosts} | {*self.orphan_vhosts}
        gone = {
            id(each)
            for kind in (self.dependents, self.deleted, self.orphan_documents)
            for each in kind
        }
        report.documents = [
            each
            for each in report.documents
            if id(each) not in gone and not (vhosts and encode_name(each.vhost) in vhosts)
        ]
        # The document of a virtual host contains nothing else, so it can be rebuilt from the name.
        report.documents += [Document(VHOSTS, "", name, {}) for name in self.missing_vhosts]
        found = {each.path for each in self.missing}
        report.unreadable = [
            *(
                each
                for each in report.unreadable
                if each.encoded_vhost not in vhosts and each.path not in found
            ),
            *self.missing,
        ]


def check_consistency(
    storage_path: Path,
    report: LoadReport,
    filesystem: FileSystem,
    logs: FoundLogs | None = None,
    *,
    is_earlier_format: bool,
) -> ConsistencyFindings:
    """Compare the documents and the logs of a data directory; blocks.

    Args:
        storage_path: The data directory.
        report: Its documents; not changed.
        filesystem: All file operations of the check.
        logs: The logs, if they were listed already.
        is_earlier_format: Whether the directory has a format in which deletions left no marks and
            no notes. Then a file without an owner is as likely left by a deletion as by a loss.
    """
    found = find_logs(storage_path / LOGS_NAME, filesystem) if logs is None else logs
    check = _Check(storage_path, report, filesystem, found, is_earlier_format=is_earlier_format)
    try:
        check.run()
    finally:
        check.close()
    return check.findings


class _Check:
    def __init__(
        self,
        storage_path: Path,
        report: LoadReport,
        filesystem: FileSystem,
        found: FoundLogs,
        *,
        is_earlier_format: bool,
    ) -> None:
        self.findings = ConsistencyFindings(foreign_paths=found.foreign_paths)
        self._root = storage_path / "metadata"
        self._filesystem = filesystem
        self._descriptors = Descriptors(DESCRIPTORS_MAX)
        self._is_earlier_format = is_earlier_format
        self._logs = found.logs
        self._documents = report.documents
        self._unreadable = {
            (each.kind, each.encoded_vhost, each.encoded_name)
            for each in report.unreadable
            # It cannot be there unread: other files show its name, which is all that it said.
            if not (each.kind == VHOSTS and each.is_missing)
        }
        self._unreadable_paths = [(each.encoded_vhost, each.path) for each in report.unreadable]
        # By kind, virtual host and name; without deleted ones.
        self._live: dict[_Entity, Document] = {}
        self._deleted: set[tuple[str, str, str]] = set()
        self._deleted_vhosts: set[str] = set()
        self._gone_vhosts: set[str] = set()
        self._missing: set[tuple[str, str, str]] = set()
        for path, error in found.unreadable:
            vhost = path.relative_to(storage_path / LOGS_NAME).parts[:1]
            self.findings.missing.append(
                UnreadableDocument(path, LOGS, "".join(vhost), "", str(error), is_damage=False)
            )

    def run(self) -> None:
        self._find_vhosts()
        marked = {each.name for each in self._logs if each.is_deleted}
        for document in self._documents:
            if document.kind in (EXCHANGES, QUEUES) and self._is_in_vhost(document):
                self._classify_entity(document, marked)
        self._classify_logs()
        for document in self._documents:
            if document.kind == BINDINGS and self._is_in_vhost(document):
                self._classify_binding(document)
        self._find_unused_exchanges()

    def close(self) -> None:
        """Close the files of orphans."""
        self._descriptors.close()

    # Virtual hosts

    def _find_vhosts(self) -> None:
        findings = self.findings
        known: set[str] = set()
        for document in self._documents:
            if document.kind != VHOSTS:
                continue
            known.add(encode_name(document.name))
            if is_deletion_note(document):
                findings.deleted_vhosts.append(document)
                self._deleted_vhosts.add(encode_name(document.name))
        self._gone_vhosts |= self._deleted_vhosts
        proven = self._proven_vhosts()
        lost = [each for each in proven if each not in known and not self._may_be_vhost(each)]
        if self._is_earlier_format:
            self._find_orphan_vhosts([each for each in lost if each != _DEFAULT], known)
            return
        for encoded in lost:
            name = proven[encoded]
            shown = repr(name) if name is not None else f"of the encoded name {encoded}"
            reason = f"missing, but there are files of virtual host {shown}"
            self._add_missing(VHOSTS, _OF_NO_VHOST, encoded, reason)
            if name is not None:
                findings.missing_vhosts.append(name)

    def _find_orphan_vhosts(self, lost: list[str], known: set[str]) -> None:
        if lost and not known:
            # The first start writes a virtual host, and one always stays: so all of them were lost.
            path = self._root / VHOSTS
            self.findings.missing.append(UnreadableDocument(path, VHOSTS, "", "", "missing"))
            return
        self.findings.orphan_vhosts = lost
        self._gone_vhosts.update(lost)
        for document in self._documents:
            if encode_name(document.vhost) in lost:
                self._add_orphan(document)
        self.findings.orphans += [path for vhost, path in self._unreadable_paths if vhost in lost]

    def _proven_vhosts(self) -> dict[str, str | None]:
        """Return the virtual hosts that files refer to, by encoded name; None: name unknown."""
        names = {document.vhost for document in self._documents} - {""}
        proven: dict[str, str | None] = {encode_name(name): name for name in sorted(names)}
        for _, encoded, _ in sorted(self._unreadable):
            if encoded not in ("", _OF_NO_VHOST):
                proven.setdefault(encoded, None)
        for log in self._logs:
            if proven.get(log.encoded_vhost) is None and not (log.is_deleted or log.is_empty):
                identity = self._identity(log)
                proven[log.encoded_vhost] = identity.vhost if identity else None
        return proven

    def _may_be_vhost(self, encoded: str) -> bool:
        return self._may_be(VHOSTS, _OF_NO_VHOST, encoded)

    def _is_in_vhost(self, document: Document) -> bool:
        return not self._gone_vhosts or encode_name(document.vhost) not in self._gone_vhosts

    # Queues and exchanges

    def _classify_entity(self, document: Document, marked: set[str]) -> None:
        place = (document.kind, document.vhost, document.name)
        if is_deletion_note(document) or (marked and stored_incarnation(document) in marked):
            self.findings.deleted.append(document)
            self._deleted.add((document.kind, *_encoded(document)))
        else:
            self._live[place] = document

    def _classify_logs(self) -> None:
        """Sort the logs: named by a definition, deleted, or without a definition."""
        claims = _Claims(self._live.values(), self._unreadable)
        findings = self.findings
        for log in self._logs:
            is_claimed = log.name in claims.incarnations
            is_rest = log.is_deleted or (log.is_empty and not is_claimed)
            if is_rest or log.encoded_vhost in self._deleted_vhosts:
                findings.deleted_logs.append(log)
            elif log.encoded_vhost in self._gone_vhosts:
                findings.orphans.append(log.path)
            elif not is_claimed and self._may_be_claimed(log, claims):
                findings.kept_logs.append(log)
            elif not is_claimed:
                self._classify_orphan(log, has_other_incarnation=_place(log) in claims.queues)
            else:
                findings.queue_directories.add(f"{log.root}/{log.encoded_queue}")
        for log in self._logs:
            if not log.is_deleted:
                continue
            place = (QUEUES, *_place(log))
            is_taken = _place(log) in claims.queues or place in self._missing
            if not is_taken and not self._may_be(*place):
                # Its definition is gone already: what still refers to the queue is to be removed as
                # well.
                self._deleted.add(place)

    def _may_be_claimed(self, log: LogDirectory, claims: _Claims) -> bool:
        """Return whether an unreadable definition may name a log."""
        if log.encoded_queue == _DELAY_QUEUE and claims.vague_exchanges & {log.encoded_vhost, ""}:
            return True
        return _place(log) in claims.vague_queues or self._may_be(QUEUES, *_place(log))

    def _classify_orphan(self, log: LogDirectory, *, has_other_incarnation: bool) -> None:
        """Classify a log that neither a readable nor an unreadable definition names."""
        identity = self._identity(log)
        if identity is not None and not _is_of(log, identity):
            self.findings.foreign_paths.append(log.path)
        elif self._is_earlier_format:
            self.findings.orphans.append(log.path)
        elif has_other_incarnation or log.encoded_queue == _DELAY_QUEUE:
            reason = "no definition names this log, so it is kept"
            self.findings.missing.append(
                UnreadableDocument(log.path, LOGS, log.encoded_vhost, log.name, reason)
            )
        else:
            shown = repr(identity.queue) if identity else f"of the encoded name {log.encoded_queue}"
            reason = f"missing, but queue {shown} has a log: {log.path}"
            self._add_missing(QUEUES, log.encoded_vhost, log.encoded_queue, reason)

    # Bindings

    def _classify_binding(self, document: Document) -> None:
        body = document.body
        vhost = document.vhost
        kind = QUEUES if body.get("destination_kind") == "queue" else EXCHANGES
        ends = ((EXCHANGES, body.get("source")), (kind, body.get("destination")))
        absent = [(kind, name) for kind, name in ends if not self._is_there(kind, vhost, name)]
        if not absent:
            return
        # Check this late: there may be a million bindings.
        if not _is_valid(document):
            # A damaged binding proves nothing.
            return
        places = {(kind, encode_name(vhost), encode_name(str(name))): name for kind, name in absent}
        if not self._deleted.isdisjoint(places):
            self.findings.dependents.append(document)
            return
        missing = [place for place in places if not self._may_be(*place)]
        if missing and self._is_earlier_format:
            self._add_orphan(document)
            return
        for place in missing:
            self._add_missing(
                *place, f"missing, but binding {document.name} refers to {places[place]!r}"
            )

    def _is_there(self, kind: str, vhost: str, name: object) -> bool:
        if not isinstance(name, str):
            return False
        is_predeclared = kind == EXCHANGES and name in _PREDECLARED
        return is_predeclared or (kind, vhost, name) in self._live

    # Auto-delete exchanges

    def _find_unused_exchanges(self) -> None:
        """Find the auto-delete exchanges whose last bindings go with something that is deleted.

        The deletion that takes the last binding of such an exchange takes the exchange too. A crash
        may have come before that was recorded. The document of the last binding is still there
        then, because it goes afterwards.
        """
        sources = [_source_of(each) for each in self.findings.dependents]
        if not any(map(self._is_auto_delete, sources)):
            return
        if any(kind in (BINDINGS, "") for kind, _, _ in self._unreadable):
            # It may be a binding of one of them.
            return
        gone = {id(each) for each in self.findings.dependents}
        counts: Counter[_Entity] = Counter()
        bindings_to: dict[_Entity, list[Document]] = {}
        for document in self._documents:
            if document.kind != BINDINGS or id(document) in gone:
                continue
            counts[_source_of(document)] += 1
            if document.body.get("destination_kind") == "exchange" and _is_valid(document):
                end = (EXCHANGES, document.vhost, document.body["destination"])
                bindings_to.setdefault(end, []).append(document)
        while sources:
            source = sources.pop()
            if counts[source] or not self._is_auto_delete(source):
                continue
            self._add_unused(self._live.pop(source))
            for binding in bindings_to.pop(source, ()):
                self.findings.dependents.append(binding)
                counts[_source_of(binding)] -= 1
                sources.append(_source_of(binding))

    def _is_auto_delete(self, exchange: _Entity) -> bool:
        document = self._live.get(exchange)
        return (
            document is not None
            and document.body.get("auto_delete") is True
            and _is_valid(document)
        )

    def _add_unused(self, exchange: Document) -> None:
        self.findings.deleted.append(exchange)
        self.findings.unused.append(exchange)
        incarnation = stored_incarnation(exchange)
        logs = [each for each in self._logs if each.name == incarnation]
        self.findings.unmarked_logs += logs
        self.findings.deleted_logs += logs

    # All of them

    def _may_be(self, kind: str, encoded_vhost: str, encoded_name: str) -> bool:
        """Return whether the document may exist but cannot be read."""
        places = (
            (kind, encoded_vhost, encoded_name),
            (kind, encoded_vhost, ""),
            (kind, "", ""),
            ("", "", ""),
        )
        return bool(self._unreadable) and not self._unreadable.isdisjoint(places)

    def _add_missing(self, kind: str, encoded_vhost: str, encoded_name: str, reason: str) -> None:
        place = (kind, encoded_vhost, encoded_name)
        if place not in self._missing:
            self._missing.add(place)
            path = self._root.joinpath(kind, encoded_vhost, f"{encoded_name}{DOCUMENT_SUFFIX}")
            self.findings.missing.append(
                UnreadableDocument(path, kind, encoded_vhost, encoded_name, reason)
            )

    def _add_orphan(self, document: Document) -> None:
        self.findings.orphan_documents.append(document)
        self.findings.orphans.append(
            document_path(self._root, document.kind, document.vhost, document.name)
        )

    def _identity(self, log: LogDirectory) -> LogIdentity | None:
        """Return the queue that the segments name; None if no segment can be read."""
        try:
            names = segment_names(self._filesystem.listdir(log.path))
            if not names:
                return None
            return log_owner(log.path, names, self._filesystem, self._descriptors)
        except (OSError, UnsupportedFormatError):
            return None


class _Claims:
    """The logs that definitions name.

    Attributes:
        incarnations: Incarnations of these logs.
        queues: Places of the queues that have a definition.
        vague_queues: Those among them whose definitions do not contain the incarnation.
        vague_exchanges: Encoded virtual hosts with an exchange that may have a hidden queue of
            unknown incarnation; an empty name stands for any virtual host.
    """

    def __init__(
        self, documents: Iterable[Document], unreadable: Iterable[tuple[str, str, str]]
    ) -> None:
        self.incarnations: set[str] = set()
        self.queues: set[_Place] = set()
        self.vague_queues: set[_Place] = set()
        self.vague_exchanges = {vhost for kind, vhost, _ in unreadable if kind in (EXCHANGES, "")}
        for document in documents:
            incarnation = stored_incarnation(document)
            if incarnation is not None:
                self.incarnations.add(incarnation)
            if document.kind == QUEUES:
                self.queues.add(_encoded(document))
                if incarnation is None:
                    self.vague_queues.add(_encoded(document))
            elif incarnation is None and names_queue(document):
                self.vague_exchanges.add(encode_name(document.vhost))


def _place(log: LogDirectory) -> _Place:
    return log.encoded_vhost, log.encoded_queue


def _encoded(document: Document) -> _Place:
    return encode_name(document.vhost), encode_name(document.name)


def _source_of(binding: Document) -> _Entity:
    return EXCHANGES, binding.vhost, str(binding.body.get("source"))


def _is_valid(document: Document) -> bool:
    try:
        check_definition(document)
    except InvalidDefinitionError:
        return False
    return True


def _is_of(log: LogDirectory, identity: LogIdentity) -> bool:
    """Return whether the segments of a directory belong to the log that the directory names."""
    named = (log.encoded_vhost, log.encoded_queue, log.incarnation)
    names = (encode_name(identity.vhost), encode_name(identity.queue), identity.incarnation)
    return named == names
