"""A command of the control socket, and how a request finds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.messages import ControlError, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from amqp_server.control.messages import Request
    from amqp_server.server import Server

    Tell = Callable[[Mapping[str, object]], Awaitable[None]]
    """Tells how far a command is, in what JSON can hold; raises OSError when nobody listens."""

_TYPE_NAMES: Final = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: Lower-case, with a dot between the thing and what is done: `vhosts.add`.
        run: Does it, with the server and the arguments by name; returns what JSON can hold.
            Raises ControlError.
        arguments: Name and type of each argument; all must be given.
        reports: Whether it tells how far it is: `run` takes a `Tell` behind the server then.
    """

    name: str
    run: Callable[..., Awaitable[object]]
    arguments: Mapping[str, type] = field(default_factory=dict)
    reports: bool = False

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Check the arguments of a request.

        Raises:
            ControlError: One is missing, unknown or of another type.
        """
        for name in self.arguments.keys() - arguments.keys():
            raise self._refusal(f"argument '{name}' is missing")
        for name, value in arguments.items():
            kind = self.arguments.get(name)
            if kind is None:
                raise self._refusal(f"unknown argument '{name}'")
            # Not isinstance: true is not a number.
            if type(value) is not kind:
                raise self._refusal(f"argument '{name}' must be {_TYPE_NAMES[kind]}")

    def _refusal(self, reason: str) -> ControlError:
        return ControlError(ErrorKind.INVALID_ARGUMENT, f"{self.name}: {reason}")


async def run_request(
    commands: Mapping[str, Command], server: Server, request: Request, tell: Tell
) -> object:
    """Do what a request asks for and return the result.

    Args:
        commands: By name.
        server: What they work on.
        request: As it came.
        tell: Tells the client how far a long command is.

    Raises:
        ControlError: It cannot be done.
    """
    command = commands.get(request.command)
    if command is None:
        raise ControlError(
            ErrorKind.UNKNOWN_COMMAND,
            f"unknown command '{request.command}'; known are {', '.join(sorted(commands))}",
        )
    command.check(request.arguments)
    told = (tell,) if command.reports else ()
    return await command.run(server, *told, **request.arguments)
