"""The commands `shovels.list` and `shovels.restart`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command

if TYPE_CHECKING:
    from amqp_server.children.shovel_process import ShovelProcess


async def list_all(shovels: ShovelProcess) -> list[dict[str, Any]]:
    """Return the shovels by virtual host and name, each with its state."""
    return shovels.rows()


async def restart(shovels: ShovelProcess, vhost: str, name: str) -> None:
    """Start a shovel again.

    Raises:
        ControlError: There is none.
    """
    if not shovels.restart(vhost, name):
        reason = f"shovel '{name}' in vhost '{vhost}' does not exist"
        raise ControlError(ErrorKind.NOT_FOUND, reason)


def shovel_commands(shovels: ShovelProcess) -> tuple[Command, ...]:
    """Return the commands `shovels.*` of a server with this process of shovels."""
    return (
        Command("shovels.list", partial(list_all, shovels)),
        Command(
            "shovels.restart",
            partial(restart, shovels),
            {"vhost": str, "name": str},
            audited=Audited("shovel.restarted", name="name"),
        ),
    )
