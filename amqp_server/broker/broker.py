"""The broker: all virtual hosts, and the creation and deletion of queues and exchanges."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from amqp_server.broker.consuming.ending import consumers_of, end_consumers
from amqp_server.broker.definition_writer import DefinitionWriter
from amqp_server.broker.definitions import all_done
from amqp_server.broker.publishing.content_assembly import AssemblyBudget
from amqp_server.broker.queue import Queue
from amqp_server.broker.rules.expiry_timer import ExpiryTimer
from amqp_server.broker.storing.retention_pins import RetentionPins
from amqp_server.broker.transactions.transaction import TransactionBudget
from amqp_server.broker.transfers.delay_queue import (
    end_delay_queues,
    fresh_delay_log,
    make_delay_queue,
)
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.protocol.errors import PreconditionFailed
from appendlog import LogIdentity
from offsets.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
    from uuid import UUID

    from amqp_server.broker.binding import Binding
    from amqp_server.broker.client import Client
    from amqp_server.broker.definitions import Definitions
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.storing.storage import OpenedLog, QueueStorage
    from amqp_server.broker.transactions.commit import Commit
    from amqp_server.broker.turn import Turn
    from amqp_server.config import ServerConfig
    from amqp_server.protocol.tables import Table
    from metadata.document import Document
    from metadata.removal import RemovedEntity

logger = logging.getLogger(__name__)


class Broker:
    """The state of the server without its sockets. The event loop owns it.

    Args:
        config: Settings and limits.
        storage: Opens the logs of queues.
        definitions: Saves what survives a restart.
        turn: Turn of the event loop.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
        commit: Makes a transaction durable and applies it.
        write_checkpoint: Writes what is settled to the disk.

    Attributes:
        definition_writer: Writes definitions of new objects to the disk.
        retention_pins: Parts of logs that retention keeps because a reader needs them.
        removed_incarnations: Deleted queues that the next checkpoint removes. Only queues with an
            entry in the checkpoint are listed, so there are never more of them than entries.
    """

    def __init__(
        self,
        config: ServerConfig,
        storage: QueueStorage,
        definitions: Definitions,
        turn: Turn,
        spawn: Callable[[Coroutine[None, None, None]], None],
        *,
        commit: Callable[[Commit], Awaitable[None]],
        write_checkpoint: Callable[[], Awaitable[object]],
    ) -> None:
        self.config = config
        self.storage = storage
        self.definitions = definitions
        self.turn = turn
        self.vhosts: dict[str, VirtualHost] = {"/": VirtualHost("/")}
        self.removed_incarnations: list[UUID] = []
        self.retention_pins = RetentionPins()
        self._exclusive_queues: dict[Client, set[Queue]] = {}
        self.write_checkpoint = write_checkpoint
        self.commit = commit
        self.assembly_budget = AssemblyBudget(config.limits.assembly_bytes_max)
        self.transaction_budget = TransactionBudget(config.limits)
        self.definition_writer = DefinitionWriter(self, spawn)
        self._draining: set[Queue] = set()
        self._spawn = spawn

    def queues(self) -> Iterable[Queue]:
        """Iterate over the queues of all virtual hosts, with the hidden queues of exchanges."""
        for vhost in self.vhosts.values():
            yield from vhost.queues.values()
            yield from vhost.delay_queues.values()

    def create_queue(
        self,
        vhost: VirtualHost,
        name: str,
        *,
        durable: bool,
        exclusive_owner: Client | None,
        auto_delete: bool,
        arguments: Table,
    ) -> Queue:
        """Create an empty queue; a journaled one confirms nothing until its definition is saved."""
        incarnation = uuid4()
        is_journaled = durable and exclusive_owner is None
        identity = LogIdentity(vhost.name, name, incarnation)
        opened = self.storage.fresh_log(identity, arguments, is_journaled=is_journaled)
        queue = self.add_queue(
            vhost,
            name,
            durable=durable,
            exclusive_owner=exclusive_owner,
            auto_delete=auto_delete,
            arguments=arguments,
            incarnation=incarnation,
            opened=opened,
        )
        queue.store.awaits_definition = queue.is_journaled
        return queue

    def add_queue(
        self,
        vhost: VirtualHost,
        name: str,
        *,
        durable: bool,
        exclusive_owner: Client | None,
        auto_delete: bool,
        arguments: Table,
        incarnation: UUID,
        opened: OpenedLog,
    ) -> Queue:
        """Add a queue over an opened log."""
        queue = Queue(
            virtual_host=vhost,
            name=name,
            durable=durable,
            exclusive_owner=exclusive_owner,
            auto_delete=auto_delete,
            arguments=arguments,
            incarnation=incarnation,
            storage=self.storage,
            opened=opened,
            turn=self.turn,
        )
        vhost.add_queue(queue)
        expires_ms = queue.settings.expires_ms
        if expires_ms is not None:
            queue.expiry_timer = ExpiryTimer(
                queue, expires_ms / 1000, self.turn, self.delete_unused
            )
        if exclusive_owner is not None:
            self._exclusive_queues.setdefault(exclusive_owner, set()).add(queue)
        return queue

    def create_delay_queue(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """Create the hidden queue of a new delayed exchange; it is saved with the exchange."""
        incarnation = uuid4()
        opened = fresh_delay_log(self.storage, vhost, exchange, incarnation)
        queue = self.add_delay_queue(vhost, exchange, incarnation, opened)
        queue.store.awaits_definition = queue.is_journaled

    def add_delay_queue(
        self, vhost: VirtualHost, exchange: Exchange, incarnation: UUID, opened: OpenedLog
    ) -> Queue:
        """Add the hidden queue of a delayed exchange over an opened log."""
        queue = make_delay_queue(vhost, exchange, incarnation, opened, self.storage, self.turn)
        vhost.delay_queues[exchange] = queue
        return queue

    def delete_queue(self, queue: Queue) -> Awaitable[None]:
        """Remove a queue, its bindings and its messages now; done when that is durable."""
        return self._finish_deletion(queue, self._begin_deletion(queue))

    def delete_damaged_queue(self, vhost: VirtualHost, name: str) -> Awaitable[None]:
        """Remove the definitions of a queue that could not be recovered, and of its bindings.

        Its logs are marked as deleted; the next start removes them.
        """
        logger.warning("damaged queue deleted vhost=%s queue=%s", vhost.name, name)
        bindings = vhost.remove_placeholder(name)
        unused = self._remove_unused_exchanges(vhost, bindings)
        documents = vhost.damaged.forget_queue(name)
        damaged = self.definitions.damaged_queue(name, self.storage.mark_of_queue(vhost.name, name))
        return self._remove_definitions(vhost, unused, bindings, damaged=[damaged, *documents])

    def delete_damaged_exchange(self, vhost: VirtualHost, name: str) -> Awaitable[None]:
        """Remove the definitions of an exchange that could not be recovered, and of its bindings.

        The log of a hidden queue stays, because its name is not known.
        """
        logger.warning("damaged exchange deleted vhost=%s exchange=%s", vhost.name, name)
        bindings = vhost.remove_refusing_exchange(name)
        unused = self._remove_unused_exchanges(vhost, bindings)
        documents = vhost.damaged.forget_exchange(name)
        damaged = self.definitions.damaged_exchange(name)
        removed = self._remove_definitions(vhost, unused, bindings, damaged=[damaged, *documents])
        return self._with_damaged_bindings(vhost, name, removed)

    def delete_exchange(self, vhost: VirtualHost, exchange: Exchange) -> Awaitable[None]:
        """Remove an exchange and its bindings now; done when that is durable."""
        bindings = vhost.remove_exchange(exchange)
        unused = self._remove_unused_exchanges(vhost, bindings)
        removed = self._remove_definitions(vhost, [exchange, *unused], bindings)
        return self._with_damaged_bindings(vhost, exchange.name, removed)

    def _with_damaged_bindings(
        self, vhost: VirtualHost, exchange: str, removed: Awaitable[None]
    ) -> Awaitable[None]:
        """Also remove the damaged bindings of an exchange; done when all of it is durable."""
        damaged = vhost.damaged.damaged_bindings.of_exchange(exchange)
        if not damaged:
            return removed
        return all_done([removed, *(self.remove_damaged_binding(vhost, each) for each in damaged)])

    async def remove_damaged_binding(self, vhost: VirtualHost, document_name: str) -> None:
        """Remove a binding whose definition is damaged; its exchange accepts publishes again."""
        await self.definitions.remove_binding(vhost.name, document_name)
        vhost.end_damaged_binding(document_name)

    def remove_bindings(self, vhost: VirtualHost, bindings: list[Binding]) -> Awaitable[None]:
        """Remove the definitions of bindings, and auto-delete exchanges that become unused."""
        unused = self._remove_unused_exchanges(vhost, bindings)
        return self._remove_definitions(vhost, unused, bindings)

    def remove_vhost(self, name: str) -> list[Queue]:
        """Remove a virtual host and everything in it from memory.

        Returns:
            Its queues; the caller discards them when their definitions are removed from the disk.
        """
        vhost = self.vhosts.pop(name)
        vhost.is_deleted = True
        queues = list(vhost.queues.values())
        for queue in queues:
            self._end_queue(queue)
            queue.stop_forwarding()
        return queues + end_delay_queues(vhost, list(vhost.delay_queues))

    def delete_unused(self, queue: Queue) -> None:
        """Delete a queue that is no longer needed; its files are removed in the background.

        Its name is free when this returns, so that a client that reconnects quickly can declare it
        again.
        """
        if queue.is_deleted:
            return
        self._spawn(self._finish_deletion(queue, self._begin_deletion(queue)))

    def stop_forwarding(self) -> None:
        """Stop waiting for the dead letters of deleted queues, because the server stops."""
        for queue in self._draining:
            logger.warning("dead letters of a deleted queue dropped queue=%s", queue.name)
            queue.stop_forwarding()

    def cancel_expiry_timers(self) -> None:
        """Cancel all expiry timers: the server stops, and accepts no more changes."""
        for queue in self.queues():
            if queue.expiry_timer is not None:
                queue.expiry_timer.cancel()

    def delete_queues_of(self, client: Client) -> Iterator[None]:
        """Delete the exclusive queues of a client that has disconnected, one in each step."""
        for queue in self._exclusive_queues.pop(client, ()):
            self.delete_unused(queue)
            yield

    def discard(self, queue: Queue, on_done: Callable[[], None] | None = None) -> None:
        """Remove the messages of a queue whose definition is removed, in the background.

        Args:
            queue: The removed queue.
            on_done: Called when its files are removed, or cannot be removed.
        """
        queue.stop_forwarding()
        self.storage.queues_to_checkpoint.discard(queue)
        if queue.is_checkpointed:
            self.removed_incarnations.append(queue.incarnation)
        self.storage.discard(queue.store, on_done)
        queue.store_moved()

    async def make_settlement_durable(self, queue: Queue) -> None:
        """Return when nothing that is settled in `queue` now can come back after a crash.

        Raises:
            PreconditionFailed: The disk refused, and some messages may come back.
        """
        end = queue.store.end_offset
        if queue.store.awaits_definition:
            # The queue writes nothing before its definition is on the disk; it is removed if that
            # fails.
            await self.definition_writer.until_done()
        await queue.store.make_durable()
        if queue.is_deleted:
            return
        try:
            if queue.store.recovery_point >= end:
                await self.write_checkpoint()
                return
        except OffsetsError as error:
            logger.error("settlement not durable queue=%s error=%s", queue.name, error)  # noqa: TRY400 - one line says it all
        raise PreconditionFailed(
            f"queue '{queue.name}' in vhost '{queue.virtual_host.name}' is purged, but this could "
            "not be written to the disk: messages may come back after a restart"
        )

    def _begin_deletion(self, queue: Queue) -> Awaitable[None]:
        """Remove a queue, and submit the removal of its definitions before anything else.

        The name is free now. If a client declares the same queue again in this turn of the loop,
        its new definition must follow this removal on the disk.
        """
        bindings, exchanges = self.remove_queue(queue)
        return self._remove_definitions(queue.virtual_host, exchanges, bindings, [queue])

    def _remove_definitions(
        self,
        vhost: VirtualHost,
        exchanges: list[Exchange],
        bindings: list[Binding],
        queues: list[Queue] | None = None,
        damaged: Sequence[RemovedEntity | Document] = (),
    ) -> Awaitable[None]:
        """Submit the removal of definitions; done when it is durable and hidden queues are gone.

        Args:
            vhost: Virtual host of the objects.
            exchanges: Removed exchanges.
            bindings: Removed bindings.
            queues: Removed queues.
            damaged: Objects that the start could not recover, and documents that refer to them.
        """
        removed: Awaitable[None] = self.definitions.remove(
            vhost.name,
            queues=queues or (),
            exchanges=exchanges,
            bindings=bindings,
            delay_queues=vhost.delay_queues,
            damaged=damaged,
        )
        for queue in end_delay_queues(vhost, exchanges):
            removed = self._finish_deletion(queue, removed)
        return removed

    async def _finish_deletion(self, queue: Queue, removed: Awaitable[None]) -> None:
        try:
            await removed
        except BaseException:
            # The definition may still be on the disk. Then the messages must be there after a
            # restart. Publishes that still wait are refused: they cannot be made safe any more.
            queue.stop_forwarding()
            queue.store_failed()
            queue.store.discard()
            queue.store_moved()
            raise
        # Messages that were rejected before the deletion still become dead letters.
        self._draining.add(queue)
        await queue.until_dead_letters_sent()
        self._draining.discard(queue)
        self.discard(queue)

    def remove_queue(self, queue: Queue) -> tuple[list[Binding], list[Exchange]]:
        """Remove a queue from memory, not from the disk.

        Returns:
            The bindings and the unused exchanges that were removed with it.
        """
        self._end_queue(queue)
        vhost = queue.virtual_host
        bindings = vhost.remove_queue(queue)
        return bindings, self._remove_unused_exchanges(vhost, bindings)

    def _end_queue(self, queue: Queue) -> None:
        """Stop a queue and cancel its consumers."""
        queue.stop()
        if queue.exclusive_owner is not None:
            self._exclusive_queues.get(queue.exclusive_owner, set()).discard(queue)
        end_consumers(consumers_of(queue))

    def _remove_unused_exchanges(
        self, vhost: VirtualHost, removed: list[Binding]
    ) -> list[Exchange]:
        """Remove auto-delete exchanges that lost their last binding; others may follow them."""
        gone: list[Exchange] = []
        unused = vhost.exchanges_left_unused(removed)
        while unused:
            exchange = unused.pop()
            bindings = vhost.remove_exchange(exchange)
            removed += bindings
            gone.append(exchange)
            unused += vhost.exchanges_left_unused(bindings)
        return gone
