"""Definitions on their way to the disk: begun at once, answered when they would survive a crash."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.broker.transfers.delay_queue import end_delay_queues
from metadata.errors import MetadataError
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from amqp_server.broker.binding import Binding
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost


class DefinitionWriter:
    """Saves what clients declare; what the disk refuses is gone from the broker as well.

    Args:
        broker: Whose definitions.
        spawn: Runs a coroutine in the background, owned and awaited at shutdown.
    """

    def __init__(
        self, broker: Broker, spawn: Callable[[Coroutine[None, None, None]], None]
    ) -> None:
        self._broker = broker
        self._spawn = spawn
        self._under_way: dict[Queue | Exchange | Binding, asyncio.Task[None]] = {}

    def is_under_way(self, entity: Exchange | Binding) -> bool:
        """Return whether an entity is on its way to the disk: no answer may be sooner."""
        return entity in self._under_way

    async def until_done(self) -> None:
        """Return when all that is on its way to the disk now is there, or has failed."""
        if self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    def save_queue(self, queue: Queue) -> Awaitable[None]:
        """Make a journaled queue durable, then let its journal begin.

        Until then nothing of it is confirmed: a message must not be safer than its queue.
        """
        return self._save_once(
            queue,
            partial(self._broker.definitions.save_queue, queue),
            partial(self._finish_queue, queue),
        )

    def save_exchange(self, vhost: VirtualHost, exchange: Exchange) -> Awaitable[None]:
        """Make an exchange durable; one that cannot be is gone."""
        delay_queue = vhost.delay_queues.get(exchange)
        return self._save_once(
            exchange,
            partial(self._broker.definitions.save_exchange, vhost.name, exchange, delay_queue),
            partial(self._finish_exchange, vhost, exchange),
        )

    def save_binding(self, vhost: VirtualHost, binding: Binding) -> Awaitable[None]:
        """Make a binding durable; one that cannot be is gone."""
        return self._save_once(
            binding,
            partial(self._broker.definitions.save_binding, vhost.name, binding),
            partial(self._finish_binding, vhost, binding),
        )

    def _save_once(
        self,
        entity: Queue | Exchange | Binding,
        submit: Callable[[], Awaitable[None]],
        finish: Callable[[Awaitable[None]], Coroutine[None, None, None]],
    ) -> Awaitable[None]:
        """Begin to save an entity, or join whoever has begun: all of them see one outcome.

        It is submitted before this returns: what another client changes in the same turn of
        the loop, such as deleting it, must come after it on the disk as well.
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
            self._take_back_queue(queue)
            raise
        queue.store.awaits_definition = False
        queue.wake()

    async def _finish_exchange(
        self, vhost: VirtualHost, exchange: Exchange, written: Awaitable[None]
    ) -> None:
        try:
            await written
        except BaseException:
            self._take_back_exchange(vhost, exchange)
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
            # Not one that was made anew meanwhile.
            if binding.source.bindings.get(binding.identity) is binding:
                vhost.unbind(
                    binding.source, binding.destination, binding.routing_key, binding.arguments
                )
            raise
        vhost.end_damaged_binding(encode_name(binding.identity.document_name))

    def _take_back_queue(self, queue: Queue) -> None:
        """Take back a queue that could not be saved: it must not look as if it would stay."""
        if queue.is_deleted:
            return
        bindings, exchanges = self._broker.remove_queue(queue)
        self._remove_definitions(queue.virtual_host, bindings, exchanges)
        queue.store_failed()
        self._broker.discard(queue)

    def _take_back_exchange(self, vhost: VirtualHost, exchange: Exchange) -> None:
        if vhost.exchanges.get(exchange.name) is not exchange:
            return
        self._remove_definitions(vhost, vhost.remove_exchange(exchange))
        for queue in end_delay_queues(vhost, [exchange]):
            queue.store_failed()
            self._broker.discard(queue)

    def _remove_definitions(
        self, vhost: VirtualHost, bindings: list[Binding], exchanges: Iterable[Exchange] = ()
    ) -> None:
        """Remove the definitions of what went with an entity that could not be saved.

        Clients may bind to what is still on its way to the disk: such a binding is written behind
        it, so not at all now.
        """
        removed = self._broker.definitions.remove(
            vhost.name, exchanges=exchanges, bindings=bindings
        )
        self._spawn(_attempt(removed))


async def _attempt(change: Awaitable[None]) -> None:
    with suppress(MetadataError):
        await change
