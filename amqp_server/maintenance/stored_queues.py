"""Lists the queues of a data directory from its definitions; changes nothing.

A `MetadataStore` would remove temporary files that a running server is writing. So this module
reads the documents with file operations that change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.base.config import ServerConfig
from amqp_server.broker.definition_values import InvalidDefinitionError
from amqp_server.broker.definitions import (
    VHOSTS,
    check_definition,
    is_deletion_note,
    names_queue,
    queue_from,
    with_policy,
)
from amqp_server.broker.policies.documents import POLICY_KINDS, policy_from_document
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.policies.unknown_policy import UnknownPolicy
from amqp_server.broker.policies.vhost_policies import VhostPolicies
from amqp_server.recovery.access_consistency import missing_access
from amqp_server.recovery.start_report_file import known_names
from appendlog import FileSystem, LogIdentity
from appendlog.files.deleted_mark import has_deleted_mark
from appendlog.files.dry_run import DryRunFileSystem
from metadata.document_files import DocumentFiles
from metadata.loading import LoadReport, load_documents
from metadata.names import encode_name, log_directory
from metadata.reading_lock import check_data_directory, is_live

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from amqp_server.broker.definitions import QueueDefinition
    from metadata.document import Document


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """One durable queue of a data directory.

    Attributes:
        vhost: Name of its virtual host.
        name: Name of the queue; for a hidden delay queue, the name of its delayed exchange.
        definition: Parsed content of its document.
        directory: Directory of its log; it does not exist before the first message.
    """

    vhost: str
    name: str
    definition: QueueDefinition
    directory: Path

    @property
    def incarnation(self) -> UUID:
        """Incarnation of the queue."""
        return self.definition.incarnation

    @property
    def identity(self) -> LogIdentity:
        """Identity of its log."""
        return LogIdentity(self.vhost, self.definition.name, self.incarnation)

    @property
    def is_delay_queue(self) -> bool:
        """Whether it is the hidden queue of a delayed exchange."""
        return self.definition.is_delay_queue


@dataclass(slots=True)
class StoredQueues:
    """The definitions of a data directory.

    Attributes:
        storage_path: The data directory.
        is_live: Whether a server or an embedding program writes to it.
        report: All documents, and those that cannot be read.
        is_earlier_format: Whether the next start upgrades it.
        queues: Queues by virtual host and name.
        malformed: Documents with an invalid value, and the reason.
    """

    storage_path: Path
    is_live: bool
    report: LoadReport
    is_earlier_format: bool = False
    queues: list[StoredQueue] = field(default_factory=list)
    malformed: list[tuple[Document, str]] = field(default_factory=list)

    def find(self, vhost: str, name: str) -> StoredQueue | None:
        """Return a queue by its name, None if there is none; finds no hidden delay queue."""
        for queue in self.queues:
            if (queue.vhost, queue.name) == (vhost, name) and not queue.is_delay_queue:
                return queue
        return None


def load_stored_queues(storage_path: Path) -> StoredQueues:
    """Read the definitions of a data directory.

    Raises:
        MetadataError: The path is no data directory, cannot be read, or has another format.
    """
    data_format = check_data_directory(storage_path)
    is_earlier = data_format.has_unsigned_documents
    known = known_names(storage_path)
    with DryRunFileSystem() as filesystem:
        files = DocumentFiles(filesystem)
        report = load_documents(
            storage_path / "metadata",
            files,
            accepts_unsigned=data_format.has_unsigned_documents,
            believes_names=known.believes_names and not is_earlier,
            expects_names=known.expects_names,
        )
        report.unreadable += missing_access(
            storage_path,
            report,
            filesystem,
            first_user=ServerConfig().default_user,
            is_earlier_format=is_earlier,
        )
    stored = StoredQueues(storage_path, is_live(storage_path), report, is_earlier)
    files_as_they_are = FileSystem()
    deleted = {
        each.name for each in report.documents if each.kind == VHOSTS and is_deletion_note(each)
    }
    policies = _stored_policies(report)
    for document in report.documents:
        if document.vhost in deleted:
            continue
        try:
            check_definition(document)
            if not names_queue(document):
                continue
            definition = with_policy(queue_from(document), policies.get(document.vhost))
        except InvalidDefinitionError as error:
            stored.malformed.append((document, str(error)))
            continue
        directory = log_directory(
            storage_path, document.vhost, definition.name, definition.incarnation
        )
        if has_deleted_mark(files_as_they_are, directory):
            # The queue is being deleted, or the next start completes the deletion.
            continue
        stored.queues.append(StoredQueue(document.vhost, document.name, definition, directory))
    stored.queues.sort(key=lambda queue: (queue.vhost, queue.name))
    return stored


def _stored_policies(report: LoadReport) -> dict[str, VhostPolicies]:
    """Return the policies of each virtual host that has some; with a damaged one, none counts."""
    found: dict[str, VhostPolicies] = {}
    for document in report.documents:
        if document.kind in POLICY_KINDS:
            policies = found.setdefault(document.vhost, VhostPolicies())
            kind = POLICY_KINDS[document.kind]
            try:
                policies.put(kind, (policy_from_document(document),))
            except InvalidDefinitionError as error:
                policies.damage(kind, encode_name(document.name), UnknownPolicy("", str(error)))
    damaged = [each for each in report.unreadable if each.kind in (*POLICY_KINDS, "")]
    for vhost in {document.vhost for document in report.documents} if damaged else ():
        for each in damaged:
            if each.encoded_vhost in ("", encode_name(vhost)):
                kind = POLICY_KINDS.get(each.kind, PolicyKind.USER)
                policies = found.setdefault(vhost, VhostPolicies())
                policies.damage(kind, each.encoded_name, UnknownPolicy(str(each.path), each.reason))
    return found
