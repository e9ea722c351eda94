"""What the commands share that talk to the running server: how they find it, how they fail."""

from pathlib import Path
from typing import Any, Final

import click

from amqp_server.control.client import ControlError, UnreachableError, ask
from amqp_server.control.messages import ErrorKind

EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2
EXIT_CODES: Final = "Exit codes: 0 done, 1 the server did not do it, 2 it could not be asked."

storage_path_option = click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    default="./data",
    envvar="AMQP_SERVER_STORAGE_PATH",
    show_default=True,
    help="Data directory of the running server.",
)


class RequestFailedError(click.ClickException):
    """A request that was not done: one line on standard error, and an exit code.

    Attributes:
        kind: What the server calls it; None: it could not be asked.
    """

    def __init__(self, reason: str, exit_code: int, kind: ErrorKind | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        # click calls it a ClassVar and reads it from the instance.
        self.exit_code = exit_code  # type: ignore[misc]


def ask_server(storage_path: Path, command: str, **arguments: object) -> Any:  # noqa: ANN401
    """Have a command done by the running server; return its result.

    Raises:
        RequestFailedError: It was not done; exit code 1 when the server said so, 2 when it could
            not be asked.
    """
    try:
        return ask(storage_path, command, **arguments)
    except UnreachableError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    except ControlError as error:
        raise RequestFailedError(error.reason, EXIT_FAILED, error.kind) from error


def check_utf8(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    """Refuse what cannot be a name, before the server is asked.

    Raises:
        click.BadParameter: It is not UTF-8.
    """
    try:
        (name or "").encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{name!a} is not UTF-8") from None
    return name


def shown(name: str) -> str:
    """Return a name as it can be printed: a line feed in it must not look like another line."""
    return name if name.isprintable() else ascii(name)
