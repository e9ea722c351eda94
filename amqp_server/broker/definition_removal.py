"""Removes the definitions of deleted objects from the disk, part by part, in a safe order.

Each deletion is recorded first, then the documents of the bindings go, then those of the objects:
`metadata.removal` says what a crash leaves.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.definitions import BINDINGS, EXCHANGES, QUEUES, deletion_note
from amqp_server.broker.exchange import Exchange
from metadata.errors import MetadataError
from metadata.open_removal import Dependent
from metadata.removal import RemovedEntity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Iterable

    from amqp_server.broker.binding import Binding
    from amqp_server.broker.definitions import Definitions
    from amqp_server.broker.queue import Queue
    from metadata.change import Change
    from metadata.document import Document

AWAITED_AT_ONCE: Final = 256
"""Results of the disk that are looked at without a pause."""


class DefinitionRemoval:
    """The removal of definitions of one virtual host; objects without a definition are skipped.

    Args:
        definitions: Definitions on the disk.
        vhost: Name of the virtual host.
    """

    def __init__(self, definitions: Definitions, vhost: str) -> None:
        self._mark_of = definitions.mark_of
        self._opened = definitions.open_removal(vhost)
        self._has_entities = False
        self._unreleased: set[tuple[str, str]] = set()
        self._unattended: list[Change] = []

    def add_queue(self, queue: Queue, *, is_bound: bool) -> None:
        """Begin to remove a queue."""
        if queue.is_journaled:
            log = queue.store.log
            # If there is a log, its deletion mark makes a note in the document unnecessary.
            note = deletion_note() if is_bound and not log.segments else None
            self.add(RemovedEntity(QUEUES, queue.name, note, [self._mark_of(log)]))

    def add_exchange(
        self, exchange: Exchange, delay_queue: Queue | None, *, is_bound: bool
    ) -> None:
        """Begin to remove an exchange, with its hidden queue if it has one.

        Args:
            exchange: Exchange to remove.
            delay_queue: Its hidden queue, or None.
            is_bound: Whether a binding leads from or to it, or its last one goes now.
        """
        if exchange.durable:
            marks = [] if delay_queue is None else [self._mark_of(delay_queue.store.log)]
            note = deletion_note() if is_bound else None
            self.add(RemovedEntity(EXCHANGES, exchange.name, note, marks))

    def add(self, entity: RemovedEntity) -> None:
        """Begin to remove an object that the start could not recover."""
        self._has_entities = True
        self._unreleased.add((entity.kind, entity.name))
        self._opened.add(entity)

    def remove_bindings(self, bindings: Iterable[Binding]) -> None:
        """Remove the definitions of bindings after the objects that were added are marked."""
        self._remove(
            Dependent(
                BINDINGS,
                binding.identity.document_name,
                (
                    (EXCHANGES, binding.source.name),
                    (
                        EXCHANGES if isinstance(binding.destination, Exchange) else QUEUES,
                        binding.destination.name,
                    ),
                ),
            )
            for binding in bindings
            if binding.is_saved
        )

    def remove_documents(self, documents: Iterable[Document], entity: RemovedEntity) -> None:
        """Remove documents that refer to an object that the start could not recover."""
        ends = ((entity.kind, entity.name),)
        self._remove(Dependent(each.kind, each.name, ends) for each in documents)

    def release(self, kind: str, name: str) -> bool:
        """Remove the document of an object, if it has one: all of its bindings are removed.

        Returns:
            Whether it has one.
        """
        if (kind, name) not in self._unreleased:
            return False
        self._unreleased.discard((kind, name))
        self._opened.release(kind, name)
        return True

    def finish(self) -> Awaitable[None]:
        """Release what is left; the awaitable is done when all of it is durable.

        It may be dropped: its owner may end before it has begun to wait.

        Raises:
            MetadataError: When awaited: the disk refused something.
        """
        unattended = [change.outcome() for change in self._unattended if not change.is_done]
        return _InTurn([*unattended, *self._opened.finish()])

    def _remove(self, dependents: Iterable[Dependent]) -> None:
        changes = self._opened.remove_dependents(dependents)
        if not self._has_entities:
            # Otherwise they are done before the document of an object that they refer to.
            self._unattended += changes


class _InTurn:
    """Awaits all, however many; raises the first error."""

    def __init__(self, outcomes: list[Awaitable[None]]) -> None:
        self._outcomes = outcomes

    def __await__(self) -> Generator[Any, Any, None]:
        return _all_in_turn(self._outcomes).__await__()


async def _all_in_turn(outcomes: list[Awaitable[None]]) -> None:
    """Await all, however many; raise the first error."""
    first: Exception | None = None
    for at, outcome in enumerate(outcomes, 1):
        try:
            await outcome
        except MetadataError as error:
            first = first or error
        if at % AWAITED_AT_ONCE == 0:
            await asyncio.sleep(0)
    if first is not None:
        try:
            raise first
        finally:
            # Otherwise the two refer to each other, and keep what the callers have.
            del first
