"""Sources of a setting: an option, else the environment, else the file, else the default.

`ServerOption` is one setting, `read_config_file` reads the file, `build_config` makes the
`ServerConfig`. Every error message begins with the place of the value: `--port`,
`AMQP_SERVER_PORT`, or `server.toml: port`.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from amqp_server.config import Bounds, ConfigError, Durability, ServerConfig
from appendlog import Compression
from cli.parameters import (
    DURATION,
    SIZE,
    WATERMARK,
    format_duration,
    format_size,
    format_watermark,
)

ENVIRONMENT_PREFIX: Final = "AMQP_SERVER_"
_OTHER_VARIABLES: Final = {
    f"{ENVIRONMENT_PREFIX}PURE_PYTHON",
    f"{ENVIRONMENT_PREFIX}REQUIRE_COMPILED",
}
_COMMAND: Final = "cli.settings.command"
_FILE: Final = "cli.settings.file"


class ServerOption(click.Option):
    """Setting of the server: option, environment variable and key of the file share one name.

    It ignores the environment and the file when a subcommand runs, which has options of its own.
    """

    def __init__(self, param_decls: list[str], **attributes: Any) -> None:  # noqa: ANN401
        option = param_decls[0].removeprefix("--")
        self.key = option
        attributes.setdefault("envvar", ENVIRONMENT_PREFIX + option.upper().replace("-", "_"))
        super().__init__(param_decls, **attributes)

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        assert isinstance(self.envvar, str)
        return self.envvar

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the environment variable's value; an empty one counts as missing."""
        return None if runs_subcommand(ctx) else super().resolve_envvar_value(ctx)


def note_subcommand(ctx: click.Context, command: str) -> None:
    """Record that the command line names a subcommand, before options are parsed."""
    ctx.meta[_COMMAND] = command


def runs_subcommand(ctx: click.Context) -> bool:
    """Whether the command line names a subcommand."""
    return _COMMAND in ctx.meta


def read_config_file(ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """Use the file's values as defaults of the options: the callback of `--config`.

    Args:
        ctx: Command; its `default_map` is replaced.
        path: Path of the TOML file; None if there is none.

    Returns:
        The path, unchanged.

    Raises:
        click.UsageError: The file cannot be read, is not TOML, has an unknown key, or has a
            value that cannot be parsed; the message names the file and the key.
    """
    if path is None or runs_subcommand(ctx):
        return path
    options = {
        param.key: param
        for param in ctx.command.params
        if isinstance(param, ServerOption) and param.key != "config"
    }
    values: dict[str, Any] = {}
    for key, value in _parse_toml(path).items():
        option = options.get(key.replace("_", "-"))
        if option is None:
            raise click.UsageError(f"{path}: unknown key '{key}'{_nearest(key, options)}")
        if option.name in values:
            raise click.UsageError(f"{path}: {option.key} is set twice, once as '{key}'")
        values[str(option.name)] = _read_value(ctx, path, option, value)
    ctx.default_map = values
    ctx.meta[_FILE] = path
    return path


def _parse_toml(path: Path) -> dict[str, Any]:
    # Imported here, because few servers have such a file: the import compiles many patterns.
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: not a TOML file: {error}") from error


def _nearest(key: str, options: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), options, n=1, cutoff=0.6)
    return f": did you mean '{near[0]}'?" if near else f"; known are {', '.join(sorted(options))}"


def _read_value(ctx: click.Context, path: Path, option: ServerOption, value: object) -> object:
    if option.is_flag:
        if isinstance(value, bool):
            return value
        raise click.UsageError(f"{path}: {option.key}: write true or false")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise click.UsageError(
            f"{path}: {option.key}: write text or a number, as in --{option.key}"
        )
    try:
        return option.type_cast_value(ctx, str(value))
    except click.BadParameter as error:
        raise click.UsageError(f"{path}: {option.key}: {error.message}") from error


