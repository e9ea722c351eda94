"""The error that ends a command with one line on standard error and an exit code."""

import click

from cli.exit_codes import EXIT_REFUSED


class CommandFailedError(click.ClickException):
    """A command could not be carried out.

    Args:
        reason: What failed, why, and what to do: one line.
        exit_code: One of `cli.exit_codes`.
    """

    def __init__(self, reason: str, exit_code: int = EXIT_REFUSED) -> None:
        super().__init__(reason)
        # click declares it as a ClassVar and reads it from the instance.
        self.exit_code = exit_code  # type: ignore[misc]
