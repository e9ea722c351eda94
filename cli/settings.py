"""Sources of a setting: an option, else the environment, else the files, else the default.

`ServerOption` is one setting, `read_config_file` and `use_rabbitmq_conf` read the files,
`build_config` makes the `ServerConfig`. Our own file wins over RabbitMQ's. Every error message
begins with the place of the value: `--port`, `AMQP_SERVER_PORT`, `server.toml: port` or
`rabbitmq.conf:7: heartbeat`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from amqp_server.base.config import Bounds, ConfigError, Durability, ServerConfig
from amqp_server.base.listen_addresses import parse_addresses
from appendlog import Compression
from cli.units import (
    DURATION,
    SIZE,
    WATERMARK,
    format_duration,
    format_size,
    format_watermark,
)

if TYPE_CHECKING:
    from cli.rabbitmq_conf.translation import Translation

ENVIRONMENT_PREFIX: Final = "AMQP_SERVER_"
_OTHER_VARIABLES: Final = {
    f"{ENVIRONMENT_PREFIX}PURE_PYTHON",
    f"{ENVIRONMENT_PREFIX}REQUIRE_COMPILED",
}
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://")
_OF_A_SERVICE: Final = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)\Z|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?\Z"
)
"""What Kubernetes adds to the name of a service, beside `_PORT`, in the environment of each pod."""
_COMMAND: Final = "cli.settings.command"
_FILES: Final = "cli.settings.files"
_VARIABLES: Final = "cli.settings.variables"
_RABBITMQ: Final = "cli.settings.rabbitmq"
_FILE_OPTIONS: Final = ("config", "rabbitmq-conf")
"""Options that name a file of settings; the first wins over the second."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file that was read.

    Attributes:
        path: As the user has written it.
        values: Parsed values by field of `ServerConfig`.
        places: Where in which file each of them stands, by field: what messages begin with.
    """

    path: Path
    values: Mapping[str, Any]
    places: Mapping[str, str]


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
        """Return the environment variable's value; an empty one counts as missing.

        So does the address of a service of Kubernetes.
        """
        if runs_subcommand(ctx):
            return None
        value = super().resolve_envvar_value(ctx)
        return None if value is not None and _is_service_address(self.variable, value) else value


class AddressesOption(ServerOption):
    """Setting that is a list: given twice, it has the values of both."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - of click
        """Make the parser keep every value, and not only the last."""
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            parser._long_opt[name].action = "append"

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """Return the values of all times that the option is given, separated by commas."""
        given = opts.get(str(self.name))
        if isinstance(given, list):
            opts = {**opts, str(self.name): ",".join(given)}
        return super().consume_value(ctx, opts)


def note_subcommand(ctx: click.Context) -> None:
    """Record that the command line names a subcommand, before options are parsed."""
    ctx.meta[_COMMAND] = ctx.command


def runs_subcommand(ctx: click.Context) -> bool:
    """Whether the command line names a subcommand of this command.

    `amqp-server config show` has the same options: for them it is the command itself.
    """
    return ctx.meta.get(_COMMAND) is ctx.command


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
    options = _options(ctx)
    del options["config"]
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in _parse_toml(path).items():
        option = options.get(key.replace("_", "-"))
        if option is None:
            raise click.UsageError(f"{path}: unknown key '{key}'{_nearest(key, options)}")
        if option.name in values:
            raise click.UsageError(f"{path}: {option.key} is set twice, once as '{key}'")
        values[str(option.name)] = _read_value(ctx, path, option, value)
        places[str(option.name)] = f"{path}: {option.key}"
    _use_file(ctx, "config", SettingsFile(path, values, places))
    return path


def use_rabbitmq_conf(
    ctx: click.Context, _param: click.Parameter, path: Path | None
) -> Path | None:
    """Use the settings of RabbitMQ's file as defaults: the callback of `--rabbitmq-conf`.

    Args:
        ctx: Command; its `default_map` is replaced.
        path: Path of the file, or of a directory of such files; None if there is none.

    Returns:
        The path, unchanged.

    Raises:
        click.UsageError: A file cannot be read, or an entry cannot be used; the message names
            file, line and key.
    """
    if path is None or runs_subcommand(ctx):
        return path
    # Imported here, because few servers have such a file.
    from cli.rabbitmq_conf.entries import ConfMistakeError
    from cli.rabbitmq_conf.translation import read_rabbitmq_conf

    options = _options(ctx)
    try:
        found = read_rabbitmq_conf(path, options)
    except ConfMistakeError as error:
        raise click.UsageError(str(error)) from error
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, setting in found.settings.items():
        option = options[key]
        try:
            values[str(option.name)] = option.type_cast_value(ctx, setting.value)
        except click.BadParameter as error:
            raise click.UsageError(f"{setting.entry.place}: {error.message}") from error
        places[str(option.name)] = setting.entry.place
    ctx.meta[_RABBITMQ] = found
    _use_file(ctx, "rabbitmq-conf", SettingsFile(path, values, places))
    return path


def rabbitmq_translation(ctx: click.Context) -> Translation | None:
    """Return what RabbitMQ's file says; None if there is none."""
    found: Translation | None = ctx.meta.get(_RABBITMQ)
    return found


def settings_files(ctx: click.Context) -> dict[str, SettingsFile]:
    """Return the files that were read, by the option that names them; the first wins."""
    files: dict[str, SettingsFile] = ctx.meta.get(_FILES, {})
    return {option: files[option] for option in _FILE_OPTIONS if option in files}


