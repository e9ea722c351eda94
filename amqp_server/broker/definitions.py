"""Definitions on the disk: exchanges, queues and bindings as metadata documents, and back."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from amqp_server.broker.binding import BindingIdentity
from amqp_server.broker.declaring.exchange_arguments import check_alternate
from amqp_server.broker.declaring.queue_arguments import queue_type
from amqp_server.broker.definition_values import (
    InvalidDefinitionError,
    arguments_of,
    check_queue_values,
    incarnation_of,
    invalid_definitions,
    value_of,
)
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.policies.documents import (
    DOCUMENT_KINDS,
    POLICY_KINDS,
    policy_document,
    policy_from_document,
)
from amqp_server.broker.policies.effective_policy import NO_POLICY
from amqp_server.broker.policies.unknown_policy import settings_with_policy, storage_with_policy
from amqp_server.broker.queue_settings import QueueSettings, queue_settings
from amqp_server.broker.routing.matchers import MATCHERS
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.transfers.delay_queue import DELAY_QUEUE_NAME, DelayAttributes
from amqp_server.protocol.table_json import table_to_json
from amqp_server.protocol.tables import encode_table
from metadata.document import Document
from metadata.removal import RemovedEntity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.policies.effective_policy import EffectivePolicy
    from amqp_server.broker.policies.policy import Policy, PolicyKind
    from amqp_server.broker.policies.vhost_policies import VhostPolicies
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table
    from appendlog import Log
    from metadata.batch import Batch
    from metadata.change import DeletionMark
    from metadata.open_removal import OpenRemoval
    from metadata.store import MetadataStore

VHOSTS, EXCHANGES, QUEUES, BINDINGS = "vhosts", "exchanges", "queues", "bindings"
DEFAULT_VHOST = "/"
"""Virtual host that every new data directory has."""
_DELETED = "deleted"
_DELAY_QUEUE = "delay_queue"
_NUMBER = "number"
_PAUSED = "paused"
_OTHER_BINDING = "the document's name does not match the binding in it"
_BINDING_NAME = re.compile("[0-9a-f]{32}")
"""Form of `BindingIdentity.document_name`."""


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """Definition of a queue on the disk.

    Attributes:
        name: Name of the queue; hidden queues share one that no other queue has.
        incarnation: Identifier that differs from those of other queues with the same name.
        auto_delete: Whether the broker deletes the queue with its last consumer.
        arguments: Arguments that the queue was declared with.
        is_delay_queue: Whether it is the hidden queue of a delayed exchange.
        policy: What the policies of its virtual host give to it.
        is_paused: Whether an operator has paused it.
    """

    name: str
    incarnation: UUID
    auto_delete: bool
    arguments: Table
    is_delay_queue: bool = False
    policy: EffectivePolicy = NO_POLICY
    is_paused: bool = False

    @property
    def settings(self) -> QueueSettings:
        """Settings that arguments and policy ask for."""
        return settings_with_policy(self.arguments, queue_type(self.arguments), self.policy)

    def storage_settings(self, storage: QueueStorage) -> StorageSettings:
        """Return how the queue is kept on the disk, by arguments and policy."""
        kind = queue_type(self.arguments)
        return storage_with_policy(storage, self.arguments, kind, self.policy)

    @property
    def own_settings(self) -> QueueSettings:
        """Settings that the arguments alone ask for."""
        return queue_settings(self.arguments)

    def attributes(self, start: int) -> MessageAttributes:
        """Return empty attributes for the queue's messages from the offset `start` on."""
        return (
            DelayAttributes(start)
            if self.is_delay_queue
            else MessageAttributes(self.settings, start)
        )


