"""Verbs of shovels, as RabbitMQ's plugin adds them to rabbitmqctl."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.output import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

_COLUMNS = {
    "destination": "dest_uri",
    "destination_exchange": "dest_exchange",
    "destination_exchange_key": "dest_exchange_key",
    "destination_protocol": "dest_protocol",
    "destination_queue": "dest_queue",
    "last_changed": "timestamp",
    "name": "name",
    "source": "src_uri",
    "source_exchange": "src_exchange",
    "source_exchange_key": "src_exchange_key",
    "source_protocol": "src_protocol",
    "source_queue": "src_queue",
    "state": "state",
    "termination_reason": "reason",
    "type": "type",
    "vhost": "vhost",
}
"""Columns, and the members of a shovel that they show."""


def shovel_status(call: Call) -> Rows:
    """List the shovels of all virtual hosts."""
    call.banner(f"Shovel status on node {call.node}")
    rows = [
        [found.get(member, "") for member in _COLUMNS.values()]
        for found in call.ask("shovels.list")
    ]
    return Rows(tuple(_COLUMNS), rows)


def restart_shovel(call: Call) -> None:
    """Start a shovel again."""
    (name,) = call.arguments
    call.banner(
        f"Restarting dynamic Shovel {name} in virtual host {call.vhost} on node {call.node}"
    )
    try:
        call.ask("shovels.restart", vhost=call.vhost, name=name)
    except RefusedError as refused:
        raise _missing(call) if refused.kind == "not_found" else refused from refused


def delete_shovel(call: Call) -> None:
    """Delete a shovel."""
    (name,) = call.arguments
    call.banner(f"Deleting shovel {name} in vhost {call.vhost}")
    place = {"vhost": call.vhost, "component": "shovel", "name": name}
    try:
        existed = call.ask("parameters.clear", **place)
    except RefusedError as refused:
        raise _missing(call) if refused.kind == "not_found" else refused from refused
    if not existed:
        raise _missing(call)


def _missing(call: Call) -> ToolFailedError:
    return ToolFailedError(
        UNAVAILABLE,
        f"Shovel with the given name was not found on the target node '{call.node}' and / or "
        f"virtual host '{call.vhost}'",
    )
