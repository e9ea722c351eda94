"""The first user of a new data directory, from options or from RabbitMQ's variables."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from cli.settings import describe_place, is_our_setting, note_variable, rabbitmq_translation

PASSWORD_BYTES_MAX: Final = 1024
_VARIABLES: Final = {
    "default_user": "RABBITMQ_DEFAULT_USER",
    "default_vhost": "RABBITMQ_DEFAULT_VHOST",
}
_PASSWORD_VARIABLE: Final = "RABBITMQ_DEFAULT_PASS"  # noqa: S105 - the name of a variable


def default_user_values(
    ctx: click.Context, values: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the values of all options, with name, password and virtual host of the first user.

    There is no option for the password itself: other users of the machine see the arguments of a
    process. RabbitMQ's variables count where the option is not given, as in its container image,
    and RabbitMQ's file where they are not set.

    Args:
        ctx: Command, which knows the source of each value.
        values: Parsed values; `default_pass_file` is replaced by the password.
        environment: Environment variables.

    Raises:
        click.UsageError: The file cannot be read, or a user other than `guest` has no password.
    """
    changed = dict(values)
    for name, variable in _VARIABLES.items():
        if not is_our_setting(ctx, name) and environment.get(variable):
            changed[name] = environment[variable]
            note_variable(ctx, name, variable)
    path: Path | None = changed.pop("default_pass_file")
    found = rabbitmq_translation(ctx)
    if path is not None:
        changed["default_password"] = _read(ctx, path)
    elif environment.get(_PASSWORD_VARIABLE):
        changed["default_password"] = environment[_PASSWORD_VARIABLE]
        note_variable(ctx, "default_password", _PASSWORD_VARIABLE)
    elif found is not None and found.password is not None:
        changed["default_password"] = found.password.value
    elif changed["default_user"] != "guest":
        raise click.UsageError(
            f"user '{changed['default_user']}' needs a password: write --default-pass-file FILE, "
            f"or set {_PASSWORD_VARIABLE}"
        )
    return changed


def _read(ctx: click.Context, path: Path) -> str:
    option = next(each for each in ctx.command.params if each.name == "default_pass_file")
    place = describe_place(ctx, option)
    try:
        with path.open("rb") as file:
            octets = file.read(PASSWORD_BYTES_MAX + 3)
    except OSError as error:
        raise click.UsageError(f"{place}: {path}: {error.strerror}") from error
    password = octets.removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(password) <= PASSWORD_BYTES_MAX:
        raise click.UsageError(
            f"{place}: {path}: the password must have 1 to {PASSWORD_BYTES_MAX} bytes"
        )
    return password.decode("utf-8", "surrogateescape")
