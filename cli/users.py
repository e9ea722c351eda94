"""The command `amqp-server users`: users of the running server."""

from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.access.passwords import PasswordHash
from cli.confirmation import confirm
from cli.control import EXIT_CODES, ask_server, check_utf8, storage_path_option
from cli.display import shown
from cli.passwords import chosen_hash, password_options
from cli.table import write_table

_HELP: Final = {"help_option_names": ["-h", "--help"]}


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server users add worker --tags monitoring; amqp-server users list; "
        f"amqp-server users delete worker --yes. {EXIT_CODES}"
    ),
)
@click.pass_context
def users(ctx: click.Context) -> None:
    """List, add, change and delete users of the running server.

    A new user may do nothing: see `amqp-server permissions`.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("write what to do: add, delete, list, password, reset or tags")


@users.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON array of objects.")
@storage_path_option
def list_all(storage_path: Path, *, as_json: bool) -> int:
    """List the users with their tags, how they log in, and in how many vhosts they may work."""
    found = ask_server(storage_path, "users.list")
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return 0
    write_table(
        ("NAME", "TAGS", "PASSWORD", "VHOSTS"),
        [
            (
                shown(user["name"]) + (" (default)" if user["is_default"] else ""),
                shown(",".join(user["tags"])),
                _kind(user),
                str(user["vhosts"]),
            )
            for user in found
        ],
        right={"VHOSTS"},
    )
    return 0


def _kind(user: dict[str, Any]) -> str:
    algorithm = user["hashing_algorithm"]
    return "none" if algorithm is None else algorithm.rpartition("_")[2]


@users.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@password_options
@click.option("--tags", default="", callback=check_utf8, help="Tags, comma-separated.")
@storage_path_option
def add(
    name: str,
    tags: str,
    storage_path: Path,
    password_file: Path | None,
    password_hash: str | None,
    hashing_algorithm: str,
    *,
    no_password: bool,
) -> int:
    """Add the user NAME: any text of 1 to 255 bytes. Asks for the password."""
    given = chosen_hash(password_file, password_hash, hashing_algorithm, no_password)
    _ask_with_hash(storage_path, "users.add", name, given, tags=_tags(tags))
    click.echo(f"added user '{shown(name)}', who may do nothing yet: see amqp-server permissions")
    return 0


@users.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@password_options
@storage_path_option
def password(
    name: str,
    storage_path: Path,
    password_file: Path | None,
    password_hash: str | None,
    hashing_algorithm: str,
    *,
    no_password: bool,
) -> int:
    """Change the password of the user NAME; open connections stay."""
    given = chosen_hash(password_file, password_hash, hashing_algorithm, no_password)
    _ask_with_hash(storage_path, "users.change_password", name, given)
    click.echo(f"changed the password of user '{shown(name)}'")
    return 0


@users.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@click.argument("tags", nargs=-1, callback=lambda ctx, param, each: each)
@storage_path_option
def tags(name: str, tags: tuple[str, ...], storage_path: Path) -> int:
    """Replace the tags of the user NAME, with none by default.

    Known tags are administrator, monitoring, policymaker, management and impersonator.
    """
    ask_server(storage_path, "users.set_tags", name=name, tags=list(tags))
    click.echo(f"user '{shown(name)}' has the tags: {shown(', '.join(tags)) or 'none'}")
    return 0


@users.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("name", callback=check_utf8)
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@storage_path_option
def delete(name: str, storage_path: Path, *, yes: bool) -> int:
    """Delete the user NAME with all permissions; closes its connections (320)."""
    confirm(f"Delete user '{shown(name)}' and close its connections?", yes=yes)
    ask_server(storage_path, "users.delete", name=name)
    click.echo(f"deleted user '{shown(name)}'")
    return 0


@users.command(
    context_settings=_HELP,
    epilog=f"The way back if the documents of users are lost or damaged. {EXIT_CODES}",
)
@click.argument("name", default="guest", callback=check_utf8)
@password_options
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@storage_path_option
def reset(
    name: str,
    storage_path: Path,
    password_file: Path | None,
    password_hash: str | None,
    hashing_algorithm: str,
    *,
    no_password: bool,
    yes: bool,
) -> int:
    """Create or replace the user NAME (guest) as an administrator with all rights."""
    given = chosen_hash(password_file, password_hash, hashing_algorithm, no_password)
    confirm(f"Give user '{shown(name)}' a new password and all rights in all vhosts?", yes=yes)
    result = _ask_with_hash(storage_path, "users.reset", name, given)
    click.echo(f"user '{shown(name)}' may do everything in {result['vhosts']} vhosts")
    return 0


def _ask_with_hash(
    storage_path: Path, command: str, name: str, given: PasswordHash, **more: object
) -> Any:  # noqa: ANN401 - whatever the command returns
    """Send a command about a user with the hash of a password; return its result."""
    hashed = {"password_hash": given.text, "hashing_algorithm": given.algorithm}
    return ask_server(storage_path, command, name=name, **hashed, **more)


def _tags(text: str) -> list[str]:
    return [tag for each in text.split(",") if (tag := each.strip())]
