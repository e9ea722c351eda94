"""The commands `amqp-server permissions` and `amqp-server topic-permissions`."""

from pathlib import Path
from typing import Final

import click
import orjson

from cli.control import EXIT_CODES, ask_server, check_utf8, storage_path_option
from cli.display import shown
from cli.table import write_table

_HELP: Final = {"help_option_names": ["-h", "--help"]}

vhost_option = click.option(
    "--vhost", default="/", show_default=True, callback=check_utf8, help="Virtual host."
)


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server permissions set worker --write '^orders' --read '^orders'; "
        f"amqp-server permissions list --user worker. {EXIT_CODES}"
    ),
)
@click.pass_context
def permissions(ctx: click.Context) -> None:
    """List, set and clear what users of the running server may do.

    A permission is a regular expression that is searched in the names of queues and exchanges;
    `.*` allows all, and an empty one nothing that has a name.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("write what to do: clear, list or set")


@permissions.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.option("--vhost", callback=check_utf8, help="Of this virtual host only.")
@click.option("--user", callback=check_utf8, help="Of this user only.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON array of objects.")
@storage_path_option
def list_permissions(
    vhost: str | None, user: str | None, storage_path: Path, *, as_json: bool
) -> int:
    """List permissions by virtual host and user."""
    _list(
        "permissions.list",
        ("vhost", "user", "configure", "write", "read"),
        vhost,
        user,
        storage_path,
        as_json=as_json,
    )
    return 0


@permissions.command("set", context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("user", callback=check_utf8)
@vhost_option
@click.option("--configure", default="", callback=check_utf8, help="May declare and delete.")
@click.option("--write", default="", callback=check_utf8, help="May publish and bind to.")
@click.option("--read", default="", callback=check_utf8, help="May consume and bind from.")
@storage_path_option
def set_permissions(
    user: str, vhost: str, configure: str, write: str, read: str, storage_path: Path
) -> int:
    """Set what USER may do in a virtual host; what is not given is not allowed."""
    ask_server(
        storage_path,
        "permissions.set",
        vhost=vhost,
        user=user,
        configure=configure,
        write=write,
        read=read,
    )
    click.echo(
        f"user '{shown(user)}' may in vhost '{shown(vhost)}': configure '{shown(configure)}', "
        f"write '{shown(write)}', read '{shown(read)}'"
    )
    return 0


@permissions.command("clear", context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("user", callback=check_utf8)
@vhost_option
@storage_path_option
def clear_permissions(user: str, vhost: str, storage_path: Path) -> int:
    """Remove all that USER may do in a virtual host; open connections stay."""
    existed = ask_server(storage_path, "permissions.clear", vhost=vhost, user=user)
    done = "may do nothing any more" if existed else "had no permissions"
    click.echo(f"user '{shown(user)}' {done} in vhost '{shown(vhost)}'")
    return 0


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Example: amqp-server topic-permissions set worker events --write '^{username}\\.'. "
        f"{EXIT_CODES}"
    ),
)
@click.pass_context
def topic_permissions(ctx: click.Context) -> None:
    """List, set and clear with which routing keys users may work at topic exchanges.

    Without such a permission for an exchange, all keys are allowed there.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("write what to do: clear, list or set")


@topic_permissions.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.option("--vhost", callback=check_utf8, help="Of this virtual host only.")
@click.option("--user", callback=check_utf8, help="Of this user only.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON array of objects.")
@storage_path_option
def list_topics(vhost: str | None, user: str | None, storage_path: Path, *, as_json: bool) -> int:
    """List topic permissions by virtual host, user and exchange."""
    _list(
        "topic_permissions.list",
        ("vhost", "user", "exchange", "write", "read"),
        vhost,
        user,
        storage_path,
        as_json=as_json,
    )
    return 0


@topic_permissions.command("set", context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("user", callback=check_utf8)
@click.argument("exchange", callback=check_utf8)
@vhost_option
@click.option("--write", default="", callback=check_utf8, help="Routing keys to publish with.")
@click.option("--read", default="", callback=check_utf8, help="Routing keys to bind with.")
@storage_path_option
def set_topics(
    user: str, exchange: str, vhost: str, write: str, read: str, storage_path: Path
) -> int:
    """Set with which routing keys USER may work at the topic exchange EXCHANGE."""
    ask_server(
        storage_path,
        "topic_permissions.set",
        vhost=vhost,
        user=user,
        exchange=exchange,
        write=write,
        read=read,
    )
    click.echo(
        f"user '{shown(user)}' may at exchange '{shown(exchange)}' in vhost '{shown(vhost)}': "
        f"write '{shown(write)}', read '{shown(read)}'"
    )
    return 0


@topic_permissions.command("clear", context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("user", callback=check_utf8)
@click.argument("exchange", required=False, callback=check_utf8)
@vhost_option
@storage_path_option
def clear_topics(user: str, exchange: str | None, vhost: str, storage_path: Path) -> int:
    """Remove the topic permissions of USER at EXCHANGE, or at all exchanges: all keys again."""
    given = {} if exchange is None else {"exchange": exchange}
    existed = ask_server(storage_path, "topic_permissions.clear", vhost=vhost, user=user, **given)
    where = "all exchanges" if exchange is None else f"exchange '{shown(exchange)}'"
    done = "may use all routing keys again" if existed else "had no topic permissions"
    click.echo(f"user '{shown(user)}' {done} at {where} in vhost '{shown(vhost)}'")
    return 0


def _list(
    command: str,
    columns: tuple[str, ...],
    vhost: str | None,
    user: str | None,
    storage_path: Path,
    *,
    as_json: bool,
) -> None:
    asked = {"vhost": vhost, "user": user}
    given = {name: value for name, value in asked.items() if value is not None}
    found = ask_server(storage_path, command, **given)
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    write_table(
        [column.upper() for column in columns],
        [[shown(row[column]) for column in columns] for row in found],
    )
