"""The command `amqp-server shards`: exchanges whose queues are shards, on the running server."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.base.config import Durability
from amqp_server.broker.queue_settings import QueueType
from cli.control import (
    EXIT_CODES,
    RequestFailedError,
    ask_server,
    check_utf8,
    storage_path_option,
)
from cli.display import shown, shown_field
from cli.exit_codes import EXIT_FAILED
from cli.units import CountType

_HELP: Final = {"help_option_names": ["-h", "--help"]}
_DECIMAL_DIGITS_MAX: Final = 19
"""Maximum number of digits of a numeric argument: 64 bits have no more."""

vhost_option = click.option(
    "--vhost",
    default="/",
    show_default=True,
    callback=check_utf8,
    help="Virtual host of the exchange.",
)


def _read_arguments(
    _ctx: click.Context, _param: click.Parameter, written: Sequence[str]
) -> dict[str, str | int | bool]:
    """Return arguments of queues by name.

    Raises:
        click.BadParameter: A text is not `KEY=VALUE`, or a key is repeated.
    """
    arguments: dict[str, str | int | bool] = {}
    for each in written:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{shown(each)!r} is not KEY=VALUE")
        if key in arguments:
            raise click.BadParameter(f"'{shown(key)}' is there twice")
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> str | int | bool:
    """Parse a value: a whole number, true, false, or text; quoted text stays text."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _DECIMAL_DIGITS_MAX:
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    return text


@click.group(
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server shards create events --shards 16 --type quorum; "
        f"amqp-server shards list events; amqp-server shards delete events --yes. {EXIT_CODES}"
    ),
)
def shards() -> None:
    """Create, list and delete exchanges whose queues are shards.

    A message goes to the shard with the number `amqp_server.pick_shard(routing_key, count)`: all
    messages of a key go to one queue, in order. docs/sharding.md has patterns for consumers.
    """


@shards.command(
    context_settings=_HELP,
    epilog=(
        "Example: amqp-server shards create events --shards 16 --argument "
        f"x-single-active-consumer=true. {EXIT_CODES}"
    ),
)
@click.argument("exchange", callback=check_utf8)
@click.option("--shards", "count", type=CountType(min=1), required=True, help="Number of shards.")
@click.option(
    "--type",
    "kind",
    type=click.Choice([each.value for each in QueueType]),
    help="Kind of queue.  [default: classic]",
)
@click.option(
    "--durability",
    type=click.Choice([each.value for each in Durability]),
    help="What a publisher confirm waits for.  [default: the server's]",
)
@click.option(
    "--argument",
    "arguments",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_read_arguments,
    help='Argument of each queue; may be repeated. Digits are a number, "..." is text.',
)
@vhost_option
@storage_path_option
def create(
    exchange: str,
    count: int,
    kind: str | None,
    durability: str | None,
    arguments: dict[str, str | int | bool],
    vhost: str,
    storage_path: Path,
) -> int:
    """Create EXCHANGE and the queues EXCHANGE-0, EXCHANGE-1 and so on, each bound as a shard.

    Everything is durable when this returns. Existing parts stay unchanged, so that an interrupted
    create can be repeated. If something else has one of the names, nothing changes.
    """
    for option, name, value in (
        ("--type", "x-queue-type", kind),
        ("--durability", "x-durability", durability),
    ):
        if value is not None and name in arguments:
            raise click.UsageError(f"{option} and --argument {name} say the same")
        if value is not None:
            arguments[name] = value
    done = ask_server(
        storage_path,
        "shards.create",
        exchange=exchange,
        shards=count,
        vhost=vhost,
        arguments=arguments,
    )
    click.echo(_created(exchange, done))
    return 0


def _created(exchange: str, done: dict[str, Any]) -> str:
    count = done["shards"]
    queues = done["queues_created"]
    bindings = done["bindings_created"]
    name = f"exchange '{shown(exchange)}' with {count} shards"
    if done["exchange_created"] and queues == count:
        return f"created {name}"
    if not (done["exchange_created"] or queues or bindings):
        return f"{name} is there already"
    made = ["the exchange"] if done["exchange_created"] else []
    made += [f"{queues} queues"] if queues else []
    made += [f"{bindings} bindings"] if bindings else []
    return f"completed {name}: {', '.join(made)} were missing"


@shards.command("list", context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("exchange", required=False, callback=check_utf8)
@click.option(
    "--vhost",
    callback=check_utf8,
    help="Only this virtual host.  [default: all; / with EXCHANGE]",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@storage_path_option
def list_all(exchange: str | None, vhost: str | None, storage_path: Path, *, as_json: bool) -> int:
    """List the exchanges with shards, or the shards of EXCHANGE with their contents."""
    if exchange is None:
        found = ask_server(storage_path, "shards.list", vhost=vhost or "")
    else:
        found = ask_server(storage_path, "shards.show", exchange=exchange, vhost=vhost or "/")
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    elif exchange is None:
        _write_sets(found)
    else:
        _write_shards(found["queues"])
    return 0


def _write_sets(found: list[dict[str, Any]]) -> None:
    click.echo("SHARDS    MESSAGES  CONSUMERS  TYPE     EXCHANGE")
    for each in found:
        note = "" if each["is_complete"] else "  (incomplete: create it again)"
        click.echo(
            f"{each['shards']:>6}  {each['messages']:>10}  {each['consumers']:>9}  "
            f"{','.join(each['types']):<7}  {shown_field(each, 'exchange')} in "
            f"{shown_field(each, 'vhost')}{note}"
        )


def _write_shards(rows: list[dict[str, Any]]) -> None:
    click.echo("SHARD    MESSAGES       START         END  CONSUMERS  TYPE     QUEUE")
    for row in rows:
        stats = row["stats"]
        queue = shown(row["queue"])
        if stats is None:
            click.echo(
                f"{row['shard']:>5}{'-':>12}{'-':>12}{'-':>12}{'-':>11}  {'-':<7}  {queue}"
                "  (missing)"
            )
            continue
        note = "" if row["is_bound"] else "  (not bound)"
        click.echo(
            f"{row['shard']:>5}{row['messages']:>12}{stats['log_start_offset']:>12}"
            f"{stats['log_end_offset']:>12}{stats['consumers']:>11}  {stats['type']:<7}  "
            f"{queue}{note}"
        )


@shards.command(context_settings=_HELP, epilog=EXIT_CODES)
@click.argument("exchange", callback=check_utf8)
@click.option("--if-empty", is_flag=True, help="Only if no shard holds a message.")
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@vhost_option
@storage_path_option
def delete(exchange: str, vhost: str, storage_path: Path, *, if_empty: bool, yes: bool) -> int:
    """Delete EXCHANGE with its shards and all their messages.

    The deletion is durable when this returns.
    """
    if not yes:
        _confirm(exchange)
    done = ask_server(
        storage_path, "shards.delete", exchange=exchange, vhost=vhost, if_empty=if_empty
    )
    click.echo(
        f"deleted exchange '{shown(exchange)}' with {done['shards']} shards and "
        f"{done['messages']} messages"
    )
    return 0


def _confirm(exchange: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal for the question: write --yes to delete without it")
    if not click.confirm(
        f"Delete exchange '{shown(exchange)}' with its shards and all their messages?", err=True
    ):
        raise RequestFailedError("nothing was deleted", EXIT_FAILED)