class Definitions:
    """Saves and removes definitions.

    Each call starts its change at once, so that changes of one object happen in the order of the
    calls. The returned awaitable is done when the change is on the disk.
    """

    def __init__(self, store: MetadataStore, mark_of: Callable[[Log], DeletionMark]) -> None:
        """Write to `store`; `mark_of` returns the deletion mark of a log."""
        self._store = store
        self.mark_of = mark_of

    def save_vhost(self, name: str) -> Awaitable[None]:
        """Save a virtual host."""
        return self._store.put(vhost_document(name))

    def remove_vhost(self, name: str) -> Awaitable[None]:
        """Mark a virtual host as deleted, together with everything that it still has."""
        return self._store.put(deleted_vhost_document(name))

    async def forget_vhost(self, name: str) -> None:
        """Remove the document of a deleted virtual host once nothing else is left of it.

        The document of `/` stays: without it the next start would take the directory for a new one.
        """
        if name != DEFAULT_VHOST:
            await self._store.discard(VHOSTS, "", name)

    def clear_vhost(self, encoded_name: str) -> Awaitable[None]:
        """Remove all definitions of a deleted virtual host."""
        return self._store.clear_vhost(encoded_name)

    def save_exchange(
        self, vhost: str, exchange: Exchange, delay_queue: Queue | None = None
    ) -> Awaitable[None]:
        """Save an exchange, and the incarnation of its hidden queue if it has one."""
        return self._store.put(exchange_document(vhost, exchange, delay_queue))

    def save_queue(self, queue: Queue) -> Awaitable[None]:
        """Save a queue and its incarnation."""
        return self._store.put(queue_document(queue))

    def save_binding(self, vhost: str, binding: Binding) -> Awaitable[None]:
        """Save a binding."""
        identity = binding.identity
        kind = QUEUES if identity.kind == "queue" else EXCHANGES
        # On the disk, a binding without one of its ends would look as if that had been lost.
        ends = ((EXCHANGES, identity.source), (kind, identity.destination))
        return self._store.put(binding_document(vhost, binding), after=ends)

    def open_batch(self) -> Batch:
        """Begin a batch of documents of which a crash leaves all or none."""
        return self._store.open_batch()

    def open_removal(self, vhost: str) -> OpenRemoval:
        """Return a removal of definitions, for `DefinitionRemoval`."""
        return self._store.open_removal(vhost)

    def damaged_queue(self, name: str, mark: DeletionMark) -> RemovedEntity:
        """Return a queue that the start could not recover, for `DefinitionRemoval.add`."""
        return RemovedEntity(QUEUES, name, deletion_note(), [mark])

    def damaged_exchange(self, name: str) -> RemovedEntity:
        """Return an exchange that the start could not recover, for `DefinitionRemoval.add`."""
        return RemovedEntity(EXCHANGES, name, deletion_note())

    def make_removed(self, kind: str, vhost: str, name: str) -> Awaitable[None] | None:
        """Return an awaitable that is done when a missing object is removed from the disk too.

        None if it is already. Another client's deletion may still be under way; one that the disk
        has refused is submitted again.

        Args:
            kind: Kind of its definition.
            vhost: Name of the virtual host.
            name: Name of its definition.

        Raises:
            MetadataError: When awaited: the disk refused it.
        """
        return self._store.make_removed(kind, vhost, name)

    def make_queue_removed(self, vhost: str, name: str) -> Awaitable[None] | None:
        """Return the same as `make_removed` for a queue."""
        return self.make_removed(QUEUES, vhost, name)

    def make_exchange_removed(self, vhost: str, name: str) -> Awaitable[None] | None:
        """Return the same as `make_removed` for an exchange."""
        return self.make_removed(EXCHANGES, vhost, name)

    def make_binding_removed(self, vhost: str, identity: BindingIdentity) -> Awaitable[None] | None:
        """Return the same as `make_removed` for a binding."""
        return self.make_removed(BINDINGS, vhost, identity.document_name)

    def record_deletion(self, document: Document) -> Awaitable[None]:
        """Replace the document of an exchange or queue by a note that it is deleted."""
        return self._store.put(
            Document(document.kind, document.vhost, document.name, deletion_note())
        )

    def save_policy(self, vhost: str, policy: Policy, kind: PolicyKind) -> Awaitable[None]:
        """Save a policy of a virtual host."""
        return self._store.put(policy_document(vhost, policy, kind))

    def remove_policy(self, vhost: str, name: str, kind: PolicyKind) -> Awaitable[None]:
        """Remove a policy of a virtual host."""
        return self._store.delete(DOCUMENT_KINDS[kind], vhost, name)

    def remove_document(self, document: Document) -> Awaitable[None]:
        """Remove the document of an object that does not exist."""
        return self._store.delete(document.kind, document.vhost, document.name)

    def remove_binding(self, vhost: str, document_name: str) -> Awaitable[None]:
        """Remove the document of a binding, whatever it holds.

        Args:
            vhost: Virtual host of the binding.
            document_name: `BindingIdentity.document_name`.
        """
        return self._store.delete(BINDINGS, vhost, document_name)


