"""Errors that end the demo early."""

import click


class DemoError(click.ClickException):
    """A step of the demo has failed; exit code 1."""
