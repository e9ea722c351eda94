"""What stops the demo before its end."""

import click


class DemoError(click.ClickException):
    """A step did not do what it should; exit code 1."""