def vhost_document(name: str) -> Document:
    """Return the document of a virtual host."""
    return Document(VHOSTS, "", name, {})


def deleted_vhost_document(name: str) -> Document:
    """Return the document of a virtual host that is deleted."""
    return Document(VHOSTS, "", name, deletion_note())


def exchange_document(vhost: str, exchange: Exchange, delay_queue: Queue | None = None) -> Document:
    """Return the document of an exchange, with the incarnation of its hidden queue."""
    body: dict[str, Any] = {
        "type": exchange.type,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
    }
    if delay_queue is not None:
        body[_DELAY_QUEUE] = {"incarnation": str(delay_queue.incarnation)}
    return Document(EXCHANGES, vhost, exchange.name, body)


def queue_document(queue: Queue) -> Document:
    """Return the document of a queue, with its incarnation."""
    body: dict[str, Any] = {
        "incarnation": str(queue.incarnation),
        "auto_delete": queue.auto_delete,
        "arguments": table_to_json(queue.arguments),
    }
    if queue.is_paused:
        body[_PAUSED] = True
    return Document(QUEUES, queue.virtual_host.name, queue.name, body)


def binding_document(vhost: str, binding: Binding) -> Document:
    """Return the document of a binding."""
    identity = binding.identity
    body = {
        "source": identity.source,
        "destination_kind": identity.kind,
        "destination": identity.destination,
        "routing_key": identity.routing_key,
        "arguments": table_to_json(binding.arguments),
        _NUMBER: binding.number,
    }
    return Document(BINDINGS, vhost, identity.document_name, body)


def deletion_note() -> dict[str, Any]:
    """Return the body of a document that only says that its object was deleted."""
    return {_DELETED: True}


async def all_done(changes: Sequence[Awaitable[None]]) -> None:
    """Return when all changes, started before, are done; raises the first error."""
    await asyncio.gather(*changes)


def is_deletion_note(document: Document) -> bool:
    """Return whether a document only says that its object was deleted."""
    return document.body.get(_DELETED) is True


def stored_incarnation(document: Document) -> str | None:
    """Return the incarnation in a document: of a queue, or of an exchange's hidden queue.

    It is the text of a UUID, the name of the log's directory. None if there is none, or not a valid
    one.
    """
    body = document.body
    try:
        return incarnation_of(
            value_of(body, _DELAY_QUEUE, dict) if document.kind == EXCHANGES else body
        )
    except InvalidDefinitionError:
        return None


def exchange_from(document: Document) -> Exchange:
    """Rebuild an exchange from its document.

    Raises:
        InvalidDefinitionError: The document holds a value that is not valid for an exchange.
    """
    body = document.body
    kind = value_of(body, "type", str)
    if kind not in MATCHERS:
        raise InvalidDefinitionError(f"'type' is {kind!r}, expected an exchange type")
    arguments = arguments_of(body)
    with invalid_definitions():
        check_alternate(document.name, document.vhost, arguments)
        return Exchange(
            document.name,
            kind,
            durable=True,
            auto_delete=value_of(body, "auto_delete", bool),
            internal=value_of(body, "internal", bool),
            arguments=arguments,
        )


def has_delay_queue(document: Document, vhosts: Mapping[str, VirtualHost]) -> bool:
    """Return whether a rebuilt exchange has a hidden queue in its document."""
    exchanges = vhosts[document.vhost].exchanges
    return document.name in exchanges and _DELAY_QUEUE in document.body


def names_queue(document: Document) -> bool:
    """Return whether a document describes a queue, or the hidden queue of an exchange."""
    is_exchange = document.kind == EXCHANGES and _DELAY_QUEUE in document.body
    return (document.kind == QUEUES or is_exchange) and not is_deletion_note(document)


def queue_from(document: Document) -> QueueDefinition:
    """Return the queue in a document: its own, or the hidden queue of an exchange.

    Raises:
        InvalidDefinitionError: The document holds a value that is not valid for a queue.
    """
    body = document.body
    if document.kind == EXCHANGES:
        incarnation = UUID(incarnation_of(value_of(body, _DELAY_QUEUE, dict)))
        return QueueDefinition(DELAY_QUEUE_NAME, incarnation, False, {}, is_delay_queue=True)
    auto_delete = value_of(body, "auto_delete", bool)
    arguments = arguments_of(body)
    check_queue_values(document.vhost, document.name, arguments, auto_delete=auto_delete)
    is_paused = _PAUSED in body and value_of(body, _PAUSED, bool)
    return QueueDefinition(
        document.name, UUID(incarnation_of(body)), auto_delete, arguments, is_paused=is_paused
    )


