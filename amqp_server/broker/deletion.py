"""A deletion: what is deleted is gone at once, and its consumers and bindings follow in steps.

A queue may have tens of thousands of bindings. They lead nowhere from the moment in which the queue
is deleted (`VirtualHost.remove_queue`), and the steps only free what is left. An object of the same
name may be declared after the last step: its bindings would be equal to the old ones, in memory and
on the disk. Each binding has its event when its step comes. The audit log gets the reason of each
deletion that the server makes by itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.audit.actor import SERVER, acting
from amqp_server.broker.consuming.ending import consumers_of, end_consumers
from amqp_server.broker.definition_removal import DefinitionRemoval
from amqp_server.broker.definitions import EXCHANGES, QUEUES, all_done
from amqp_server.broker.transfers.delay_queue import end_delay_queues

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from amqp_server.audit.actor import Actor
    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.events.events import Events
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.pending_deletions import PendingDeletion
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.methods import BasicCancel
    from metadata.document import Document
    from metadata.removal import RemovedEntity

AUTO_DELETE: Final = "auto-delete"
EXPIRED: Final = "expired"
OWNER_GONE: Final = "its connection has ended"
UNSAVED: Final = "the disk refused its definition"
"""Why the server deletes something by itself, for the audit log."""

STEP_OBJECTS: Final = 32
"""Consumers, bindings, documents and objects that one step removes, all together."""


class _End(NamedTuple):
    """A removed object, which bindings may still lead to or from.

    Attributes:
        kind: Kind of its definition.
        name: Its name.
        destination: The object, or the placeholder of a damaged one; None without bindings.
        is_saved: Whether the definition is removed from the disk, if there is one.
    """

    kind: str
    name: str
    destination: Destination | None
    is_saved: bool = True


class Deletion:
    """Remains of deleted objects of one virtual host. Its owner takes all steps.

    Clients that declare an object of the same name take steps too, instead of waiting.

    Args:
        broker: Broker that owned the objects.
        vhost: Virtual host of the objects.
        asking: Channel that has asked for it, or None.
        reason: Why the server removes them by itself; empty if it was asked to.

    Attributes:
        notices: Notices for consumers of that channel, which come after the reply.
        is_submitted: Whether everything is out of memory, and the removal of all definitions is
            submitted to the disk.
    """

    def __init__(
        self, broker: Broker, vhost: VirtualHost, asking: Channel | None = None, reason: str = ""
    ) -> None:
        self.is_submitted = False
        self.notices: list[BasicCancel] = []
        self._asking = asking
        self._reason = reason
        self._broker = broker
        self._vhost = vhost
        self._definitions = DefinitionRemoval(broker.definitions, vhost.name)
        # The last one is next.
        self._ends: list[_End] = []
        self._consumers: deque[Consumer] = deque()
        self._unbound: Binding | None = None
        self._documents: list[tuple[RemovedEntity, list[Document]]] = []
        self._messages: list[Queue] = []
        self._others_removed: list[Awaitable[None]] = []
        self._removed: Awaitable[None] | None = None

    def remove_queue(self, queue: Queue, *, is_saved: bool = True) -> None:
        """Remove a queue at once.

        Args:
            queue: Queue to remove.
            is_saved: Whether its definition and its messages are removed from the disk.
        """
        self._record(
            "queue.deleted",
            queue.name,
            self._reason,
            {"messages": queue.ready_count},
            is_session=queue.exclusive_owner is not None,
        )
        self._broker.churn.queue_deleted += 1
        queue.stop()
        self._broker.disown(queue)
        self._consumers += consumers_of(queue)
        self._vhost.remove_queue(queue)
        self._add_end(QUEUES, queue.name, queue, is_saved=is_saved)
        if is_saved:
            self._definitions.add_queue(queue, is_bound=self._vhost.is_bound(queue))
            self._messages.append(queue)

    def remove_exchange(
        self, exchange: Exchange, *, is_saved: bool = True, is_left_unused: bool = False
    ) -> None:
        """Remove an exchange at once, and its hidden queue.

        Args:
            exchange: Exchange to remove.
            is_saved: As in `remove_queue`.
            is_left_unused: Whether it goes because its last binding does, of which the document is
                still there.
        """
        vhost = self._vhost
        self._record("exchange.deleted", exchange.name, AUTO_DELETE if is_left_unused else "")
        vhost.remove_exchange(exchange)
        self._add_end(EXCHANGES, exchange.name, exchange, is_saved=is_saved)
        if is_saved:
            delay_queue = vhost.delay_queues.get(exchange)
            is_bound = is_left_unused or vhost.is_bound(exchange)
            self._definitions.add_exchange(exchange, delay_queue, is_bound=is_bound)
            self._messages += end_delay_queues(vhost, [exchange])

    def remove_binding(self, binding: Binding) -> None:
        """Remove the definition of a binding that was unbound, and its source if it is unused."""
        self._unbound = binding

    def remove_damaged(
        self,
        entity: RemovedEntity,
        placeholder: Destination | None,
        documents: list[Document],
    ) -> None:
        """Remove a queue or exchange that the start could not recover.

        Args:
            entity: Its definition.
            placeholder: Queue or exchange that took its place, removed already; None without one.
            documents: Definitions of its bindings.
        """
        self._record(f"{entity.kind.removesuffix('s')}.deleted", entity.name, "", {"damaged": True})
        self._definitions.add(entity)
        self._documents.append((entity, documents))
        self._add_end(entity.kind, entity.name, placeholder)

    def take_step(self) -> bool:
        """Remove at most `STEP_OBJECTS` of what is left; return whether nothing is left."""
        if self.is_submitted:
            return True
        room = STEP_OBJECTS
        consumers = [self._consumers.popleft() for _ in range(min(room, len(self._consumers)))]
        self.notices += end_consumers(consumers, self._asking)
        room -= len(consumers)
        while self._documents and room:
            entity, documents = self._documents[-1]
            part = [documents.pop() for _ in range(min(room, len(documents)))]
            self._definitions.remove_documents(part, entity)
            room -= len(part)
            if not documents:
                self._documents.pop()
        if self._unbound is not None and room:
            unbound, self._unbound = self._unbound, None
            self._remove_definitions([unbound])
            room -= 1
        while self._ends and room:
            end = self._ends[-1].destination
            bindings = [] if end is None else self._vhost.unlink_some(end, room)
            if not bindings:
                self._release(self._ends.pop())
                room -= 1
                continue
            room -= len(bindings)
            self._report_unbound(bindings)
            self._remove_definitions(bindings)
        if not room and (self._ends or self._documents or self._consumers or self._unbound):
            return False
        self._removed = self._definitions.finish()
        if self._others_removed:
            self._removed = all_done([self._removed, *self._others_removed])
        self.is_submitted = True
        return True

    def steps(self) -> Iterator[None]:
        """Take all steps that are left; other clients may be served between two of them."""
        while not self.take_step():
            yield

    async def finish(self) -> None:
        """Return when nothing can come back; the owner awaits it after the last step.

        Raises:
            MetadataError: The disk refused something.
        """
        assert self._removed is not None, "all steps must be taken"
        try:
            await self._removed
        except BaseException:
            for queue in self._messages:
                self._broker.keep_messages(queue)
            raise
        for queue in self._messages:
            await self._broker.discard_after_dead_letters(queue)

    def _record(
        self,
        event: str,
        name: str,
        reason: str,
        details: dict[str, object] | None = None,
        *,
        is_session: bool = False,
    ) -> None:
        reason = reason or self._reason
        actor: Actor
        if self._asking is not None and not reason:
            actor = self._asking.client.actor
        else:
            actor = SERVER if reason else acting.get()
        all_details = {**(details or {}), **({"reason": reason} if reason else {})}
        self._broker.audit.record(
            event,
            actor,
            vhost=self._vhost.name,
            name=name,
            details=all_details,
            is_session=is_session,
        )

    def _report_unbound(self, bindings: list[Binding]) -> None:
        """Report bindings that went with one of their ends; the audit log does not list them."""
        if self._broker.events.is_followed:
            for binding in bindings:
                report_unbound(self._broker.events, self._vhost.name, binding)

    def _add_end(
        self, kind: str, name: str, destination: Destination | None, *, is_saved: bool = True
    ) -> None:
        self._ends.append(_End(kind, name, destination, is_saved))
        self._names_of(kind)[name] = self

    def _names_of(self, kind: str) -> dict[str, PendingDeletion]:
        """Return the names that objects of a kind cannot have yet."""
        deletions = self._vhost.deletions
        return deletions.exchanges if kind == EXCHANGES else deletions.queues

    def _release(self, end: _End) -> None:
        """Remove the definition of an object without bindings; its name is free then."""
        if end.kind == EXCHANGES:
            self._others_removed += (
                self._broker.remove_damaged_binding(self._vhost, each)
                for each in self._vhost.damaged.damaged_bindings.of_exchange(end.name)
            )
        if not self._definitions.release(end.kind, end.name) and end.is_saved:
            # It has no definition. One of the same name may be left that the disk did not remove.
            definitions = self._broker.definitions
            removed = definitions.make_removed(end.kind, self._vhost.name, end.name)
            if removed is not None:
                self._others_removed.append(removed)
        del self._names_of(end.kind)[end.name]

    def _remove_definitions(self, bindings: list[Binding]) -> None:
        """Remove the definitions of bindings, and auto-delete exchanges that they leave unused.

        The document of an exchange's last binding goes after the exchange's own deletion is on the
        disk. Until then it tells a start that the exchange goes too (`consistency_check`).
        """
        for exchange in self._vhost.exchanges_left_unused(bindings):
            self.remove_exchange(exchange, is_left_unused=True)
        self._definitions.remove_bindings(bindings)


def report_unbound(events: Events, vhost: str, binding: Binding) -> None:
    """Report that a binding is gone, because one of its ends is."""
    events.report(
        "binding.deleted",
        vhost=vhost,
        object_name=binding.destination.name,
        details={
            "source": binding.source.name,
            "destination_type": binding.identity.kind,
            "routing_key": binding.routing_key,
        },
        attributes=lambda: {"arguments": binding.arguments},
    )
