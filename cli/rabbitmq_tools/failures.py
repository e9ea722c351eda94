"""Errors that end a tool: a text for standard error, and RabbitMQ's exit code."""

from __future__ import annotations

USAGE = 64
"""Unknown verb, option, column or queue; too many or too few arguments; the node does not serve."""
DATA = 65
"""A login failed, or a virtual host does not exist."""
NO_USER = 67
UNAVAILABLE = 69
"""The server cannot be asked, a check failed, or what is asked for is not valid."""
SOFTWARE = 70
"""The object exists already, and everything else that fails."""


class ToolFailedError(Exception):
    """A verb failed.

    Args:
        code: Exit code of the process.
        text: What standard error gets.
        has_prefix: Whether a line `Error:` comes first.
    """

    def __init__(self, code: int, text: str, *, has_prefix: bool = True) -> None:
        super().__init__(text)
        self.code = code
        self.text = f"Error:\n{text}" if has_prefix else text


class UsageError(ToolFailedError):
    """A command line is wrong; the tool adds how it is written.

    Args:
        reason: What is wrong, in RabbitMQ's words.
        code: Exit code of the process.
    """

    def __init__(self, reason: str, code: int = USAGE) -> None:
        super().__init__(code, f"Error (argument validation): {reason}", has_prefix=False)


class SuspendedError(UsageError):
    """Clients are suspended, so most verbs are refused.

    Args:
        tool: Name of the tool.
    """

    def __init__(self, tool: str) -> None:
        super().__init__("")
        self.text = (
            "Error: this command requires the 'rabbit' app to be running on the target node. "
            f"Start it with '{tool} start_app'."
        )
