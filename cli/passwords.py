"""Passwords in commands: where they come from, and what of them is sent to the server."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from amqp_server.access.passwords import (
    ALGORITHMS,
    NO_PASSWORD,
    SHA256,
    InvalidHashError,
    PasswordHash,
)

_Function = TypeVar("_Function", bound=Callable[..., object])

PASSWORD_BYTES_MAX: Final = 1024


def password_options(command: _Function) -> _Function:
    """Add the options with which a command learns a password: a decorator."""
    for option in (
        click.option(
            "--hashing-algorithm",
            type=click.Choice(ALGORITHMS),
            default=SHA256,
            show_default=True,
            help="Algorithm of --password-hash.",
        ),
        click.option("--password-hash", metavar="HASH", help="Take over a hash, from RabbitMQ."),
        click.option(
            "--no-password", is_flag=True, help="The user logs in with a certificate only."
        ),
        click.option(
            "--password-file",
            type=click.Path(path_type=Path, allow_dash=True),
            metavar="FILE",
            help="File with the password in one line; - is standard input.  [default: ask]",
        ),
    ):
        command = option(command)
    return command


def chosen_hash(
    password_file: Path | None, password_hash: str | None, hashing_algorithm: str, no_password: bool
) -> PasswordHash:
    """Return the hash that the options ask for; asks at the terminal without any.

    There is no option for the password itself: other users of the machine see the arguments of a
    process. The server gets the hash only.

    Raises:
        click.UsageError: The options contradict each other, or there is no valid password.
    """
    given = [password_file is not None, password_hash is not None, no_password]
    if sum(given) > 1:
        raise click.UsageError(
            "write one of --password-file, --password-hash and --no-password, not several"
        )
    if no_password:
        return NO_PASSWORD
    if password_hash is not None:
        found = PasswordHash(hashing_algorithm, password_hash)
        try:
            found.check()
        except InvalidHashError as error:
            raise click.UsageError(f"--password-hash: {error}") from error
        return found
    return PasswordHash.of(_password(password_file))


def _password(path: Path | None) -> bytes:
    if path is None:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "no terminal to ask for the password: write --password-file FILE, or - for "
                "standard input"
            )
        text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        octets = text.encode("utf-8", "surrogateescape")
    elif str(path) == "-":
        octets = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 3)
    else:
        try:
            with path.open("rb") as file:
                octets = file.read(PASSWORD_BYTES_MAX + 3)
        except OSError as error:
            raise click.UsageError(f"--password-file: {path}: {error.strerror}") from error
    octets = octets.removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(octets) <= PASSWORD_BYTES_MAX or b"\n" in octets:
        raise click.UsageError(f"the password must be one line of 1 to {PASSWORD_BYTES_MAX} bytes")
    return octets
