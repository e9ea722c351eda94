"""The commands `exchanges.declare` and `exchanges.delete`.

They begin the operations of AMQP's methods, which audit what they do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.control.command_channel import command_channel
from amqp_server.control.field_tables import checked_name, field_table
from amqp_server.control.registry import Command
from amqp_server.operations.exchange_declaring import declare_exchange
from amqp_server.operations.exchange_deleting import delete_exchange
from amqp_server.protocol.methods import ExchangeDeclare, ExchangeDelete

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker


async def declare(
    broker: Broker,
    access: AccessControl,
    vhost: str,
    name: str,
    type: str,  # noqa: A002 - the name of the argument on the socket
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: dict[str, Any],
) -> dict[str, object]:
    """Create an exchange, or check that the existing one is the same.

    Returns when it is on the disk.

    Args:
        broker: Broker of the server.
        access: Users and permissions.
        vhost: Name of the virtual host.
        name: Name of the exchange.
        type: Type of the exchange.
        durable: Whether the exchange survives a restart.
        auto_delete: Whether it ends with its last binding.
        internal: Whether clients may not publish to it.
        arguments: Arguments as JSON values.

    Raises:
        ControlError: An argument is not valid, AMQP refuses, or the disk failed.
    """
    channel = command_channel("exchanges.declare", broker, access, vhost)
    method = ExchangeDeclare(
        exchange=checked_name("name", name),
        type=checked_name("type", type),
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=field_table(arguments),
    )
    known = name in channel.virtual_host.exchanges
    await channel.carry_out(partial(declare_exchange, channel, method))
    return {"created": not known}


async def delete(
    broker: Broker, access: AccessControl, vhost: str, name: str, if_unused: bool
) -> dict[str, object]:
    """Delete an exchange; return when it cannot come back. A missing one counts as deleted.

    Raises:
        ControlError: AMQP refuses, or the disk failed.
    """
    channel = command_channel("exchanges.delete", broker, access, vhost)
    method = ExchangeDelete(exchange=checked_name("name", name), if_unused=if_unused)
    known = name in channel.virtual_host.exchanges
    await channel.carry_out(partial(delete_exchange, channel, method))
    return {"existed": known}


def exchange_commands(broker: Broker, access: AccessControl) -> tuple[Command, ...]:
    """Return the commands that change the exchanges of a server with these parts."""
    place = {"vhost": str, "name": str}
    return (
        Command(
            "exchanges.declare",
            partial(declare, broker, access),
            {
                **place,
                "type": str,
                "durable": bool,
                "auto_delete": bool,
                "internal": bool,
                "arguments": dict,
            },
        ),
        Command("exchanges.delete", partial(delete, broker, access), {**place, "if_unused": bool}),
    )
