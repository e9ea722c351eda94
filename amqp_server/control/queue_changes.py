"""The commands `queues.declare`, `queues.delete` and `queues.purge`.

They begin the operations of AMQP's methods, which audit what they do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.control.command_channel import command_channel
from amqp_server.control.field_tables import checked_name, field_table
from amqp_server.control.registry import Command
from amqp_server.operations.queue_declaring import declare_queue
from amqp_server.operations.queue_deleting import delete_queue
from amqp_server.operations.queue_purging import purge_queue
from amqp_server.protocol.methods import QueueDeclare, QueueDelete, QueuePurge

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker


async def declare(
    broker: Broker,
    access: AccessControl,
    vhost: str,
    name: str,
    durable: bool,
    auto_delete: bool,
    arguments: dict[str, Any],
) -> dict[str, object]:
    """Create a queue, or check that the existing one is the same; return when it is on the disk.

    Args:
        broker: Broker of the server.
        access: Users and permissions.
        vhost: Name of the virtual host.
        name: Name of the queue; empty: the server makes one.
        durable: Whether the queue survives a restart.
        auto_delete: Whether it ends with its last consumer.
        arguments: Arguments as JSON values.

    Raises:
        ControlError: An argument is not valid, AMQP refuses, or the disk failed.
    """
    channel = command_channel("queues.declare", broker, access, vhost)
    method = QueueDeclare(
        queue=checked_name("name", name),
        durable=durable,
        auto_delete=auto_delete,
        arguments=field_table(arguments),
    )
    known = name in channel.virtual_host.queues
    await channel.carry_out(partial(declare_queue, channel, method))
    return {"created": not known, "name": channel.last_queue_name}


async def delete(
    broker: Broker, access: AccessControl, vhost: str, name: str, if_empty: bool, if_unused: bool
) -> dict[str, object]:
    """Delete a queue; return when nothing of it can come back. A missing one counts as deleted.

    Raises:
        ControlError: AMQP refuses, or the disk failed.
    """
    channel = command_channel("queues.delete", broker, access, vhost)
    method = QueueDelete(queue=checked_name("name", name), if_empty=if_empty, if_unused=if_unused)
    known = name in channel.virtual_host.queues
    messages = await channel.carry_out(partial(delete_queue, channel, method))
    return {"messages": messages, "existed": known}


async def purge(broker: Broker, access: AccessControl, vhost: str, name: str) -> dict[str, object]:
    """Drop the ready messages of a queue; return when they cannot come back.

    Raises:
        ControlError: There is no such queue, AMQP refuses, or the disk failed.
    """
    channel = command_channel("queues.purge", broker, access, vhost)
    method = QueuePurge(queue=checked_name("name", name))
    purged = await channel.carry_out(partial(purge_queue, channel, method))
    return {"messages": purged.messages}


def queue_commands(broker: Broker, access: AccessControl) -> tuple[Command, ...]:
    """Return the commands that change the queues of a server with these parts."""
    place = {"vhost": str, "name": str}
    return (
        Command(
            "queues.declare",
            partial(declare, broker, access),
            {**place, "durable": bool, "auto_delete": bool, "arguments": dict},
        ),
        Command(
            "queues.delete",
            partial(delete, broker, access),
            {**place, "if_empty": bool, "if_unused": bool},
        ),
        Command("queues.purge", partial(purge, broker, access), place),
    )
