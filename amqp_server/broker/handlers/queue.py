"""queue.*: declare, bind, unbind, purge and delete queues."""

from __future__ import annotations

import logging
from asyncio import ensure_future, shield
from base64 import urlsafe_b64encode
from collections.abc import Generator
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.audited_table import audited_table
from amqp_server.broker.binding import BindingIdentity
from amqp_server.broker.declaring.default_queue_type import (
    check_server_may_name,
    with_queue_type,
)
from amqp_server.broker.declaring.equivalence import check_equivalent_queue
from amqp_server.broker.declaring.names import (
    check_not_locked,
    check_queue_name_is_free,
    clean_name,
    find_exchange,
    find_named_queue,
    find_queue,
    is_reserved,
    queue_name,
    queue_of_name,
)
from amqp_server.broker.declaring.object_limits import check_limit, queues_max
from amqp_server.broker.declaring.queue_arguments import check_queue_arguments
from amqp_server.broker.handlers.bindings import (
    make_binding,
    record_unbound,
    reply_when_unbound,
    require_binding,
)
from amqp_server.broker.handlers.direct_reply import is_reply_name, reply_declare_ok
from amqp_server.broker.handlers.handler import Handlers
from amqp_server.broker.handlers.replies import (
    reply_after_deletion,
    send_reply,
    when_deleted,
    when_up_to_date,
)
from amqp_server.broker.handlers.stream_consumers import refuse_stream
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.queue import PURGE_STEP_OFFSETS
from amqp_server.broker.queue_settings import dead_letter_exchange_of
from amqp_server.protocol.errors import AccessRefused, PreconditionFailed
from amqp_server.protocol.methods import (
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.handlers.handler import MethodSteps, Outcome
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.methods import Method

logger = logging.getLogger("amqp_server.broker.handlers.queue")


def declare(channel: Channel, method: QueueDeclare) -> Outcome:
    """Create a queue, or check that the existing one has the same properties."""
    if is_reply_name(method.queue):
        ok = reply_declare_ok(channel, clean_name(method.queue))
        return send_reply(channel, None if method.no_wait else ok)
    if method.passive:
        # An empty name does not mean the last declared queue: RabbitMQ reports that '' is missing.
        channel.client.rights.require_any("queue", clean_name(method.queue))
        queue = find_named_queue(channel, clean_name(method.queue))
        channel.last_queue_name = queue.name
        queue.note_use()
        return _exists(channel, queue, method)
    vhost = channel.virtual_host
    method = with_queue_type(vhost, method)
    named = clean_name(method.queue)
    if not named:
        check_server_may_name(method)
    if is_reserved(named):
        # RabbitMQ refuses such a name even if the queue exists and belongs to the client.
        raise AccessRefused(f"queue name '{named}' contains reserved prefix 'amq.*'")
    # The same name if a back end has to be asked first, and the method is handled again.
    name = named or channel.unused_queue_name or generated_name()
    if not named:
        channel.unused_queue_name = name
    rights = channel.client.rights
    rights.require(Right.CONFIGURE, "queue", name)
    existing = queue_of_name(channel, name)
    if existing is not None:
        check_not_locked(channel, existing)
        existing.note_use()
        check_equivalent_queue(existing, method)
        channel.last_queue_name = name
        channel.broker.churn.queue_declared += 1
        if existing.store.awaits_definition:
            # The definition is on its way to the disk, and this reply must not come earlier.
            return declared(existing, method, channel.broker.definition_writer.save_queue(existing))
        return _exists(channel, existing, method)
    if name in vhost.deletions.queues:
        pending = partial(vhost.deletions.queues.get, name)
        return when_deleted(pending, channel, declare, method)
    # As in RabbitMQ, before permissions of dead letters and before the arguments.
    check_limit(
        f"declare queue '{name}'",
        f"queue limit in vhost '{vhost.name}'",
        len(vhost.queues),
        queues_max(vhost, channel.broker.config.limits.queues_max),
    )
    dead_letter_exchange = dead_letter_exchange_of(method.arguments)
    if dead_letter_exchange is not None:
        rights.require(Right.READ, "queue", name)
        rights.require(Right.WRITE, "exchange", dead_letter_exchange)
    check_queue_name_is_free(vhost, name, is_saved=method.durable and not method.exclusive)
    check_queue_arguments(name, vhost.name, method)
    if not named:
        channel.unused_queue_name = ""
    queue = channel.broker.create_queue(
        vhost,
        name,
        durable=method.durable,
        exclusive_owner=channel.client if method.exclusive else None,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
    )
    channel.last_queue_name = name
    channel.broker.churn.queue_declared += 1
    channel.broker.audit.record(
        "queue.created",
        channel.client.actor,
        vhost=vhost.name,
        name=name,
        details={
            "durable": method.durable,
            "exclusive": method.exclusive,
            "auto_delete": method.auto_delete,
            "arguments": audited_table(method.arguments),
        },
        is_session=method.exclusive,
        attributes=lambda: {
            "arguments": queue.arguments,
            "owner_pid": channel.client.name if method.exclusive else "",
            "type": queue.settings.type.value,
        },
    )
    if queue.is_journaled:
        return declared(queue, method, channel.broker.definition_writer.save_queue(queue))
    return send_reply(channel, None if method.no_wait else declare_ok(queue))


async def declared(queue: Queue, method: QueueDeclare, saving: Awaitable[None]) -> Method | None:
    """Return the reply to a declare when the definition is durable."""
    await saving
    return await _counted(queue, method)


def _exists(
    channel: Channel, queue: Queue, method: QueueDeclare
) -> Awaitable[Method | None] | None:
    """Reply to the declare of an existing queue, once expired messages do not count any more."""
    if queue.bring_up_to_date():
        return send_reply(channel, None if method.no_wait else declare_ok(queue))
    return _counted(queue, method)


async def _counted(queue: Queue, method: QueueDeclare) -> Method | None:
    await queue.until_up_to_date()
    return None if method.no_wait else declare_ok(queue)


def declare_ok(queue: Queue) -> QueueDeclareOk:
    """Return the reply to a declare of a queue that is up to date.

    It counts ready messages only, as in RabbitMQ.
    """
    return QueueDeclareOk(
        queue=queue.name, message_count=queue.ready_count, consumer_count=queue.consumer_count
    )


def generated_name() -> str:
    """Return a name for a queue that was declared without one."""
    return "amq.gen-" + urlsafe_b64encode(token_bytes(16)).rstrip(b"=").decode()


def bind(channel: Channel, method: QueueBind) -> Awaitable[Method | None] | None:
    """Bind a queue to an exchange."""
    name = queue_name(channel, method.queue)
    exchange_name = clean_name(method.exchange)
    key = method.routing_key
    if not method.queue and not key:
        # Source: specification, queue.bind: an unnamed queue without a key is bound by its name.
        key = name
    require_binding(channel, "queue", name, exchange_name, key)
    # If both are missing, RabbitMQ names the exchange.
    exchange = find_exchange(channel.virtual_host, exchange_name)
    queue = find_named_queue(channel, name)
    reply = None if method.no_wait else QueueBindOk()
    return make_binding(channel, exchange, queue, key, method.arguments, reply)


def unbind(channel: Channel, method: QueueUnbind) -> Outcome:
    """Unbind a queue from an exchange; a missing binding counts as removed, as in RabbitMQ."""
    vhost = channel.virtual_host
    name = queue_name(channel, method.queue)
    exchange_name = clean_name(method.exchange)
    key = method.routing_key
    if not method.queue and not key:
        key = name
    require_binding(channel, "queue", name, exchange_name, key)
    queue = queue_of_name(channel, name)
    exchange = vhost.exchanges.get(exchange_name)
    identity = BindingIdentity(exchange_name, "queue", name, key, encode_table(method.arguments))
    if queue is None or exchange is None:
        if name in vhost.deletions.queues:
            pending = partial(vhost.deletions.queues.get, name)
            return when_deleted(pending, channel, unbind, method)
        if exchange_name in vhost.deletions.exchanges:
            pending = partial(vhost.deletions.exchanges.get, exchange_name)
            return when_deleted(pending, channel, unbind, method)
        return reply_when_unbound(channel, identity, QueueUnbindOk())
    if identity not in exchange.bindings:
        if identity.document_name in vhost.damaged.damaged_bindings:
            unbound = channel.broker.remove_damaged_binding(vhost, identity.document_name)
            return send_reply(channel, QueueUnbindOk(), unbound)
        return reply_when_unbound(channel, identity, QueueUnbindOk())
    check_not_locked(channel, queue)
    binding = vhost.unbind(exchange, queue, key, method.arguments)
    assert binding is not None, "the exchange has this binding"
    record_unbound(channel, binding)
    return reply_after_deletion(
        channel, QueueUnbindOk(), channel.broker.remove_binding(vhost, binding)
    )


def purge(channel: Channel, method: QueuePurge) -> Awaitable[Method | None] | None:
    """Drop the ready messages; a journaled queue replies after the checkpoint."""
    channel.client.rights.require(Right.READ, "queue", queue_name(channel, method.queue))
    queue = find_queue(channel, method.queue)
    refuse_stream(queue, "queue.purge")
    if not queue.bring_up_to_date():
        return when_up_to_date(queue, channel, purge, method)
    is_long = queue.store.end_offset - queue.settlement.ack_floor > PURGE_STEP_OFFSETS
    # Begin now: what is published after this method stays.
    purging = queue.purge()
    if is_long:
        counts: list[int] = []
        # A purge that finds nothing more must wait for this one.
        queue.purge_under_way = ensure_future(_purge_in_turns(channel, queue, purging, counts))
        return _purge_reply(queue.purge_under_way, method, counts)
    count = sum(purging)
    _record_purge(channel, queue, count)
    reply = None if method.no_wait else QueuePurgeOk(message_count=count)
    if queue.is_journaled and (count or _has_failed(queue.purge_under_way)):
        queue.purge_under_way = ensure_future(channel.broker.make_settlement_durable(queue))
    elif queue.purge_under_way is None or queue.purge_under_way.done():
        return send_reply(channel, reply)
    # An empty queue stays empty after a crash only when the purge that emptied it is on the disk.
    return send_reply(channel, reply, shield(queue.purge_under_way))


async def _purge_in_turns(
    channel: Channel, queue: Queue, purging: Iterator[int], counts: list[int]
) -> None:
    """Take all steps of a purge; return when what it settled cannot come back."""

    def steps() -> Iterator[None]:
        for count in purging:
            counts.append(count)
            yield

    name = f"purge of queue {queue.name!r}"
    await done_in_turns(channel.broker.turn, channel.client.line, steps(), name)
    _record_purge(channel, queue, sum(counts))
    if queue.is_journaled:
        await channel.broker.make_settlement_durable(queue)


def _record_purge(channel: Channel, queue: Queue, count: int) -> None:
    channel.broker.audit.record(
        "queue.purged",
        channel.client.actor,
        vhost=queue.virtual_host.name,
        name=queue.name,
        details={"messages": count},
        is_session=queue.exclusive_owner is not None,
    )


async def _purge_reply(
    purged: Future[None], method: QueuePurge, counts: list[int]
) -> Method | None:
    await shield(purged)
    return None if method.no_wait else QueuePurgeOk(message_count=sum(counts))


def _has_failed(purge_under_way: Future[None] | None) -> bool:
    if purge_under_way is None or not purge_under_way.done():
        return False
    return purge_under_way.cancelled() or purge_under_way.exception() is not None


def delete(channel: Channel, method: QueueDelete) -> Outcome:
    """Delete a queue, after the commit that holds it; a missing one counts as deleted.

    Messages that have expired are gone first, in steps: the reply says how many are left.
    """
    name = queue_name(channel, method.queue)
    channel.client.rights.require(Right.CONFIGURE, "queue", name)
    queue = queue_of_name(channel, name)
    if queue is not None:
        check_not_locked(channel, queue)
        if queue.is_held or not queue.bring_up_to_date():
            return _delete_in_steps(channel, queue, method)
    return delete_now(channel, method)


def _delete_in_steps(channel: Channel, queue: Queue, method: QueueDelete) -> MethodSteps:
    # Nothing that the client has sent later comes before, not even a declare.
    yield from channel.broker.commits.until_released(channel.client, (queue,))
    while not (queue.is_deleted or queue.is_at_work or queue.bring_up_to_date()):
        yield
    outcome = delete_now(channel, method)
    return (yield from outcome) if isinstance(outcome, Generator) else outcome


def delete_now(channel: Channel, method: QueueDelete) -> Outcome:
    """Delete a queue even if a commit holds it: the rest of the commit does not reach it."""
    vhost = channel.virtual_host
    name = queue_name(channel, method.queue)
    queue = queue_of_name(channel, name)
    if queue is None:
        ok = None if method.no_wait else QueueDeleteOk(message_count=0)
        if not vhost.damaged.is_queue(name):
            # Another client's delete may still wait for the disk, and this reply must not come
            # earlier. Or the disk has refused an earlier delete.
            removed = channel.broker.definitions.make_queue_removed(vhost.name, name)
            return send_reply(channel, ok, removed)
        if method.if_empty:
            raise PreconditionFailed(f"queue '{name}' in vhost '{vhost.name}' not empty")
        # RabbitMQ does the same with a queue that has crashed.
        return reply_after_deletion(
            channel, ok, channel.broker.delete_damaged_queue(vhost, name, channel)
        )
    check_not_locked(channel, queue)
    # Shards are deleted together, and cannot wait. For other queues little is left to do.
    queue.finish_due()
    where = f"queue '{queue.name}' in vhost '{vhost.name}'"
    if method.if_empty and queue.ready_count:
        raise PreconditionFailed(f"{where} not empty")
    if method.if_unused and queue.consumer_count:
        raise PreconditionFailed(f"{where} in use")
    reply = None if method.no_wait else QueueDeleteOk(message_count=queue.ready_count)
    return reply_after_deletion(channel, reply, channel.broker.delete_queue(queue, channel))


QUEUE_HANDLERS: Handlers = {
    QueueDeclare: declare,
    QueueBind: bind,
    QueueUnbind: unbind,
    QueuePurge: purge,
    QueueDelete: delete,
}
