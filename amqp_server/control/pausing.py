"""The commands `queues.pause` and `queues.resume`: consumers get nothing, publishes go on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.access.permissions import Right
from amqp_server.control.browse import find_queue
from amqp_server.control.command_channel import refused
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from amqp_server.control.requesting_user import rights_in
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue

_ARGUMENTS: Final = {"vhost": str, "name": str}


async def set_paused(
    broker: Broker, access: AccessControl, vhost: str, name: str, *, is_paused: bool
) -> dict[str, bool]:
    """Pause a queue, or let it deliver again. A pause survives a restart if the queue does.

    It takes effect at once, and is on the disk when this returns.

    Args:
        broker: Broker with the queue.
        access: Users and permissions.
        vhost: Virtual host of the queue.
        name: Name of the queue.
        is_paused: Whether it is paused from now on.

    Raises:
        ControlError: The queue does not exist, the user may not configure it, or the disk refused.
    """
    queue = find_queue(broker, vhost, name)
    with refused():
        rights_in(access, vhost).require(Right.CONFIGURE, "queue", name)
    if queue.is_paused == is_paused:
        return {"changed": False}
    queue.set_paused(is_paused=is_paused)
    event = "queue.paused" if is_paused else "queue.resumed"
    try:
        await _save(broker, queue)
    except MetadataError as error:
        if queue.is_paused == is_paused:
            queue.set_paused(is_paused=not is_paused)
        raise ControlError(ErrorKind.FAILED, str(error)) from error
    broker.audit.record(event, vhost=vhost, name=name, is_session=queue.exclusive_owner is not None)
    return {"changed": True}


async def _save(broker: Broker, queue: Queue) -> None:
    """Write the definition of a queue that has one."""
    if not queue.is_journaled:
        return
    if queue.store.awaits_definition:
        # It may be refused, and then the queue is gone: it must not get a definition again.
        await broker.definition_writer.until_done()
    if queue.is_deleted:
        reason = f"queue '{queue.name}' was deleted during the request"
        raise ControlError(ErrorKind.NOT_FOUND, reason)
    await broker.definitions.save_queue(queue)


def pausing_commands(broker: Broker, access: AccessControl) -> tuple[Command, ...]:
    """Return the commands that pause queues, of a server with these parts."""
    return (
        Command("queues.pause", partial(set_paused, broker, access, is_paused=True), _ARGUMENTS),
        Command("queues.resume", partial(set_paused, broker, access, is_paused=False), _ARGUMENTS),
    )
