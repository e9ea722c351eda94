"""Common parts of the commands that use the running server: their option and their errors."""

from pathlib import Path
from typing import Any, Final

import click

from amqp_server.control.client import ControlError, UnreachableError, ask
from amqp_server.control.protocol import ErrorKind
from cli.command_failure import CommandFailedError
from cli.exit_codes import EXIT_FAILED, EXIT_REFUSED

EXIT_CODES: Final = "Exit codes: 0 done, 1 the server refused or failed, 2 no answer from a server."

storage_path_option = click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    default="./data",
    envvar="AMQP_SERVER_STORAGE_PATH",
    show_default=True,
    help="Data directory of the running server.",
)


class RequestFailedError(CommandFailedError):
    """A request to the running server was not carried out.

    Attributes:
        kind: The server's name for the error; None if the server could not be asked.
    """

    def __init__(self, reason: str, exit_code: int, kind: ErrorKind | None = None) -> None:
        super().__init__(reason, exit_code)
        self.kind = kind


def ask_server(storage_path: Path, command: str, **arguments: object) -> Any:  # noqa: ANN401
    """Send a command to the running server; return its result.

    Raises:
        RequestFailedError: The command failed; exit code 1 if the server says so, 2 if the server
            could not be asked.
    """
    try:
        return ask(storage_path, command, **arguments)
    except UnreachableError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    except ControlError as error:
        raise RequestFailedError(error.reason, EXIT_FAILED, error.kind) from error


def check_utf8(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    """Refuse text that cannot be a name, before the request to the server.

    Raises:
        click.BadParameter: The text is not UTF-8.
    """
    try:
        (name or "").encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{name!a} is not UTF-8") from None
    return name