def unknown_variables(ctx: click.Context, environment: Mapping[str, str]) -> list[str]:
    """Return a line for each environment variable that looks like a setting but is unknown.

    Args:
        ctx: Command of the server.
        environment: All environment variables.
    """
    known = {param.variable for param in ctx.command.params if isinstance(param, ServerOption)}
    known |= _OTHER_VARIABLES
    lines = []
    for name in sorted(environment.keys() - known):
        if name.startswith(ENVIRONMENT_PREFIX):
            ends = [each.removeprefix(ENVIRONMENT_PREFIX) for each in sorted(known)]
            end = name.removeprefix(ENVIRONMENT_PREFIX).upper()
            near = difflib.get_close_matches(end, ends, n=1, cutoff=0.6)
            advice = f"did you mean {ENVIRONMENT_PREFIX}{near[0]}?" if near else "it is ignored"
            lines.append(f"environment variable {name} is no setting: {advice}")
    return lines


def describe_place(ctx: click.Context, param: click.Parameter) -> str:
    """Return the place where the value of a parameter was written.

    Returns:
        `--port`, `AMQP_SERVER_PORT` or `server.toml: port`.
    """
    if not isinstance(param, ServerOption):
        return param.get_error_hint(ctx).replace("'", "")
    source = ctx.get_parameter_source(str(param.name))
    if source is ParameterSource.ENVIRONMENT:
        return param.variable
    if source is ParameterSource.DEFAULT_MAP:
        return f"{ctx.meta[_FILE]}: {param.key}"
    return f"--{param.key}"


def build_config(ctx: click.Context, values: Mapping[str, Any]) -> ServerConfig:
    """Make the server's configuration from the parsed values.

    Args:
        ctx: Command, which knows the source of each value.
        values: Values by field name of `ServerConfig`.

    Raises:
        click.UsageError: A value is out of bounds; the message names its place and its bounds.
    """
    try:
        choices = {
            "durability": Durability(values["durability"]),
            "compression": Compression(values["compression"]),
        }
        config = ServerConfig(**{**values, **choices})
    except ConfigError as error:
        option = _option(ctx, error.setting)
        if error.setting == "ring_bytes" and error.bounds is None:
            raise click.UsageError(_explain_ring_bytes(ctx, values)) from error
        raise click.UsageError(
            f"{describe_place(ctx, option)}: {_explain(option, error)}"
        ) from error
    if not config.tls_certificate:
        _refuse_useless_tls(ctx)
    return config


def _refuse_useless_tls(ctx: click.Context) -> None:
    """Refuse options of TLS on a server without a certificate: it would listen without TLS."""
    for param in ctx.command.params:
        name = str(param.name)
        is_set = ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
        value = ctx.params.get(name)
        if name.startswith("tls_") and is_set and value is not False and value != "":
            raise click.UsageError(
                f"{describe_place(ctx, param)}: has no effect without --tls-certificate"
            )


def _explain_ring_bytes(ctx: click.Context, values: Mapping[str, Any]) -> str:
    """Name the one of the two sizes that the user has set."""
    one, total = _option(ctx, "ring_bytes"), _option(ctx, "ring_bytes_total")
    sizes = {option: format_size(values[str(option.name)]) for option in (one, total)}
    if ctx.get_parameter_source("ring_bytes") is ParameterSource.DEFAULT:
        return (
            f"{describe_place(ctx, total)}: {sizes[total]!r} is less than ring-bytes, "
            f"which is {sizes[one]}"
        )
    return (
        f"{describe_place(ctx, one)}: {sizes[one]!r} is more than ring-bytes-total, "
        f"which is {sizes[total]}"
    )


def _option(ctx: click.Context, name: str) -> click.Parameter:
    return next(param for param in ctx.command.params if param.name == name)


def _explain(option: click.Parameter, error: ConfigError) -> str:
    if error.bounds is None:
        return f"{_write(option, error.value)!r} is {error.reason.replace('_', '-')}"
    value = _write(option, error.value)
    return f"{value} is out of bounds: write {_describe_bounds(option, error.bounds)}"


def _describe_bounds(option: click.Parameter, bounds: Bounds) -> str:
    kind = f"a multiple of {bounds.multiple_of} " if bounds.multiple_of > 1 else ""
    zero = "0 or " if bounds.or_zero else ""
    span = f"{_write(option, bounds.least)} to {_write(option, bounds.most)}"
    if kind:
        span = f"from {span}"
    return f"{zero}{kind}{span}, for example {option.default}"


def _write(option: click.Parameter, value: Any) -> str:  # noqa: ANN401
    if option.type is DURATION:
        return format_duration(value)
    if option.type is WATERMARK:
        return format_watermark(value)
    return format_size(value) if option.type is SIZE else str(value)