def with_policy(definition: QueueDefinition, policies: VhostPolicies | None) -> QueueDefinition:
    """Return a definition with what the policies of its virtual host give to the queue."""
    if policies is None or definition.is_delay_queue:
        return definition
    policy = policies.for_queue(definition.name, queue_type(definition.arguments))
    if policy is definition.policy:
        return definition
    return replace(definition, policy=policy)


def bind_from(document: Document, vhost: VirtualHost) -> bool:
    """Rebuild a binding; return whether both of its ends exist.

    A damaged queue or exchange counts as an end: its placeholder refuses messages instead of
    dropping them.

    Raises:
        InvalidDefinitionError: The document holds a value that is not valid for a binding.
    """
    identity = identity_from(document.body)
    if identity.document_name != document.name:
        raise InvalidDefinitionError(_OTHER_BINDING)
    name = identity.destination
    source = vhost.exchanges.get(identity.source)
    is_to_queue = identity.kind == "queue"
    destination: Destination | None = (vhost.queues if is_to_queue else vhost.exchanges).get(name)
    if destination is None and not is_to_queue:
        destination = vhost.damaged.refusing_exchange(name)
    elif destination is None and vhost.damaged.may_be_queue(name):
        destination = vhost.damaged.placeholder(name)
    if source is None or destination is None:
        return False
    arguments = arguments_of(document.body)
    with invalid_definitions():
        source.matcher.check_binding(identity.routing_key, arguments)
    number = _binding_number(document)
    vhost.bind(source, destination, identity.routing_key, arguments, number)
    return True


def identity_from(body: Mapping[str, Any]) -> BindingIdentity:
    """Return the binding identity in a document's body.

    Raises:
        InvalidDefinitionError: The body holds a value that is not valid for a binding.
    """
    kind = value_of(body, "destination_kind", str)
    if kind not in ("queue", "exchange"):
        raise InvalidDefinitionError(f"'destination_kind' is {kind!r}, expected queue or exchange")
    return BindingIdentity(
        value_of(body, "source", str),
        kind,
        value_of(body, "destination", str),
        value_of(body, "routing_key", str),
        encode_table(arguments_of(body)),
    )


def binding_ends(document: Document) -> tuple[tuple[str, str], ...]:
    """Return kind and name of a binding's source and destination; empty if a value is invalid."""
    try:
        identity = identity_from(document.body)
    except InvalidDefinitionError:
        return ()
    kind = QUEUES if identity.kind == "queue" else EXCHANGES
    return (EXCHANGES, identity.source), (kind, identity.destination)


def is_binding_name(name: str) -> bool:
    """Return whether a binding's document may have this name."""
    return _BINDING_NAME.fullmatch(name) is not None


def check_definition(document: Document) -> None:
    """Check the values of a document that can be checked without other documents.

    Raises:
        InvalidDefinitionError: The document holds a value that is not valid there.
    """
    body = document.body
    if document.kind == VHOSTS and _DELETED in body:
        value_of(body, _DELETED, bool)
    elif is_deletion_note(document) and document.kind in (EXCHANGES, QUEUES):
        return
    elif document.kind == EXCHANGES:
        exchange_from(document)
        if _DELAY_QUEUE in body:
            queue_from(document)
    elif document.kind == QUEUES:
        queue_from(document)
    elif document.kind in POLICY_KINDS:
        policy_from_document(document)
    elif document.kind == BINDINGS and identity_from(body).document_name != document.name:
        raise InvalidDefinitionError(_OTHER_BINDING)


def in_binding_order(documents: Iterable[Document]) -> list[Document]:
    """Sort the documents of bindings by number, so that each exchange has its original order.

    Documents without a number, which older versions wrote, come first, by name: in the same
    order at every start.
    """

    def place(document: Document) -> tuple[int, str]:
        number = _binding_number(document)
        return -1 if number is None else number, document.name

    return sorted(documents, key=place)


def _binding_number(document: Document) -> int | None:
    number = document.body.get(_NUMBER)
    return number if type(number) is int and number >= 0 else None
