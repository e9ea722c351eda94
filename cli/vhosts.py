"""The command `amqp-server vhosts`: virtual hosts of the running server."""

from pathlib import Path
from typing import Any, Final

import click
import orjson

from cli.confirmation import confirm
from cli.control import EXIT_CODES, ask_server, check_utf8, storage_path_option
from cli.display import shown

_HELP: Final = {"help_option_names": ["-h", "--help"]}


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server vhosts add orders; amqp-server vhosts list --json; "
        f"amqp-server vhosts delete orders --yes. {EXIT_CODES}"
    ),
)
@click.pass_context
def vhosts(ctx: click.Context) -> None:
    """List, add and delete virtual hosts of the running server.

    A virtual host is a namespace of exchanges, queues and bindings: equal names in two of them are
    independent. The data directory identifies the server.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("write what to do: add, list or delete")


@vhosts.command(
    context_settings=_HELP,
    epilog=(
        "Example: amqp-server vhosts add team/orders. A client names it percent-encoded in its "
        f"URL: amqp://guest:guest@localhost/team%2Forders. {EXIT_CODES}"
    ),
)
@click.argument("name", callback=check_utf8)
@click.option(
    "--no-permissions", is_flag=True, help="Do not give the default user all rights there."
)
@storage_path_option
def add(name: str, storage_path: Path, *, no_permissions: bool) -> int:
    """Create the virtual host NAME: any text of 1 to 255 bytes.

    It has the predeclared exchanges, and is on the disk when this returns. The user that the data
    directory began with gets all rights there.
    """
    ask_server(storage_path, "vhosts.add", name=name, grants_default_user=not no_permissions)
    click.echo(f"added vhost '{shown(name)}'")
    return 0


@vhosts.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON array of objects.")
@storage_path_option
def list_all(storage_path: Path, *, as_json: bool) -> int:
    """List the virtual hosts, with the connections, queues and ready messages of each."""
    found = ask_server(storage_path, "vhosts.list")
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return 0
    rows = [("CONNECTIONS", "QUEUES", "READY", "NAME")]
    rows += [
        (
            str(vhost["connections"]),
            str(vhost["queues"]),
            str(vhost["messages_ready"]),
            shown(vhost["name"]) + _damaged(vhost),
        )
        for vhost in found
    ]
    for connections, queues, ready, name in rows:
        click.echo(f"{connections:>11}  {queues:>6}  {ready:>10}  {name}")
    return 0


def _damaged(vhost: dict[str, Any]) -> str:
    counts = [(vhost["damaged_queues"], "queues"), (vhost["damaged_exchanges"], "exchanges")]
    parts = [f"{count} damaged {kind}" for count, kind in counts if count]
    return f"  ({', '.join(parts)})" if parts else ""


@vhosts.command(context_settings=_HELP, epilog=f"`/` may be deleted, as in RabbitMQ. {EXIT_CODES}")
@click.argument("name", callback=check_utf8)
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@storage_path_option
def delete(name: str, storage_path: Path, *, yes: bool) -> int:
    """Delete the virtual host NAME with its exchanges, queues and messages.

    Closes its connections (320). The deletion is durable when this returns.
    """
    confirm(f"Delete vhost '{shown(name)}' with its queues and all their messages?", yes=yes)
    ask_server(storage_path, "vhosts.delete", name=name)
    click.echo(f"deleted vhost '{shown(name)}'")
    return 0
