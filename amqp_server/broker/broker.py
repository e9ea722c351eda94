"""The broker: all virtual hosts, and the creation and deletion of queues and exchanges."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from amqp_server.broker.consuming.ending import consumers_of, end_consumers
from amqp_server.broker.counters.broker_counters import AuthAttempts, Churn, MessageSizes
from amqp_server.broker.counters.dead_letter_counts import DeadLetterCounts
from amqp_server.broker.counters.vhost_counters import VhostCounters
from amqp_server.broker.damaged_documents import DamagedDocuments
from amqp_server.broker.declaring.queue_arguments import queue_type
from amqp_server.broker.definition_writer import DefinitionWriter
from amqp_server.broker.deletion import (
    AUTO_DELETE,
    EXPIRED,
    OWNER_GONE,
    STEP_OBJECTS,
    UNSAVED,
    Deletion,
)
from amqp_server.broker.events.events import Events
from amqp_server.broker.job import Job
from amqp_server.broker.policies.effective_policy import NO_POLICY
from amqp_server.broker.policies.unknown_policy import settings_with_policy, storage_with_policy
from amqp_server.broker.queue import Queue
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.rules.expiry_timer import ExpiryTimer
from amqp_server.broker.rules.size_measurement import measure_sizes
from amqp_server.broker.storing.queues_to_checkpoint import QueuesToCheckpoint
from amqp_server.broker.storing.retention_pins import RetentionPins
from amqp_server.broker.stream import Stream
from amqp_server.broker.transactions.pending_commits import PendingCommits
from amqp_server.broker.transactions.transaction import TransactionBudget
from amqp_server.broker.transfers.dead_letter import DeadLetters, NoDeadLetters
from amqp_server.broker.transfers.delay_queue import (
    end_delay_queues,
    fresh_delay_log,
    make_delay_queue,
)
from amqp_server.broker.transfers.forwarder import Forwarder
from amqp_server.broker.transfers.transfer_order import TransferOrder
from amqp_server.broker.virtual_host import VirtualHost, vhost_of
from amqp_server.protocol.content_assembly import AssemblyBudget
from amqp_server.protocol.errors import PreconditionFailed
from appendlog import LogIdentity
from metadata.errors import MetadataError
from offsets.errors import OffsetsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from uuid import UUID

    from amqp_server.audit.audit_log import AuditLog
    from amqp_server.base.config import ServerConfig
    from amqp_server.broker.binding import Binding
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.client import Client
    from amqp_server.broker.definitions import Definitions
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.policies.effective_policy import EffectivePolicy
    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.broker.storing.opened_log import OpenedLog
    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from amqp_server.broker.transactions.commit import Commit
    from amqp_server.broker.turn import Turn
    from amqp_server.protocol.tables import Table

logger = logging.getLogger("amqp_server.broker.broker")


class Broker:
    """The state of the server without its sockets. The event loop owns it.

    Args:
        config: Settings and limits.
        storage: Opens the logs of queues.
        definitions: Saves what survives a restart.
        turn: Turn of the event loop.
        spawn: Runs a coroutine in the background; the server awaits it when it stops.
        audit: Records who changed what.
        commit: Makes a transaction durable and applies it.
        write_checkpoint: Writes what is settled to the disk.

    Attributes:
        global_parameters: Values by name; kept for other programs.
        on_parameters_changed: Is called after parameters of virtual hosts have changed, or a
            virtual host is gone.
        damaged_documents: Documents that the start could not read, or missed, until they are
            replaced.
        audit: Records who changed what.
        events: Sends events to its listeners: all that the audit log records, and more.
        churn: Counts connections, channels and queues that come and go.
        auth_attempts: Counts logins.
        dead_letter_counts: Counts messages that are rejected, expire or are dropped.
        message_sizes: Sizes of published messages.
        ended_counters: Counters of virtual hosts that were deleted.
        commits: Carries out transactions, one at a time.
        definition_writer: Writes definitions of new objects to the disk.
        queues_to_checkpoint: Queues that have changed since the last round of checkpoints.
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
        audit: AuditLog,
        *,
        commit: Callable[[Commit], Awaitable[None]],
        write_checkpoint: Callable[[], Awaitable[object]],
    ) -> None:
        self.config = config
        self.audit = audit
        self.damaged_documents = DamagedDocuments()
        self.storage = storage
        self.definitions = definitions
        self.turn = turn
        self.vhosts: dict[str, VirtualHost] = {"/": VirtualHost("/")}
        self.events = Events(turn, self.vhosts)
        audit.on_event = self.events.report
        self.churn = Churn()
        self.auth_attempts = AuthAttempts()
        self.dead_letter_counts = DeadLetterCounts()
        self.message_sizes = MessageSizes()
        self.ended_counters = VhostCounters()
        self.global_parameters: dict[str, Any] = {}
        self.on_parameters_changed: Callable[[], None] = _nothing
        self.removed_incarnations: list[UUID] = []
        self.queues_to_checkpoint = QueuesToCheckpoint()
        self.retention_pins = RetentionPins()
        self._exclusive_queues: dict[Client, set[Queue]] = {}
        self._orphaned_queues: dict[Client, set[Queue]] = {}
        self.write_checkpoint = write_checkpoint
        self.commit = commit
        self.commits = PendingCommits(turn, storage)
        self._transfer_order = TransferOrder(turn)
        self.assembly_budget = AssemblyBudget(config.limits.assembly_bytes_max)
        self.transaction_budget = TransactionBudget(config.limits)
        self.definition_writer = DefinitionWriter(definitions, self.remove_unsaved, self.discard)
        self._is_stopping = False
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
        policy = vhost.policies.for_queue(name, queue_type(arguments))
        kept = storage_with_policy(self.storage, arguments, queue_type(arguments), policy)
        opened = self.storage.fresh_log(identity, kept, is_journaled=is_journaled)
        queue = self.add_queue(
            vhost,
            name,
            durable=durable,
            exclusive_owner=exclusive_owner,
            auto_delete=auto_delete,
            arguments=arguments,
            incarnation=incarnation,
            opened=opened,
            policy=policy,
        )
        queue.store.awaits_definition = queue.is_journaled
        self.churn.queue_created += 1
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
        policy: EffectivePolicy = NO_POLICY,
    ) -> Queue:
        """Add a queue over an opened log; its settings are those of its arguments and policy."""
        settings = settings_with_policy(arguments, queue_type(arguments), policy)
        kind = Stream if settings.type is QueueType.STREAM else Queue
        queue = kind(
            virtual_host=vhost,
            name=name,
            durable=durable,
            exclusive_owner=exclusive_owner,
            auto_delete=auto_delete,
            arguments=arguments,
            settings=settings,
            incarnation=incarnation,
            storage=self.storage,
            opened=opened,
            turn=self.turn,
            on_changed=self.queues_to_checkpoint.add,
        )
        queue.is_hidden = False
        queue.policy = policy
        queue.dead_letter_counts = self.dead_letter_counts
        self._fit_forwarder(queue)
        vhost.add_queue(queue)
        queue.mark_changed()
        self._fit_expiry_timer(queue)
        if exclusive_owner is not None:
            self._exclusive_queues.setdefault(exclusive_owner, set()).add(queue)
        return queue

    def change_settings(self, queue: Queue, settings: QueueSettings, kept: StorageSettings) -> None:
        """Replace the settings of a live queue, with the parts that depend on them.

        Time without use counts from now on if `expires_ms` has changed.

        Args:
            queue: Queue whose messages are all loaded.
            settings: New settings, of the same type of queue.
            kept: How the queue is kept on the disk from now on.
        """
        before, order = queue.settings, queue.ready
        queue.change_settings(settings, kept)
        if _dead_letter_settings(settings) != _dead_letter_settings(before):
            self._fit_forwarder(queue)
        if settings.expires_ms != before.expires_ms:
            self._fit_expiry_timer(queue)
        is_new_order = queue.ready is not order
        if is_new_order and queue.rules is not None and queue.rules.has_unknown_sizes:
            self._spawn(measure_sizes(queue, lambda: self._is_stopping))

    def _fit_forwarder(self, queue: Queue) -> None:
        """Give a queue the forwarder that its settings ask for, or let the present one finish."""
        if queue.settings.awaits_dead_letter_rule:
            queue.forwarder = Forwarder(queue, NoDeadLetters(), self.turn, self._transfer_order)
            queue.forwarder.awaits_rule = True
            return
        if queue.settings.dead_letter_exchange is None:
            if queue.forwarder is not None:
                if queue.forwarder.awaits_rule:
                    queue.forwarder.change_rule(NoDeadLetters())
                queue.forwarder.is_retired = True
            return
        letters = DeadLetters(
            vhost_of(queue),
            queue.name,
            queue.settings,
            self.turn.clock.time_ns,
            self.dead_letter_counts.count_cycle,
        )
        if queue.forwarder is None:
            queue.forwarder = Forwarder(queue, letters, self.turn, self._transfer_order)
        else:
            queue.forwarder.change_rule(letters)

    def _fit_expiry_timer(self, queue: Queue) -> None:
        """Start the time after which a queue is deleted if its settings name one."""
        if queue.expiry_timer is not None:
            queue.expiry_timer.cancel()
            queue.expiry_timer = None
        expires_ms = queue.settings.expires_ms
        if expires_ms is not None:
            queue.expiry_timer = ExpiryTimer(
                queue, expires_ms / 1000, self.turn, partial(self.delete_unused, queue, EXPIRED)
            )

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
        queue = make_delay_queue(
            vhost,
            exchange,
            incarnation,
            opened,
            self.storage,
            self.turn,
            self._transfer_order,
            self.queues_to_checkpoint.add,
        )
        vhost.delay_queues[exchange] = queue
        return queue

    def delete_queue(
        self, queue: Queue, asking: Channel | None = None, reason: str = ""
    ) -> Deletion:
        """Remove a queue now; return the deletion of its consumers, bindings and messages.

        Args:
            queue: Queue to remove.
            asking: Channel that has asked for it, or None.
            reason: Why the server removes it by itself; empty if it was asked to.
        """
        deletion = Deletion(self, vhost_of(queue), asking, reason)
        deletion.remove_queue(queue)
        return deletion

    def delete_damaged_queue(
        self, vhost: VirtualHost, name: str, asking: Channel | None = None
    ) -> Deletion:
        """Remove the definitions of a queue that could not be recovered, and of its bindings.

        Its logs are marked as deleted; the next start removes them.
        """
        logger.warning("damaged queue deleted vhost=%s queue=%s", vhost.name, name)
        deletion = Deletion(self, vhost, asking)
        entity = self.definitions.damaged_queue(name, self.storage.mark_of_queue(vhost.name, name))
        placeholder = vhost.remove_placeholder(name)
        deletion.remove_damaged(entity, placeholder, vhost.damaged.forget_queue(name))
        return deletion

    def delete_damaged_exchange(
        self, vhost: VirtualHost, name: str, asking: Channel | None = None
    ) -> Deletion:
        """Remove the definitions of an exchange that could not be recovered, and of its bindings.

        The log of a hidden queue stays, because its name is not known.
        """
        logger.warning("damaged exchange deleted vhost=%s exchange=%s", vhost.name, name)
        deletion = Deletion(self, vhost, asking)
        entity = self.definitions.damaged_exchange(name)
        placeholder = vhost.remove_refusing_exchange(name)
        deletion.remove_damaged(entity, placeholder, vhost.damaged.forget_exchange(name))
        return deletion

    def delete_exchange(
        self, vhost: VirtualHost, exchange: Exchange, asking: Channel | None = None
    ) -> Deletion:
        """Remove an exchange now; return the deletion of its bindings.

        Args:
            vhost: Virtual host of the exchange.
            exchange: Exchange to remove.
            asking: Channel that has asked for it, or None.
        """
        deletion = Deletion(self, vhost, asking)
        deletion.remove_exchange(exchange)
        return deletion

    async def remove_damaged_binding(self, vhost: VirtualHost, document_name: str) -> None:
        """Remove a binding whose definition is damaged; its exchange accepts publishes again."""
        await self.definitions.remove_binding(vhost.name, document_name)
        vhost.end_damaged_binding(document_name)

    def remove_binding(self, vhost: VirtualHost, binding: Binding) -> Deletion:
        """Return the deletion of a binding that is out of memory, and of an unused exchange."""
        deletion = Deletion(self, vhost)
        deletion.remove_binding(binding)
        return deletion

    def remove_unsaved(self, entity: Queue | Exchange, vhost: VirtualHost) -> None:
        """Remove a queue or exchange whose definition the disk refused, from memory only.

        Clients may have bound it already. Such a binding is written after it, so it is not written
        now.
        """
        deletion = Deletion(self, vhost, reason=UNSAVED)
        if isinstance(entity, Queue):
            deletion.remove_queue(entity, is_saved=False)
        else:
            deletion.remove_exchange(entity, is_saved=False)
        # What the disk refuses now is removed with the next definition that it may refer to.
        steps = self._steps_of(deletion, is_saved=False)
        Job(self.turn, self.turn.upkeep, steps, f"removal of unsaved {entity.name!r}").start()

    def remove_vhost(self, name: str) -> VirtualHost:
        """Remove and return a virtual host, at once; `empty_vhost` removes what is in it."""
        vhost = self.vhosts.pop(name)
        # What its clients do until they are disconnected counts there, too.
        self.ended_counters.add(vhost.counters)
        vhost.counters = self.ended_counters
        vhost.is_deleted = True
        self.on_parameters_changed()
        return vhost

    def empty_vhost(self, vhost: VirtualHost, queues: list[Queue]) -> Iterator[None]:
        """Remove everything in a deleted virtual host from memory, in steps.

        Args:
            vhost: Virtual host without a name.
            queues: Gets its queues. The caller discards them when their definitions are removed
                from the disk.
        """
        for queue in list(vhost.queues.values()):
            if queue.is_deleted:
                # A client has deleted it since.
                continue
            self.churn.queue_deleted += 1
            queue.stop()
            queue.stop_forwarding()
            self.disown(queue)
            vhost.remove_queue(queue)
            queues.append(queue)
            consumers = consumers_of(queue)
            for at in range(0, len(consumers), STEP_OBJECTS):
                end_consumers(consumers[at : at + STEP_OBJECTS])
                yield
            while vhost.unlink_some(queue, STEP_OBJECTS):
                yield
            yield
        for exchange in list(vhost.exchanges.values()):
            queues += end_delay_queues(vhost, [exchange])
            while vhost.unlink_some(exchange, STEP_OBJECTS):
                yield
            yield
        vhost.forget_routes()

    def delete_unused(self, queue: Queue, reason: str = AUTO_DELETE) -> None:
        """Delete a queue that is no longer needed; its files are removed in the background.

        A client that reconnects quickly can declare it again when this returns. The queues of a
        deleted virtual host are deleted with it.
        """
        if not (queue.is_deleted or vhost_of(queue).is_deleted):
            steps = self._steps_of(self.delete_queue(queue, reason=reason))
            Job(self.turn, self.turn.upkeep, steps, f"deletion of queue {queue.name!r}").start()

    def _steps_of(self, deletion: Deletion, *, is_saved: bool = True) -> Iterator[None]:
        """Take the steps of a deletion that no client asked for; the disk follows behind them."""
        yield from deletion.steps()
        self._spawn(deletion.finish() if is_saved else _attempt(deletion.finish()))

    def stop_forwarding(self) -> None:
        """Stop waiting for the dead letters of deleted queues, because the server stops."""
        for queue in self._draining:
            logger.warning("dead letters of a deleted queue dropped queue=%s", queue.name)
            queue.stop_forwarding()

    def cancel_expiry_timers(self) -> None:
        """Cancel all expiry timers: the server stops, and accepts no more changes."""
        self._is_stopping = True
        for queue in self.queues():
            if queue.expiry_timer is not None:
                queue.expiry_timer.cancel()

    def orphan_queues_of(self, client: Client) -> None:
        """Let the exclusive queues of a client that has gone count as deleted for all others.

        They are deleted when another client names them, or by `delete_queues_of`.
        """
        queues = self._exclusive_queues.pop(client, None)
        if queues is not None:
            self._orphaned_queues[client] = queues
            if queues:
                vhost_of(next(iter(queues))).leave_queues(queues)

    def is_orphaned(self, queue: Queue) -> bool:
        """Return whether the only client that may use a queue has gone."""
        return queue.exclusive_owner in self._orphaned_queues

    def delete_queues_of(self, client: Client) -> Iterator[None]:
        """Delete the exclusive queues of a client that has gone, in steps."""
        self.orphan_queues_of(client)
        queues = self._orphaned_queues.get(client)
        while queues:
            queue = queues.pop()
            if not (queue.is_deleted or vhost_of(queue).is_deleted):
                yield from self._steps_of(self.delete_queue(queue, reason=OWNER_GONE))
            yield
        self._orphaned_queues.pop(client, None)

    def disown(self, queue: Queue) -> None:
        """Note that a queue is no longer one of the exclusive queues of its owner."""
        owner = queue.exclusive_owner
        if owner is not None:
            for queues in (self._exclusive_queues, self._orphaned_queues):
                queues.get(owner, set()).discard(queue)

    def discard(self, queue: Queue, on_done: Callable[[], None] | None = None) -> None:
        """Remove the messages of a queue whose definition is removed, in the background.

        Args:
            queue: The removed queue.
            on_done: Called when its files are removed, or cannot be removed.
        """
        queue.stop_forwarding()
        self.queues_to_checkpoint.discard(queue)
        if queue.is_checkpointed:
            self.removed_incarnations.append(queue.incarnation)
        self.storage.discard(queue.store, on_done)

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

    def keep_messages(self, queue: Queue) -> None:
        """Keep the messages of a deleted queue, because the disk refused its deletion.

        The definition may still be on the disk. Then the messages must be there after a restart.
        Publishes that still wait are refused: they cannot be made safe any more. A queue that no
        restart recovers is discarded.
        """
        if not queue.is_journaled:
            self.discard(queue)
            return
        queue.stop_forwarding()
        self.storage.keep(queue.store)

    async def discard_after_dead_letters(self, queue: Queue) -> None:
        """Discard a deleted queue; messages rejected before still become dead letters."""
        self._draining.add(queue)
        await queue.until_dead_letters_sent()
        self._draining.discard(queue)
        self.discard(queue)


def _dead_letter_settings(settings: QueueSettings) -> tuple[object, ...]:
    return (
        settings.dead_letter_exchange,
        settings.dead_letter_routing_key,
        settings.dead_letters_at_least_once,
        settings.awaits_dead_letter_rule,
    )


async def _attempt(change: Awaitable[None]) -> None:
    with suppress(MetadataError):
        await change


def _nothing() -> None:
    """Do nothing: no program uses parameters."""
