"""One call of a verb: its arguments, and what it may use."""

from __future__ import annotations

import sys

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import DATA, NO_USER, UNAVAILABLE, ToolFailedError, UsageError
from cli.rabbitmq_tools.output import WITHOUT_BANNER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cli.rabbitmq_tools.asking import Server
    from cli.rabbitmq_tools.command_line import CommandLine


class Call:
    """One call of a verb.

    Args:
        line: The command line.
        server: The running server.
        node: Name of the node as it is written.
        tool: Name of the tool that is called.

    Attributes:
        line: The command line.
        tool: Name of the tool that is called.
        verb: Name of the verb.
        arguments: What stands behind the verb, without options.
        options: Values of the options, by name; switches that are given are "".
        vhost: Virtual host that is asked for.
        seconds_max: Seconds that an answer may take.
    """

    def __init__(self, line: CommandLine, server: Server, node: str, tool: str) -> None:
        self.line = line
        self.tool = tool
        self.verb = line.verb or ""
        self.arguments = line.arguments
        self.options = line.options
        self.vhost = line.options.get("vhost", "/")
        self.node = node
        self.formatter = line.formatter
        self.server = server
        self.is_quiet = line.is_quiet
        self.seconds_max = line.seconds_max

    @property
    def seconds_text(self) -> str:
        """The same as RabbitMQ writes it."""
        return str(float(self.seconds_max))

    @property
    def has_notes(self) -> bool:
        """Whether texts for people are written beside the result."""
        return not self.is_quiet and self.formatter not in WITHOUT_BANNER

    def banner(self, text: str) -> None:
        """Say what is done now."""
        if self.has_notes:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def ask(self, command: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON values
        """Return the result of a command of the server."""
        return self.server.ask(command, **arguments)

    def columns(self, known: Sequence[str], default: Sequence[str]) -> list[str]:
        """Return the columns that are asked for.

        Raises:
            UsageError: There is no such column.
        """
        words = " ".join(self.arguments).replace(",", " ").split() or list(default)
        if unknown := [word for word in words if word not in known]:
            keys = ", ".join(unknown)
            raise UsageError(f"Info key(s) {keys} are not supported")
        return list(dict.fromkeys(words))

    def known_vhost(self, vhost: str | None = None) -> str:
        """Return the virtual host that is asked for.

        Raises:
            ToolFailedError: It does not exist.
        """
        name = self.vhost if vhost is None else vhost
        # The cheapest command that refuses an unknown virtual host.
        try:
            self.ask("parameters.list", vhost=name, component="none")
        except RefusedError as refused:
            raise no_vhost(name) from refused
        return name


def no_vhost(name: str) -> ToolFailedError:
    """Return the failure of most verbs when a virtual host does not exist."""
    return ToolFailedError(DATA, f"Virtual host '{name}' does not exist", has_prefix=False)


def no_user(name: str) -> ToolFailedError:
    """Return the failure of a verb that changes a user."""
    return ToolFailedError(NO_USER, f'User "{name}" does not exist')


def no_such_user(name: str) -> ToolFailedError:
    """Return the failure of a verb that lists what a user has."""
    return ToolFailedError(UNAVAILABLE, f'{{:no_such_user, "{name}"}}')


def no_parameter() -> ToolFailedError:
    """Return the failure of a verb that clears what is not there."""
    return ToolFailedError(UNAVAILABLE, "Parameter does not exist")


def invalid(text: str) -> ToolFailedError:
    """Return the failure of a verb whose definition is not valid."""
    return ToolFailedError(UNAVAILABLE, f"Validation failed\n\n{text}\n")
