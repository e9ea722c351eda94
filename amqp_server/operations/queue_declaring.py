"""Declares queues: creates one, or checks that the existing one is what the client asks for."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, NamedTuple, Protocol

from amqp_server.access.permissions import Right
from amqp_server.broker.audited_table import audited_table
from amqp_server.broker.consuming.direct_reply import DIRECT_REPLY_TO
from amqp_server.broker.declaring.default_queue_type import (
    check_server_may_name,
    with_queue_type,
)
from amqp_server.broker.declaring.equivalence import check_equivalent_queue
from amqp_server.broker.declaring.names import (
    check_not_locked,
    check_queue_name_is_free,
    clean_name,
    find_named_queue,
    is_reserved,
    queue_of_name,
)
from amqp_server.broker.declaring.object_limits import check_limit, queues_max
from amqp_server.broker.declaring.queue_arguments import check_queue_arguments
from amqp_server.broker.queue_settings import dead_letter_exchange_of
from amqp_server.operations.applied import Applied
from amqp_server.operations.deferring import when_deleted
from amqp_server.protocol.errors import AccessRefused, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.queue import Queue
    from amqp_server.operations.applied import Operation
    from amqp_server.protocol.methods import QueueDeclare


class DeclaredQueue(Protocol):
    """What the reply to a declare says; it counts ready messages only, as in RabbitMQ."""

    @property
    def name(self) -> str:
        """Name of the queue, given by the server if the client gave none."""

    @property
    def ready_count(self) -> int:
        """Messages that can be delivered."""

    @property
    def consumer_count(self) -> int:
        """Consumers of all clients."""


class _ReplyQueue(NamedTuple):
    """What a declare says of a consumer of direct replies."""

    name: str
    ready_count: int = 0
    consumer_count: int = 1


def declare_queue(channel: Channel, method: QueueDeclare) -> Operation[DeclaredQueue]:
    """Create a queue, or check that the existing one has the same properties.

    A declare that is passive, or that names a consumer of direct replies, only checks that there is
    one.

    Raises:
        AmqpError: The client may not, the arguments are not valid, the existing queue has others,
            or there is no such queue to check.
    """
    if method.queue.startswith(DIRECT_REPLY_TO):
        return Applied(_find_replies(channel, clean_name(method.queue)))
    if method.passive:
        # An empty name does not mean the last declared queue: RabbitMQ reports that '' is missing.
        channel.client.rights.require_any("queue", clean_name(method.queue))
        queue = find_named_queue(channel, clean_name(method.queue))
        channel.last_queue_name = queue.name
        queue.record_use()
        return _exists(queue)
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
        existing.record_use()
        check_equivalent_queue(existing, method)
        channel.last_queue_name = name
        channel.broker.churn.queue_declared += 1
        if existing.store.awaits_definition:
            # The definition is on its way to the disk, and this reply must not come earlier.
            saving = channel.broker.definition_writer.save_queue(existing)
            return Applied(existing, _saved(existing, saving))
        return _exists(existing)
    if name in vhost.deletions.queues:
        pending = partial(vhost.deletions.queues.get, name)
        return when_deleted(pending, channel, declare_queue, method)
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
    _record(channel, method, queue)
    if queue.is_journaled:
        return Applied(queue, _saved(queue, channel.broker.definition_writer.save_queue(queue)))
    return Applied(queue)


def generated_name() -> str:
    """Return a name for a queue that was declared without one."""
    return "amq.gen-" + urlsafe_b64encode(token_bytes(16)).rstrip(b"=").decode()


def _find_replies(channel: Channel, name: str) -> _ReplyQueue:
    """Return the consumer of direct replies with a name.

    Raises:
        NotFound: It does not exist.
    """
    vhost = channel.virtual_host
    if not vhost.replies.exists(name):
        raise NotFound(f"no queue '{name}' in vhost '{vhost.name}'")
    channel.last_queue_name = name
    return _ReplyQueue(name)


def _exists(queue: Queue) -> Applied[DeclaredQueue]:
    """Return an existing queue, once expired messages do not count any more."""
    if queue.bring_up_to_date():
        return Applied(queue)
    return Applied(queue, queue.until_up_to_date())


async def _saved(queue: Queue, saving: Awaitable[None]) -> None:
    await saving
    await queue.until_up_to_date()


def _record(channel: Channel, method: QueueDeclare, queue: Queue) -> None:
    channel.broker.audit.record(
        "queue.created",
        channel.client.actor,
        vhost=channel.virtual_host.name,
        name=queue.name,
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
