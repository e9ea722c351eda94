"""The command `amqp-server limits`: limits of virtual hosts and users of the running server."""

from pathlib import Path
from typing import Any, Final

import click
import orjson

from cli.control import EXIT_CODES, ask_server, check_utf8, storage_path_option
from cli.display import shown

_HELP: Final = {"help_option_names": ["-h", "--help"]}
_vhost_option = click.option("--vhost", callback=check_utf8, help="Name of the virtual host.")
_user_option = click.option("--user", callback=check_utf8, help="Name of the user.")


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server limits set --vhost orders max-queues=100; amqp-server limits set "
        f"--user shop max-connections=20 max-channels=200; amqp-server limits list. {EXIT_CODES}"
    ),
)
@click.pass_context
def limits(ctx: click.Context) -> None:
    """List, set and clear limits of virtual hosts and users of the running server.

    A virtual host may have max-connections and max-queues, a user max-connections and max-channels.
    0 allows none. A lowered limit disconnects no client and deletes no queue.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("write what to do: list, set or clear")


@limits.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@storage_path_option
def list_all(storage_path: Path, *, as_json: bool) -> int:
    """List the limits, and how much of each is used."""
    found = ask_server(storage_path, "limits.list")
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return 0
    click.echo("      LIMIT        USED  WHAT             OF")
    for kind in ("vhost", "user"):
        for row in found[f"{kind}s"]:
            for name, limit in sorted(row["limits"].items()):
                used = row[name.removeprefix("max-")]
                click.echo(f"{limit:>11}  {used:>10}  {name:<15}  {kind} '{shown(row['name'])}'")
    return 0


@limits.command(
    "set",
    context_settings=_HELP,
    epilog=f"Example: amqp-server limits set --vhost orders max-queues=100. {EXIT_CODES}",
)
@click.argument("pairs", metavar="NAME=NUMBER...", nargs=-1, required=True)
@_vhost_option
@_user_option
@storage_path_option
def set_some(
    pairs: tuple[str, ...], vhost: str | None, user: str | None, storage_path: Path
) -> int:
    """Set limits of one virtual host or one user; other limits stay. -1 is no limit.

    They are on the disk, and count, when this returns.
    """
    kind, name = _whose(vhost, user)
    values = dict(_pair(each) for each in pairs)
    done = ask_server(
        storage_path, "limits.set", kind=kind, name=name, limits=values, replace=False
    )
    _tell(kind, name, done)
    return 0


@limits.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_vhost_option
@_user_option
@storage_path_option
def clear(names: tuple[str, ...], vhost: str | None, user: str | None, storage_path: Path) -> int:
    """End the limits NAME of one virtual host or one user; without a NAME all of them."""
    kind, name = _whose(vhost, user)
    done = ask_server(storage_path, "limits.clear", kind=kind, name=name, limits=list(names))
    _tell(kind, name, done)
    return 0


def _whose(vhost: str | None, user: str | None) -> tuple[str, str]:
    """Return the kind and the name of what has the limits.

    Raises:
        click.UsageError: Not exactly one of the two is named.
    """
    if vhost is not None and user is None:
        return "vhost", vhost
    if user is not None and vhost is None:
        return "user", user
    raise click.UsageError("write either --vhost NAME or --user NAME")


def _pair(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no limit: write its name and a number, for example max-queues=100",
            param_hint="NAME=NUMBER",
        ) from None


def _tell(kind: str, name: str, done: dict[str, Any]) -> None:
    """Write what has changed, a line for each limit."""
    before, after = done["before"], done["after"]
    whose = f"{kind} '{shown(name)}'"
    changed = [each for each in sorted({**before, **after}) if before.get(each) != after.get(each)]
    for each in changed:
        click.echo(f"{whose}: {each} {_shown(before.get(each))} -> {_shown(after.get(each))}")
    if not changed:
        click.echo(f"{whose}: nothing to change")


def _shown(limit: int | None) -> str:
    return "no limit" if limit is None else str(limit)
