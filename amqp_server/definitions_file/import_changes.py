"""The changes of one import while they are made: in memory, and in one batch on the disk.

New objects work at once, but nothing is confirmed before the batch is decided. New virtual hosts
are out of reach of clients until then. If the import fails, everything new is removed again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from amqp_server.broker.binding import Binding
from amqp_server.broker.queue import Queue
from amqp_server.definitions_file.errors import ImportFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from amqp_server.access.permissions import TopicPermissions
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.virtual_host import VirtualHost
    from metadata.batch import Batch
    from metadata.document import Document

    Entity = Queue | Exchange | Binding

FINISHED_AT_ONCE: Final = 64
"""Objects that are noted as saved in one step."""


class ImportChanges:
    """See the module. The event loop owns it.

    Args:
        broker: Broker that gets the objects.
        batch: Open batch for their documents.

    Attributes:
        broker: As given.
        new_vhosts: Virtual hosts that the import creates, by name.
        topics: Topic permissions that the import changes, by virtual host and user.
        on_saved: Called in their order when the batch is decided.
    """

    def __init__(self, broker: Broker, batch: Batch) -> None:
        self.broker = broker
        self.new_vhosts: dict[str, VirtualHost] = {}
        self.topics: dict[tuple[str, str], dict[str, TopicPermissions]] = {}
        self.on_saved: list[Callable[[], None]] = []
        self._batch = batch
        self._entities: list[tuple[VirtualHost, Entity]] = []
        self._saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def vhost(self, name: str) -> VirtualHost:
        """Return a virtual host that exists, or that this import creates.

        Raises:
            ImportFailedError: It has been deleted since the import was checked.
        """
        vhost = self.new_vhosts.get(name) or self.broker.vhosts.get(name)
        if vhost is None:
            raise ImportFailedError(f"vhost '{name}' was deleted during the import: try again")
        return vhost

    def put(self, document: Document) -> None:
        """Add a document to the batch."""
        self._batch.put(document)

    def add(self, vhost: VirtualHost, entity: Entity, document: Document | None) -> None:
        """Note an object that was created in memory.

        Args:
            vhost: Its virtual host.
            entity: The object.
            document: Its document; None if it does not survive a restart.
        """
        self._entities.append((vhost, entity))
        if document is not None:
            self.put(document)
            # A client that declares it again waits for the same result.
            self.broker.definition_writer.join(entity, self._saved)

    def finish(self) -> Iterator[None]:
        """Let everything work, in steps: the batch is decided."""
        self.broker.vhosts.update(self.new_vhosts)
        for call in self.on_saved:
            call()
            yield
        self._saved.set_result(None)
        for at in range(0, len(self._entities), FINISHED_AT_ONCE):
            for vhost, entity in self._entities[at : at + FINISHED_AT_ONCE]:
                self.broker.definition_writer.mark_saved(vhost, entity)
            yield

    def undo(self, error: Exception) -> Iterator[None]:
        """Remove everything that is new, in steps: the import has failed."""
        writer = self.broker.definition_writer
        self._saved.set_exception(error)
        self._saved.exception()
        for vhost, entity in reversed(self._entities):
            if vhost.name not in self.new_vhosts:
                writer.remove_unsaved(vhost, entity)
            writer.leave(entity)
            yield
        for vhost in self.new_vhosts.values():
            vhost.is_deleted = True
            queues: list[Queue] = []
            yield from self.broker.empty_vhost(vhost, queues)
            for queue in queues:
                queue.store.fail()
                self.broker.discard(queue)
                yield
