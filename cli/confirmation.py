"""The question before something is deleted."""

import sys

import click

from cli.control import RequestFailedError
from cli.exit_codes import EXIT_FAILED


def confirm(question: str, *, yes: bool) -> None:
    """Ask at the terminal, unless the option `--yes` has answered.

    Args:
        question: One line that says what will happen.
        yes: Whether `--yes` was given.

    Raises:
        click.UsageError: There is no terminal to ask at.
        RequestFailedError: The answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal for the question: write --yes to go on without it")
    if not click.confirm(question, err=True):
        raise RequestFailedError("nothing was changed", EXIT_FAILED)
