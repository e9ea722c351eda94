"""Definitions on disk: exchanges, queues and bindings as metadata documents, and back."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from amqp_server.broker.binding import BindingIdentity
from amqp_server.broker.definition_values import (
    InvalidDefinitionError,
    arguments_of,
    check_queue_values,
    incarnation_of,
    invalid_definitions,
    value_of,
)
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.handlers.arguments import check_alternate
from amqp_server.broker.queue_settings import QueueSettings, queue_settings
from amqp_server.broker.routing.matchers import MATCHERS
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.transfers.delay_queue import DELAY_QUEUE_NAME, DelayAttributes
from amqp_server.protocol.table_json import table_to_json
from amqp_server.protocol.tables import encode_table
from metadata.document import Document
from metadata.removal import Removal, RemovedEntity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
    from uuid import UUID

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table
    from appendlog import Log
    from metadata.change import DeletionMark
    from metadata.store import MetadataStore

VHOSTS, EXCHANGES, QUEUES, BINDINGS = "vhosts", "exchanges", "queues", "bindings"
DEFAULT_VHOST = "/"
"""What every data directory begins with."""
_DELETED = "deleted"
_NOTE = {_DELETED: True}
_DELAY_QUEUE = "delay_queue"
_NUMBER = "number"
_OTHER_BINDING = "the binding is another one than the name of its document says"
_BINDING_NAME = re.compile("[0-9a-f]{32}")
"""What `BindingIdentity.document_name` gives."""
_NO_DELAY_QUEUES: Mapping[Exchange, Queue] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """What is known of a queue on the disk beside its log.

    Attributes:
        name: Its name; that of hidden queues is no name of any queue.
        incarnation: Tells it from others of the same name.
        auto_delete: Whether it goes with its last consumer.
        arguments: The arguments it was declared with.
        is_delay_queue: Whether it is the hidden queue of a delayed exchange.
    """

    name: str
    incarnation: UUID
    auto_delete: bool
    arguments: Table
    is_delay_queue: bool = False

    @property
    def settings(self) -> QueueSettings:
        """What the arguments ask for."""
        return queue_settings(self.arguments)

    def attributes(self, start: int) -> MessageAttributes:
        """Return what keeps the attributes of its messages from the offset `start` on."""
        return (
            DelayAttributes(start)
            if self.is_delay_queue
            else MessageAttributes(self.settings, start)
        )


class Definitions:
    """Saves and removes definitions.

    Each call begins at once, so that changes of one entity happen in the order of the calls;
    what it returns, awaited, is done when the disk has it.
    """

    def __init__(self, store: MetadataStore, mark_of: Callable[[Log], DeletionMark]) -> None:
        """Write through `store`, and mark logs as deleted with what `mark_of` returns."""
        self._store = store
        self._mark_of = mark_of

    def save_vhost(self, name: str) -> Coroutine[None, None, None]:
        """Save a virtual host."""
        return self._store.put(Document(VHOSTS, "", name, {}))

    def remove_vhost(self, name: str) -> Coroutine[None, None, None]:
        """Say that a virtual host is deleted: so is whatever it still has, from now on."""
        return self._store.put(Document(VHOSTS, "", name, dict(_NOTE)))

    async def forget_vhost(self, name: str) -> None:
        """Remove the document of a deleted virtual host of which nothing is left.

        That of `/` stays, or the next start would take itself for the first one.
        """
        if name != DEFAULT_VHOST:
            await self._store.delete(VHOSTS, "", name)

    def clear_vhost(self, encoded_name: str) -> Coroutine[None, None, None]:
        """Remove all definitions of a virtual host that was removed."""
        return self._store.clear_vhost(encoded_name)

    def save_exchange(
        self, vhost: str, exchange: Exchange, delay_queue: Queue | None = None
    ) -> Coroutine[None, None, None]:
        """Save an exchange, and the incarnation of its hidden queue if it has one."""
        body: dict[str, Any] = {
            "type": exchange.type,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": table_to_json(exchange.arguments),
        }
        if delay_queue is not None:
            body[_DELAY_QUEUE] = {"incarnation": str(delay_queue.incarnation)}
        return self._store.put(Document(EXCHANGES, vhost, exchange.name, body))

    def save_queue(self, queue: Queue) -> Coroutine[None, None, None]:
        """Save a queue and its incarnation."""
        body = {
            "incarnation": str(queue.incarnation),
            "auto_delete": queue.auto_delete,
            "arguments": table_to_json(queue.arguments),
        }
        return self._store.put(Document(QUEUES, queue.virtual_host.name, queue.name, body))

    def save_binding(self, vhost: str, binding: Binding) -> Coroutine[None, None, None]:
        """Save a binding."""
        identity = binding.identity
        body = {
            "source": identity.source,
            "destination_kind": identity.kind,
            "destination": identity.destination,
            "routing_key": identity.routing_key,
            "arguments": table_to_json(binding.arguments),
            _NUMBER: binding.number,
        }
        kind = QUEUES if identity.kind == "queue" else EXCHANGES
        # A binding without one of its ends would look as if that had been lost.
        ends = ((EXCHANGES, identity.source), (kind, identity.destination))
        return self._store.put(Document(BINDINGS, vhost, identity.document_name, body), after=ends)

    def remove(
        self,
        vhost: str,
        *,
        queues: Iterable[Queue] = (),
        exchanges: Iterable[Exchange] = (),
        bindings: Iterable[Binding] = (),
        delay_queues: Mapping[Exchange, Queue] = _NO_DELAY_QUEUES,
        damaged: Iterable[RemovedEntity | Document] = (),
    ) -> Awaitable[None]:
        """Remove what was saved of these; what never was is passed over.

        Args:
            vhost: Where they were.
            queues: Queues that are gone.
            exchanges: Exchanges that are gone.
            bindings: Bindings that are gone, with them or alone.
            delay_queues: The hidden queues of these exchanges, and maybe of others.
            damaged: What start-up could not bring back, and the documents that speak of it.
        """
        saved = [binding for binding in bindings if binding.is_durable]
        bound = {binding.source for binding in saved} | {binding.destination for binding in saved}
        entities = [
            self._removed_queue(queue, is_bound=queue in bound)
            for queue in queues
            if queue.is_journaled
        ]
        entities += [
            self._removed_exchange(exchange, delay_queues.get(exchange), is_bound=exchange in bound)
            for exchange in exchanges
            if exchange.durable
        ]
        dependents = [(BINDINGS, binding.identity.document_name) for binding in saved]
        for each in damaged:
            if isinstance(each, RemovedEntity):
                entities.append(each)
            else:
                dependents.append((each.kind, each.name))
        return all_done(self._store.remove(Removal(vhost, entities, dependents)))

    def _removed_queue(self, queue: Queue, *, is_bound: bool) -> RemovedEntity:
        log = queue.store.log
        # Where there is a log, its mark tells what a note would tell.
        note = dict(_NOTE) if is_bound and not log.segments else None
        return RemovedEntity(QUEUES, queue.name, note, [self._mark_of(log)])

    def _removed_exchange(
        self, exchange: Exchange, delay_queue: Queue | None, *, is_bound: bool
    ) -> RemovedEntity:
        marks = [] if delay_queue is None else [self._mark_of(delay_queue.store.log)]
        return RemovedEntity(EXCHANGES, exchange.name, dict(_NOTE) if is_bound else None, marks)

    def damaged_queue(self, name: str, mark: DeletionMark) -> RemovedEntity:
        """Return what `remove` takes for a queue that start-up could not bring back."""
        return RemovedEntity(QUEUES, name, dict(_NOTE), [mark])

    def damaged_exchange(self, name: str) -> RemovedEntity:
        """Return what `remove` takes for an exchange that start-up could not bring back."""
        return RemovedEntity(EXCHANGES, name, dict(_NOTE))

    def pending_queue(self, vhost: str, name: str) -> Awaitable[None] | None:
        """Return what to await before a queue that is not there is gone from the disk as well.

        None when it is: somebody else's deletion of it may still be under way.
        """
        return self._store.pending(QUEUES, vhost, name)

    def pending_exchange(self, vhost: str, name: str) -> Awaitable[None] | None:
        """Return the same as `pending_queue` for an exchange."""
        return self._store.pending(EXCHANGES, vhost, name)

    def pending_binding(self, vhost: str, identity: BindingIdentity) -> Awaitable[None] | None:
        """Return the same as `pending_queue` for a binding."""
        return self._store.pending(BINDINGS, vhost, identity.document_name)

    def remove_document(self, document: Document) -> Coroutine[None, None, None]:
        """Remove what was saved of an entity that does not exist."""
        return self._store.delete(document.kind, document.vhost, document.name)

    def remove_binding(self, vhost: str, document_name: str) -> Coroutine[None, None, None]:
        """Remove the definition of a binding, whatever is in it.

        Args:
            vhost: Its virtual host.
            document_name: `BindingIdentity.document_name`.
        """
        return self._store.delete(BINDINGS, vhost, document_name)


async def all_done(changes: Sequence[Awaitable[None]]) -> None:
    """Return when all changes, begun already, are done; raises what the first one does."""
    await asyncio.gather(*changes)


def is_deletion_note(document: Document) -> bool:
    """Return whether a document only says that its virtual host, exchange or queue was deleted."""
    return document.body.get(_DELETED) is True


def stored_incarnation(document: Document) -> UUID | None:
    """Return which life of a queue a document tells of: its own, or an exchange's hidden one.

    None when it tells of none, or not of one that can be.
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
        InvalidDefinitionError: The document holds a value that no exchange can have.
    """
    body = document.body
    kind = value_of(body, "type", str)
    if kind not in MATCHERS:
        raise InvalidDefinitionError(f"'type' is {kind!r}, which is no exchange type")
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
    """Return whether an exchange that was rebuilt from its document has a hidden queue."""
    exchanges = vhosts[document.vhost].exchanges
    return document.name in exchanges and _DELAY_QUEUE in document.body


def names_queue(document: Document) -> bool:
    """Return whether a document tells of a queue: its own, or the hidden one of an exchange."""
    is_exchange = document.kind == EXCHANGES and _DELAY_QUEUE in document.body
    return (document.kind == QUEUES or is_exchange) and not is_deletion_note(document)


def queue_from(document: Document) -> QueueDefinition:
    """Return what a document says of a queue: its own, or that of a delayed exchange.

    Raises:
        InvalidDefinitionError: The document holds a value that no queue can have.
    """
    body = document.body
    if document.kind == EXCHANGES:
        incarnation = incarnation_of(value_of(body, _DELAY_QUEUE, dict))
        return QueueDefinition(DELAY_QUEUE_NAME, incarnation, False, {}, is_delay_queue=True)
    auto_delete = value_of(body, "auto_delete", bool)
    arguments = arguments_of(body)
    check_queue_values(document.vhost, document.name, arguments, auto_delete=auto_delete)
    return QueueDefinition(document.name, incarnation_of(body), auto_delete, arguments)


def bind_from(document: Document, vhost: VirtualHost) -> bool:
    """Rebuild a binding; return whether both of its ends exist.

    A damaged queue or exchange is one to lead to: what comes this way is refused, not dropped.

    Raises:
        InvalidDefinitionError: The document holds a value that the binding cannot have.
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
    """Return which binding a body describes.

    Raises:
        InvalidDefinitionError: The body holds a value that no binding can have.
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
    """Return kind and name of what a binding leads from and to; empty if it holds a wrong value."""
    try:
        identity = identity_from(document.body)
    except InvalidDefinitionError:
        return ()
    kind = QUEUES if identity.kind == "queue" else EXCHANGES
    return (EXCHANGES, identity.source), (kind, identity.destination)


def is_binding_name(name: str) -> bool:
    """Return whether the document of a binding may have this name."""
    return _BINDING_NAME.fullmatch(name) is not None


def check_definition(document: Document) -> None:
    """Check the values of a document, as far as it can be done without all others.

    Raises:
        InvalidDefinitionError: It holds a value that its kind cannot have.
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
    elif document.kind == BINDINGS and identity_from(body).document_name != document.name:
        raise InvalidDefinitionError(_OTHER_BINDING)


def in_binding_order(documents: Iterable[Document]) -> list[Document]:
    """Return the documents of bindings so that those of each exchange are as they were made.

    Those without a number, as they were written once, come first, in the order of their names:
    one and the same order at every start.
    """

    def place(document: Document) -> tuple[int, str]:
        number = _binding_number(document)
        return -1 if number is None else number, document.name

    return sorted(documents, key=place)


def _binding_number(document: Document) -> int | None:
    number = document.body.get(_NUMBER)
    return number if type(number) is int and number >= 0 else None
