"""The broker: all virtual hosts, and what happens to a queue as a whole."""

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
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
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
    """Everything the server knows, without sockets. The event loop owns it.

    Args:
        config: Settings and limits.
        storage: For queues.
        definitions: For what survives a restart.
        turn: The loop's turn.
        spawn: Runs a coroutine in the background, owned and awaited at shutdown.

    Attributes:
        definition_writer: Definitions on their way to the disk.
        retention_pins: What of logs stays though it is settled, because it is being read.
        write_checkpoint: Writes what is settled to the disk; set by the server.
        removed_incarnations: What the next checkpoint is to forget; none that it never knew, so
            that there are never more of them than it has entries.
        commit: Makes a transaction durable, carries it out and returns; set by the server.
    """

    def __init__(
        self,
        config: ServerConfig,
        storage: QueueStorage,
        definitions: Definitions,
        turn: Turn,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self.config = config
        self.storage = storage
        self.definitions = definitions
        self.turn = turn
        self.vhosts: dict[str, VirtualHost] = {"/": VirtualHost("/")}
        self.removed_incarnations: list[UUID] = []
        self.retention_pins = RetentionPins()
        self._exclusive_queues: dict[Client, set[Queue]] = {}
        self.write_checkpoint: Callable[[], Awaitable[object]]
        self.commit: Callable[[Commit], Awaitable[None]]
        self.assembly_budget = AssemblyBudget(config.limits.assembly_bytes_max)
        self.transaction_budget = TransactionBudget(config.limits)
        self.definition_writer = DefinitionWriter(self, spawn)
        self._draining: set[Queue] = set()
        self._spawn = spawn

    def queues(self) -> Iterable[Queue]:
        """Iterate over the queues of all virtual hosts, the hidden ones of exchanges too."""
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
        """Make a new, empty queue; a journaled one confirms nothing until it is saved."""
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
        """Take in a queue over an opened log."""
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
        """Make the hidden queue of a new delayed exchange; it is saved with the exchange."""
        incarnation = uuid4()
        opened = fresh_delay_log(self.storage, vhost, exchange, incarnation)
        queue = self.add_delay_queue(vhost, exchange, incarnation, opened)
        queue.store.awaits_definition = queue.is_journaled

    def add_delay_queue(
        self, vhost: VirtualHost, exchange: Exchange, incarnation: UUID, opened: OpenedLog
    ) -> Queue:
        """Take in the hidden queue of a delayed exchange over an opened log."""
        queue = make_delay_queue(vhost, exchange, incarnation, opened, self.storage, self.turn)
        vhost.delay_queues[exchange] = queue
        return queue

    def delete_queue(self, queue: Queue) -> Awaitable[None]:
        """Remove a queue, its bindings and its messages now; done when that is durable."""
        return self._finish_deletion(queue, self._begin_deletion(queue))

    def delete_damaged_queue(self, vhost: VirtualHost, name: str) -> Awaitable[None]:
        """Remove the definition of a queue that could not be brought back, and its bindings'.

        Its logs are marked as deleted, and the next start removes them.
        """
        logger.warning("damaged queue deleted vhost=%s queue=%s", vhost.name, name)
        bindings = vhost.remove_placeholder(name)
        unused = self._remove_unused_exchanges(vhost, bindings)
        documents = vhost.damaged.forget_queue(name)
        damaged = self.definitions.damaged_queue(name, self.storage.mark_of_queue(vhost.name, name))
        return self._remove_definitions(vhost, unused, bindings, damaged=[damaged, *documents])

    def delete_damaged_exchange(self, vhost: VirtualHost, name: str) -> Awaitable[None]:
        """Remove the definition of an exchange that could not be brought back, and its bindings'.

        The log of a hidden queue stays: nobody knows which one it is.
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
        """Remove the damaged bindings of an exchange beside all else; done when that is durable."""
        damaged = vhost.damaged.damaged_bindings.of_exchange(exchange)
        if not damaged:
            return removed
        return all_done([removed, *(self.remove_damaged_binding(vhost, each) for each in damaged)])

    async def remove_damaged_binding(self, vhost: VirtualHost, document_name: str) -> None:
        """Give up a binding whose definition is damaged; its exchange takes publishes again."""
        await self.definitions.remove_binding(vhost.name, document_name)
        vhost.end_damaged_binding(document_name)

    def remove_bindings(self, vhost: VirtualHost, bindings: list[Binding]) -> Awaitable[None]:
        """Finish removing bindings, with the auto-delete exchanges they leave unused."""
        unused = self._remove_unused_exchanges(vhost, bindings)
        return self._remove_definitions(vhost, unused, bindings)

    def remove_vhost(self, name: str) -> list[Queue]:
        """Forget a virtual host with all that is in it now.

        Returns:
            Its queues, to be discarded when their definitions are gone from the disk.
        """
        vhost = self.vhosts.pop(name)
        queues = list(vhost.queues.values())
        for queue in queues:
            self._end_queue(queue)
            queue.stop_forwarding()
        return queues + end_delay_queues(vhost, list(vhost.delay_queues))

    def delete_unused(self, queue: Queue) -> None:
        """Delete a queue that nobody needs now; its files follow in the background.

        The name is free when this returns, so that a client that reconnects quickly can
        declare it again.
        """
        if queue.is_deleted:
            return
        self._spawn(self._finish_deletion(queue, self._begin_deletion(queue)))

    def stop_forwarding(self) -> None:
        """Wait no longer for the dead letters of deleted queues: the server stops."""
        for queue in self._draining:
            logger.warning("dead letters of a deleted queue given up queue=%s", queue.name)
            queue.stop_forwarding()

    def end_leases(self) -> None:
        """Let no queue expire any more: the server stops, and takes no more changes."""
        for queue in self.queues():
            if queue.expiry_timer is not None:
                queue.expiry_timer.cancel()

    def delete_queues_of(self, client: Client) -> None:
        """Delete the exclusive queues of a client that is gone."""
        for queue in self._exclusive_queues.pop(client, ()):
            self.delete_unused(queue)

    def discard(self, queue: Queue, on_done: Callable[[], None] | None = None) -> None:
        """Remove the messages of a queue whose definition is gone, in the background.

        Args:
            queue: A removed queue.
            on_done: Called when its files are gone, or cannot be removed.
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
            PreconditionFailed: The disk refused: some of it may come back.
        """
        end = queue.store.end_offset
        if queue.store.awaits_definition:
            # It writes nothing before its definition is there. Should that fail, it is gone.
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
            f"queue '{queue.name}' in vhost '{queue.virtual_host.name}' is purged, but the disk "
            "refused to keep that: messages may come back after a restart"
        )

    def _begin_deletion(self, queue: Queue) -> Awaitable[None]:
        """Remove a queue, and submit the removal of its definitions before anything else.

        The name is free now: if the same queue is declared again in this turn of the loop, its
        new definition must come after this on the disk.
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
            vhost: Where they were.
            exchanges: Exchanges that are gone.
            bindings: Bindings that are gone.
            queues: Queues that are gone.
            damaged: What start-up could not bring back, and the documents that speak of it.
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
            # Its definition may still be there: then its messages must be, after a restart.
            # What is on its way to them can no longer be promised.
            queue.stop_forwarding()
            queue.store_failed()
            queue.store.discard()
            queue.store_moved()
            raise
        # What was rejected before the queue was deleted is a dead letter all the same.
        self._draining.add(queue)
        await queue.until_left()
        self._draining.discard(queue)
        self.discard(queue)

    def remove_queue(self, queue: Queue) -> tuple[list[Binding], list[Exchange]]:
        """Remove a queue from what there is, not from the disk.

        Returns:
            The bindings and the unused exchanges that went with it.
        """
        self._end_queue(queue)
        vhost = queue.virtual_host
        bindings = vhost.remove_queue(queue)
        return bindings, self._remove_unused_exchanges(vhost, bindings)

    def _end_queue(self, queue: Queue) -> None:
        """Stop a queue and tell its consumers."""
        queue.stop()
        if queue.exclusive_owner is not None:
            self._exclusive_queues.get(queue.exclusive_owner, set()).discard(queue)
        end_consumers(consumers_of(queue))

    def _remove_unused_exchanges(
        self, vhost: VirtualHost, removed: list[Binding]
    ) -> list[Exchange]:
        """Remove the auto-delete exchanges that lost their last binding; more may follow them."""
        gone: list[Exchange] = []
        unused = vhost.exchanges_left_unused(removed)
        while unused:
            exchange = unused.pop()
            bindings = vhost.remove_exchange(exchange)
            removed += bindings
            gone.append(exchange)
            unused += vhost.exchanges_left_unused(bindings)
        return gone
