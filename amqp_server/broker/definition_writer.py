"""Saves definitions of new objects at once, and reports when they would survive a crash."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.broker.binding import Binding
from amqp_server.broker.queue import Queue
from amqp_server.broker.transfers.delay_queue import end_delay_queues
from amqp_server.broker.virtual_host import vhost_of
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from amqp_server.broker.definitions import Definitions
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.virtual_host import VirtualHost

SAVES_AWAITED: Final = 256
"""Saves that one call awaits at a time: each is an object more."""


class DefinitionWriter:
    """Saves what clients declare; removes from the broker what the disk refuses.

    Args:
        definitions: Definitions on the disk.
        remove_unsaved: Removes a queue or exchange of a virtual host from memory.
        discard: Frees what a removed queue has on the disk.
    """

    def __init__(
        self,
        definitions: Definitions,
        remove_unsaved: Callable[[Queue | Exchange, VirtualHost], None],
        discard: Callable[[Queue], None],
    ) -> None:
        self._definitions = definitions
        self._remove_from_memory = remove_unsaved
        self._discard = discard
        self._under_way: dict[Queue | Exchange | Binding, asyncio.Future[None]] = {}

    def is_under_way(self, entity: Exchange | Binding) -> bool:
        """Return whether an object is still being saved; a reply to its declare must wait."""
        return entity in self._under_way

    async def until_done(self) -> None:
        """Return when every save that is under way now has ended or failed."""
        saves = list(self._under_way.values())
        for at in range(0, len(saves), SAVES_AWAITED):
            await asyncio.wait(saves[at : at + SAVES_AWAITED])

    def save_queue(self, queue: Queue) -> Awaitable[None]:
        """Make the definition of a journaled queue durable, then start the queue's journal.

        Until then no message of the queue is confirmed: a message must not be safer than its queue.
        """
        return self._save_once(
            queue,
            partial(self._definitions.save_queue, queue),
            partial(self._finish_queue, queue),
        )

    def save_exchange(self, vhost: VirtualHost, exchange: Exchange) -> Awaitable[None]:
        """Make an exchange durable; it is removed if that fails."""
        delay_queue = vhost.delay_queues.get(exchange)
        return self._save_once(
            exchange,
            partial(self._definitions.save_exchange, vhost.name, exchange, delay_queue),
            partial(self._finish_exchange, vhost, exchange),
        )

    def save_binding(self, vhost: VirtualHost, binding: Binding) -> Awaitable[None]:
        """Make a binding durable; it is removed if that fails."""
        return self._save_once(
            binding,
            partial(self._definitions.save_binding, vhost.name, binding),
            partial(self._finish_binding, vhost, binding),
        )

    def join(self, entity: Queue | Exchange | Binding, saving: asyncio.Future[None]) -> None:
        """Note that an object is being saved with many others; `leave` ends it."""
        self._under_way[entity] = saving

    def leave(self, entity: Queue | Exchange | Binding) -> None:
        """Note that the save with many others has ended."""
        self._under_way.pop(entity, None)

    def mark_saved(self, vhost: VirtualHost, entity: Queue | Exchange | Binding) -> None:
        """Let an object work that was saved with many others."""
        self.leave(entity)
        if isinstance(entity, Binding):
            vhost.end_damaged_binding(encode_name(entity.identity.document_name))
            return
        queue = entity if isinstance(entity, Queue) else vhost.delay_queues.get(entity)
        if queue is not None and not queue.is_deleted:
            queue.store.awaits_definition = False
            queue.wake()

    def remove_unsaved(self, vhost: VirtualHost, entity: Queue | Exchange | Binding) -> None:
        """Remove an object that could not be saved, unless a client has removed it already."""
        if isinstance(entity, Binding):
            self._remove_unsaved_binding(vhost, entity)
        elif isinstance(entity, Queue):
            self._remove_unsaved_queue(entity)
        else:
            self._remove_unsaved_exchange(vhost, entity)

    def _save_once(
        self,
        entity: Queue | Exchange | Binding,
        submit: Callable[[], Awaitable[None]],
        finish: Callable[[Awaitable[None]], Coroutine[None, None, None]],
    ) -> Awaitable[None]:
        """Start to save an object, or join a save that is under way: all callers see its result.

        The save is submitted before this returns. If another client changes the object in the same
        turn of the loop, such as by deleting it, this change must follow the save on the disk.
        """
        saving = self._under_way.get(entity)
        if saving is None:
            saving = self._under_way[entity] = asyncio.ensure_future(finish(submit()))
            saving.add_done_callback(lambda _: self._under_way.pop(entity))
        return saving

    async def _finish_queue(self, queue: Queue, written: Awaitable[None]) -> None:
        try:
            await written
        except BaseException:
            self._remove_unsaved_queue(queue)
            raise
        queue.store.awaits_definition = False
        queue.wake()

    async def _finish_exchange(
        self, vhost: VirtualHost, exchange: Exchange, written: Awaitable[None]
    ) -> None:
        try:
            await written
        except BaseException:
            self._remove_unsaved_exchange(vhost, exchange)
            raise
        delay_queue = vhost.delay_queues.get(exchange)
        if delay_queue is not None:
            delay_queue.store.awaits_definition = False
            delay_queue.wake()

    async def _finish_binding(
        self, vhost: VirtualHost, binding: Binding, written: Awaitable[None]
    ) -> None:
        try:
            await written
        except BaseException:
            self._remove_unsaved_binding(vhost, binding)
            raise
        vhost.end_damaged_binding(encode_name(binding.identity.document_name))

    def _remove_unsaved_binding(self, vhost: VirtualHost, binding: Binding) -> None:
        # Keep a binding that was created again since.
        if binding.source.bindings.get(binding.identity) is binding:
            vhost.unbind(
                binding.source, binding.destination, binding.routing_key, binding.arguments
            )

    def _remove_unsaved_queue(self, queue: Queue) -> None:
        """Remove a queue that could not be saved, so that no client relies on it."""
        if queue.is_deleted:
            return
        self._remove_from_memory(queue, vhost_of(queue))
        queue.store.fail()
        self._discard(queue)

    def _remove_unsaved_exchange(self, vhost: VirtualHost, exchange: Exchange) -> None:
        if vhost.exchanges.get(exchange.name) is not exchange:
            return
        self._remove_from_memory(exchange, vhost)
        for queue in end_delay_queues(vhost, [exchange]):
            queue.store.fail()
            self._discard(queue)
