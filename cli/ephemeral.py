"""The option `--ephemeral`: other defaults, and no data directory of the user's."""

from collections.abc import Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from cli.settings import describe_place, runs_subcommand

_META: Final = "cli.ephemeral"


def note_ephemeral(ctx: click.Context, _param: click.Parameter, wanted: bool) -> bool:
    """Record whether the option was given: its callback."""
    ctx.meta[_META] = wanted and not runs_subcommand(ctx)
    return wanted


def is_ephemeral(ctx: click.Context) -> bool:
    """Return whether the option was given."""
    return bool(ctx.meta.get(_META))


def ephemeral_values(ctx: click.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the other options, with free ports unless they were given.

    Raises:
        click.UsageError: A data directory was given, which the server would not use, or the server
            would listen for TLS only: it prints the URL of its plain port.
    """
    if values["tls_only"]:
        place = next(each for each in ctx.command.params if each.name == "tls_only")
        raise click.UsageError(
            f"{describe_place(ctx, place)}: --ephemeral prints a URL without TLS: leave out one of "
            "the two"
        )
    if ctx.get_parameter_source("storage_path") is not ParameterSource.DEFAULT:
        place = next(each for each in ctx.command.params if each.name == "storage_path")
        raise click.UsageError(
            f"{describe_place(ctx, place)}: --ephemeral keeps no data directory: leave out one of "
            "the two"
        )
    changed = dict(values)
    for name in ("port", "tls_port"):
        if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
            changed[name] = 0
    # A test suite asks for it: it costs memory, and its port must be free.
    for name in ("management_port", "metrics_port", "management_tls_port"):
        if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
            changed[name] = 0
    return changed