def _use_file(ctx: click.Context, option: str, file: SettingsFile) -> None:
    ctx.meta.setdefault(_FILES, {})[option] = file
    merged: dict[str, Any] = {}
    for each in reversed(settings_files(ctx).values()):
        merged |= each.values
    ctx.default_map = merged


def _options(ctx: click.Context) -> dict[str, ServerOption]:
    return {param.key: param for param in ctx.command.params if isinstance(param, ServerOption)}


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
    lines = [
        f"environment variable {name} is the address of a Kubernetes service, and no setting: it is"
        " ignored (`enableServiceLinks: false` in the pod leaves it out)"
        for name in sorted(environment.keys() & known)
        if _is_service_address(name, environment[name])
    ]
    known |= _OTHER_VARIABLES
    for name in sorted(environment.keys() - known):
        is_of_a_service = _OF_A_SERVICE.search(name) or _is_service_address(name, environment[name])
        if name.startswith(ENVIRONMENT_PREFIX) and not is_of_a_service:
            ends = [each.removeprefix(ENVIRONMENT_PREFIX) for each in sorted(known)]
            end = name.removeprefix(ENVIRONMENT_PREFIX).upper()
            near = difflib.get_close_matches(end, ends, n=1, cutoff=0.6)
            advice = f"did you mean {ENVIRONMENT_PREFIX}{near[0]}?" if near else "it is ignored"
            lines.append(f"environment variable {name} is no setting: {advice}")
    return lines


def _is_service_address(name: str, value: str) -> bool:
    """Return whether a variable is set by Kubernetes: it tells the pods where services are.

    A service `amqp-server` sets AMQP_SERVER_PORT to such an address as tcp://10.0.0.7:5672.
    """
    return name.endswith("_PORT") and _SERVICE_ADDRESS.match(value) is not None


def describe_place(ctx: click.Context, param: click.Parameter) -> str:
    """Return the place where the value of a parameter was written.

    Returns:
        `--port`, `AMQP_SERVER_PORT`, `server.toml: port` or `rabbitmq.conf:7: heartbeat`.
    """
    if not isinstance(param, ServerOption):
        return param.get_error_hint(ctx).replace("'", "")
    name = str(param.name)
    source = ctx.get_parameter_source(name)
    variable = noted_variable(ctx, name)
    if variable is not None:
        return variable
    if source is ParameterSource.ENVIRONMENT:
        return param.variable
    if source is ParameterSource.DEFAULT_MAP:
        return next(
            file.places[name] for file in settings_files(ctx).values() if name in file.places
        )
    return f"--{param.key}"


def note_variable(ctx: click.Context, name: str, variable: str) -> None:
    """Record that a variable of RabbitMQ's has the value of a field, and not the option."""
    ctx.meta.setdefault(_VARIABLES, {})[name] = variable


def noted_variable(ctx: click.Context, name: str) -> str | None:
    """Return the variable of RabbitMQ's that has the value of a field, if one has."""
    variables: dict[str, str] = ctx.meta.get(_VARIABLES, {})
    return variables.get(name)


def is_our_setting(ctx: click.Context, name: str) -> bool:
    """Return whether an option, its variable or our own file has the value of a field.

    RabbitMQ's variables win over what is left: its file, and the default.
    """
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.DEFAULT_MAP:
        files = settings_files(ctx)
        return "config" in files and name in files["config"].values
    return source is not ParameterSource.DEFAULT


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
    _refuse_useless_ports(ctx, config)
    if not config.tls_certificate:
        _refuse_useless_tls(ctx)
    _refuse_unfinished_rabbitmq_conf(ctx, config)
    return config


def _refuse_unfinished_rabbitmq_conf(ctx: click.Context, config: ServerConfig) -> None:
    """Refuse entries of RabbitMQ's file that need an option beside them, if it is missing."""
    found = rabbitmq_translation(ctx)
    if found is None:
        return
    if found.trusts_proxies is not None and not config.proxy_protocol_trusted:
        raise click.UsageError(
            f"{found.trusts_proxies.place}: name the networks of the proxies as well, "
            "--proxy-protocol-trusted NETWORKS: others could pretend to be any client"
        )
    if found.key_password is not None and not config.tls_key_password_file:
        raise click.UsageError(
            f"{found.key_password.place}: write the password into a file, and "
            "--tls-key-password-file FILE"
        )


def _refuse_useless_ports(ctx: click.Context, config: ServerConfig) -> None:
    """Refuse a port for addresses that all name another: nothing would listen there.

    Addresses of a source that wins over the port's replace it: `--host` that of a file.
    """
    for host, port in (("host", "port"), ("tls_host", "tls_port")):
        addresses = getattr(config, host)
        is_set = ctx.get_parameter_source(port) not in (None, ParameterSource.DEFAULT)
        if (
            is_set
            and _rank(ctx, port) <= _rank(ctx, host)
            and addresses
            and all(each.port for each in parse_addresses(addresses))
        ):
            place = describe_place(ctx, _option(ctx, host))
            raise click.UsageError(
                f"{describe_place(ctx, _option(ctx, port))}: has no effect: every address of "
                f"{place} names its port"
            )


def _rank(ctx: click.Context, name: str) -> int:
    """Return the rank of the source of a field: a lower one wins."""
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.DEFAULT_MAP:
        files = settings_files(ctx).values()
        return 2 + next(at for at, file in enumerate(files) if name in file.values)
    return int(source is ParameterSource.ENVIRONMENT)


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
