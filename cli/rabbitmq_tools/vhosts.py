"""Verbs of virtual hosts."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.call import no_vhost
from cli.rabbitmq_tools.failures import DATA, SOFTWARE, ToolFailedError
from cli.rabbitmq_tools.output import Message, Rows
from cli.rabbitmq_tools.values import Atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_COLUMNS: dict[str, Callable[[dict[str, Any]], object]] = {
    "name": lambda vhost: vhost["name"],
    "tracing": lambda vhost: vhost.get("tracing", False),
    "cluster_state": lambda _vhost: [],
    "description": lambda vhost: vhost.get("metadata", {}).get("description", ""),
    "tags": lambda vhost: list(map(Atom, vhost.get("metadata", {}).get("tags", []))),
    "default_queue_type": lambda vhost: vhost.get("metadata", {}).get(
        "default_queue_type", Atom("undefined")
    ),
    "metadata": lambda vhost: vhost.get("metadata", {}),
}


def list_vhosts(call: Call) -> Rows:
    """List the virtual hosts."""
    columns = call.columns(tuple(_COLUMNS), ("name",))
    call.banner("Listing vhosts ...")
    if set(columns) <= {"name", "tracing"}:
        found = call.ask("vhosts.list")
    else:
        from cli.rabbitmq_tools.rows import rows_of

        found = rows_of(call, "vhosts")
    rows = [[_COLUMNS[name](vhost) for name in columns] for vhost in found]
    return Rows(columns, rows)


def add_vhost(call: Call) -> None:
    """Add a virtual host; one that exists stays as it is."""
    name = call.arguments[0]
    call.banner(f'Adding vhost "{name}" ...')
    try:
        # As in RabbitMQ no user has permissions in it yet.
        call.ask("vhosts.add", name=name, grants_default_user=False)
    except RefusedError as refused:
        if refused.kind == "invalid_argument":
            raise ToolFailedError(DATA, refused.reason) from refused
        if refused.kind != "already_exists":
            raise
    keys = ("description", "tags", "default-queue-type")
    if given := {key.replace("-", "_"): call.options[key] for key in keys if key in call.options}:
        tags = [tag for tag in given.pop("tags", "").split(",") if tag]
        call.ask("vhosts.set", name=name, **given, **({"tags": tags} if tags else {}))


def delete_vhost(call: Call) -> None:
    """Delete a virtual host with all that it holds."""
    name = call.arguments[0]
    call.banner(f'Deleting vhost "{name}" ...')
    try:
        call.ask("vhosts.delete", name=name)
    except RefusedError as refused:
        raise no_vhost(name) if refused.kind == "not_found" else refused from refused


def set_vhost_tags(call: Call) -> None:
    """Replace the tags of a virtual host."""
    name, *tags = call.arguments
    call.banner(f'Setting tags for virtual host "{name}" to [{", ".join(tags)}] ...')
    try:
        call.known_vhost(name)
    except ToolFailedError as missing:
        raise ToolFailedError(DATA, f'Virtual host "{name}" does not exist') from missing
    call.ask("vhosts.set", name=name, tags=tags)


def restart_vhost(call: Call) -> Message:
    """Do nothing: a virtual host that is there runs."""
    call.banner(f"Trying to restart vhost '{call.vhost}' on node '{call.node}' ...")
    try:
        call.known_vhost()
    except ToolFailedError as missing:
        text = (
            f"Failed to start vhost '{call.vhost}' on node '{call.node}'"
            f'Reason: {{:no_such_vhost, "{call.vhost}"}}'
        )
        raise ToolFailedError(SOFTWARE, text) from missing
    return Message(f"Vhost '{call.vhost}' is already running on node '{call.node}'")


def trace_on(call: Call) -> Message:
    """Tell the exchange `amq.rabbitmq.trace` of messages from now on."""
    call.banner(f'Starting tracing for vhost "{call.vhost}" ...')
    _trace(call, is_on=True)
    return Message(f"Trace enabled for vhost {call.vhost}")


def trace_off(call: Call) -> Message:
    """Tell it of messages no longer."""
    call.banner(f'Stopping tracing for vhost "{call.vhost}" ...')
    _trace(call, is_on=False)
    return Message(f"Trace disabled for vhost {call.vhost}")


def _trace(call: Call, *, is_on: bool) -> None:
    try:
        call.ask("vhosts.trace", name=call.vhost, is_on=is_on)
    except RefusedError as refused:
        # RabbitMQ says nothing of a virtual host that does not exist.
        if refused.kind != "not_found":
            raise
