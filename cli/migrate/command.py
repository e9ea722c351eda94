"""The command `amqp-server migrate`: its options. What it does is in `cli.migrate.run`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click

from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.errors import UriError
from cli.control import check_utf8, storage_path_option
from cli.migrate.choice import Choice
from cli.migrate.source_api import SourceApi
from cli.units import DURATION

WINDOW_MAX = 65_535
"""Most messages that a consumer of AMQP can have."""


class PatternType(click.ParamType[re.Pattern[str]]):
    """Regular expression."""

    name = "regex"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> re.Pattern[str]:
        """Compile it.

        Raises:
            click.BadParameter: It is none.
        """
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r:.100} is no regular expression: {error}", param, ctx)


def _source(_ctx: click.Context, _param: click.Parameter, text: str) -> AmqpUri:
    try:
        uri = AmqpUri.parse(text)
    except UriError as error:
        raise click.BadParameter(str(error)) from None
    if uri.is_local:
        raise click.BadParameter("write the host of the source: amqp://user:password@host")
    return uri


def _names(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        check_utf8(ctx, param, name)
    return names


@click.command(
    "migrate",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  amqp-server migrate --from amqp://admin:secret@rabbit --dry-run
  amqp-server migrate --from amqp://admin:secret@rabbit --until-empty
  amqp-server migrate --from amqp://admin:secret@rabbit --vhost shop --queue '^orders'

Exit codes: 0 all is here, 1 something is left or differs, 2 refused, 130 interrupted twice. Another
run continues after the last one.""",
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="URI",
    callback=_source,
    help="RabbitMQ that is moved: amqp://user:password@host:5672.",
)
@click.option(
    "--api",
    metavar="URL",
    help="Its HTTP API: http://user:password@host:15672.  [default: the host, user and password "
    "of --from]",
)
@click.option(
    "--definitions",
    "definitions_file",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Definitions of the source; without --api the API is not used at all.",
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="File with the password, if the addresses have none.",
)
@click.option(
    "--vhost",
    "vhosts",
    multiple=True,
    callback=_names,
    help="Move this virtual host only; may be repeated.",
)
@click.option("--queue", "wanted", type=PatternType(), help="Move queues with such names only.")
@click.option("--exclude", "unwanted", type=PatternType(), help="Leave out queues with such names.")
@click.option(
    "--parallel",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Queues that are moved at the same time.",
)
@click.option(
    "--window",
    type=click.IntRange(1, WINDOW_MAX),
    default=2000,
    show_default=True,
    help="Messages of a queue that may come twice after a crash.",
)
@click.option("--until-empty", is_flag=True, help="End when all is here and nobody publishes.")
@click.option(
    "--idle",
    type=DURATION,
    default="10s",
    show_default=True,
    help="With --until-empty: how long nothing must have come.",
)
@click.option(
    "--ignore-publishers",
    is_flag=True,
    help="With --until-empty: end although publishers are connected to the source.",
)
@click.option("--no-definitions", is_flag=True, help="Take over messages only.")
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and what differs.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object a line.")
@storage_path_option
def migrate(
    storage_path: Path,
    source: AmqpUri,
    api: str | None,
    definitions_file: Path | None,
    password_file: Path | None,
    vhosts: tuple[str, ...],
    wanted: re.Pattern[str] | None,
    unwanted: re.Pattern[str] | None,
    parallel: int,
    window: int,
    idle: float,
    *,
    until_empty: bool,
    ignore_publishers: bool,
    no_definitions: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Move what a RabbitMQ has to the running server.

    Users, permissions, queues, bindings, policies and so on are taken over, and then the messages
    of all durable queues, until Ctrl-C or with --until-empty. Each is acknowledged at the source
    when it is on the disk here: the command, the source and this server may be killed at any
    moment. Streams are copied.
    """
    from cli.migrate.run import MigrationRequest, run

    password = _password(password_file)
    if source.password is None:
        source = replace(source, user=source.user or "guest", password=password or "guest")
    request = MigrationRequest(
        storage_path=storage_path,
        source=source,
        api=_api(source, api, definitions_file, password),
        definitions=definitions_file,
        choice=Choice(frozenset(vhosts), wanted, unwanted),
        parallel=parallel,
        window=window,
        ends_when_empty=until_empty,
        idle_seconds=idle,
        ignores_publishers=ignore_publishers,
        imports_definitions=not no_definitions,
        is_dry_run=dry_run,
        as_json=as_json,
    )
    return run(request)


def _api(
    source: AmqpUri, text: str | None, definitions: Path | None, password: str | None
) -> SourceApi | None:
    if text is None and definitions is not None:
        return None
    if text is None:
        scheme = "https" if source.is_tls else "http"
        host = f"[{source.host}]" if ":" in source.host else source.host
        text = f"{scheme}://{host}"
    try:
        return SourceApi.parse(
            text, source.user or "guest", source.password or password or "guest", source.cacertfile
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--api'") from None


def _password(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="'--password-file'") from None
