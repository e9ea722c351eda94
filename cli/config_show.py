"""The command `amqp-server config`: the settings that a start would have, and their sources."""

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import click
import orjson
from click.core import ParameterSource

from cli.default_user import default_user_values
from cli.display import shown
from cli.main import command as server_command
from cli.settings import (
    ServerOption,
    build_config,
    noted_variable,
    rabbitmq_translation,
    settings_files,
    unknown_variables,
)
from cli.table import write_table
from cli.units import (
    DURATION,
    SIZE,
    WATERMARK,
    format_duration,
    format_size,
    format_watermark,
)

HIDDEN: Final = "***"
_LEFT_OUT: Final = ("ephemeral",)
"""Options of another kind of server."""


class Source(StrEnum):
    """Kind of place that a value comes from."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Shown(NamedTuple):
    """A setting with its source.

    Attributes:
        option: Name of the option, without dashes.
        value: What a user would write behind the option; None if there is no value.
        source: Kind of place.
        place: The option, the variable, the file with key or line; empty for a default.
    """

    option: str
    value: str | None
    source: Source
    place: str


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: amqp-server config show --rabbitmq-conf /etc/rabbitmq",
)
def config() -> None:
    """Show the settings that a server would start with."""


def _show(ctx: click.Context, /, **values: Any) -> int:  # noqa: ANN401
    """Show each option's value and where it comes from.

    It takes the server's options, environment variables and files, and refuses what a start
    would refuse, with exit code 2: invalid values, and files that are missing or unusable, such as
    certificates and definitions. No server has to run. Passwords are not shown.
    """
    # Imported here: help pages need no TLS.
    from amqp_server.admin.named_files import check_files

    as_json, changed_only = values.pop("as_json"), values.pop("changed_only")
    values = default_user_values(ctx, values)
    config = build_config(ctx, values)
    rows = [row for row in _rows(ctx, values) if not changed_only or row.source != Source.DEFAULT]
    found = rabbitmq_translation(ctx)
    warnings = unknown_variables(ctx, os.environ) + (found.warnings if found else [])
    if as_json:
        report = {
            "settings": [
                {"option": row.option, "value": row.value, "source": row.source, "place": row.place}
                for row in rows
            ],
            "warnings": warnings,
        }
        click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
        check_files(config)
        return 0
    table = [
        (row.option, "" if row.value is None else shown(row.value), row.place or row.source)
        for row in rows
    ]
    write_table(("setting", "value", "from"), table)
    for line in warnings:
        click.echo(f"warning: {line}", err=True)
    check_files(config)
    return 0


def _rows(ctx: click.Context, values: Mapping[str, Any]) -> list[Shown]:
    rows = []
    files = settings_files(ctx)
    for param in ctx.command.params:
        if not isinstance(param, ServerOption):
            continue
        name = str(param.name)
        value = files[param.key].path if param.key in files else values.get(name)
        if name == "default_pass_file":
            value = ctx.params.get(name)
            rows.append(_password_row(ctx))
        source, place = _source(ctx, param)
        rows.append(Shown(param.key, _write(param, value), source, place))
    return rows


def _source(ctx: click.Context, param: ServerOption) -> tuple[Source, str]:
    name = str(param.name)
    variable = noted_variable(ctx, name)
    if variable is not None:
        return Source.ENVIRONMENT, variable
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.COMMANDLINE:
        return Source.COMMAND_LINE, f"--{param.key}"
    if source is ParameterSource.ENVIRONMENT:
        return Source.ENVIRONMENT, param.variable
    for file in settings_files(ctx).values():
        if source is ParameterSource.DEFAULT_MAP and name in file.places:
            return Source.FILE, file.places[name]
    return Source.DEFAULT, ""


def _password_row(ctx: click.Context) -> Shown:
    """Return where the default user's password comes from; no option has it."""
    option = "default-pass"
    found = rabbitmq_translation(ctx)
    if ctx.params.get("default_pass_file") is not None:
        return Shown(option, HIDDEN, Source.FILE, str(ctx.params["default_pass_file"]))
    variable = noted_variable(ctx, "default_password")
    if variable is not None:
        return Shown(option, HIDDEN, Source.ENVIRONMENT, variable)
    if found is not None and found.password is not None:
        return Shown(option, HIDDEN, Source.FILE, found.password.entry.place)
    return Shown(option, HIDDEN, Source.DEFAULT, "")


def _write(option: click.Parameter, value: object) -> str | None:
    """Return a value as a user would write it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        if option.type is DURATION:
            return format_duration(value)
        if option.type is WATERMARK:
            return format_watermark(value)
        if option.type is SIZE:
            return format_size(int(value))
        return f"{value:g}" if isinstance(value, float) else str(value)
    return str(value)


config.add_command(
    click.Command(
        "show",
        callback=click.pass_context(_show),
        params=[
            *(
                param
                for param in server_command.params
                if isinstance(param, ServerOption) and param.key not in _LEFT_OUT
            ),
            click.Option(["--changed", "changed_only"], is_flag=True, help="Leave out defaults."),
            click.Option(["--json", "as_json"], is_flag=True, help="Write a JSON object."),
        ],
        help=_show.__doc__,
        context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    )
)
