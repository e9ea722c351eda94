"""The definition of a command of the control socket, and the dispatch of requests.

A command whose permissions a back end has to be asked for is called again when the answer is there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from amqp_server.broker.rights import AnswerAwaited
from amqp_server.control.protocol import ControlError, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from amqp_server.control.protocol import Request

    ReportProgress = Callable[[Mapping[str, object]], Awaitable[None]]
    """Sends a progress report, as JSON values; raises OSError if the client is gone."""

QUESTIONS_MAX: Final = 100
"""Permissions that are asked for one command."""
ResultT = TypeVar("ResultT")

_TYPE_NAMES: Final = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Audited:
    """Form of a command in the audit log.

    Attributes:
        event: Name of the event.
        name: Argument with the name of the object; empty if none has it.
        details: Arguments that are shown. Never one that may hold a password or a token.
        is_read: Whether the command changes nothing: a page after the first is not shown again.
    """

    event: str
    name: str = ""
    details: tuple[str, ...] = ()
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: Lower-case name, the thing and the action with a dot between: `vhosts.add`.
        run: Runs the command with the arguments by name; returns JSON values. Raises ControlError.
            The parts of the server that the command uses are bound to it.
        arguments: Name and type of each argument that is required.
        optional: Name and type of each argument that may be left out.
        reports: Whether the command reports progress: `run` then takes a `ReportProgress` before
            the arguments.
        follows: Whether it reports until its client goes or sends another line; it reports progress
            too. Such commands have connections of their own beside the others.
        audited: How the audit log shows it; None for what changes nothing, and for commands whose
            parts record what they do by themselves.
    """

    name: str
    run: Callable[..., Awaitable[object]]
    arguments: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)
    reports: bool = False
    follows: bool = False
    audited: Audited | None = None

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Check the arguments of a request.

        Raises:
            ControlError: An argument is missing, unknown or of another type.
        """
        for name in self.arguments.keys() - arguments.keys():
            raise self._refusal(f"argument '{name}' is missing")
        for name, value in arguments.items():
            kind = self.arguments.get(name) or self.optional.get(name)
            if kind is None:
                raise self._refusal(f"unknown argument '{name}'")
            # Not isinstance: in Python true is an int.
            if type(value) is not kind:
                raise self._refusal(f"argument '{name}' must be {_TYPE_NAMES[kind]}")

    def _refusal(self, reason: str) -> ControlError:
        return ControlError(ErrorKind.INVALID_ARGUMENT, f"{self.name}: {reason}")


async def run_request(
    commands: Mapping[str, Command],
    request: Request,
    report: ReportProgress,
    record: Callable[[Command, Mapping[str, Any], str], None],
) -> object:
    """Run the command of a request and return its result.

    Args:
        commands: Commands by name.
        request: The request, not checked yet.
        report: Sends the client a progress report.
        record: Called when the command has ended, with its arguments and the kind of its error.

    Raises:
        ControlError: The command is unknown, refused or failed.
    """
    command = commands.get(request.command)
    if command is None:
        raise ControlError(
            ErrorKind.UNKNOWN_COMMAND,
            f"unknown command '{request.command}'; known are {', '.join(sorted(commands))}",
        )
    command.check(request.arguments)
    extra = (report,) if command.reports or command.follows else ()
    error = str(ErrorKind.FAILED)
    try:
        result = await when_permitted(partial(command.run, *extra, **request.arguments))
        error = ""
    except ControlError as refusal:
        error = refusal.kind
        raise
    finally:
        record(command, request.arguments, error)
    return result


async def when_permitted(call: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return the result of a call when the permissions that it needs are known.

    Args:
        call: Changes nothing before it knows its permissions; it is called again and again.

    Raises:
        ControlError: It needs too many, or raises this itself.
    """
    for _ in range(QUESTIONS_MAX):
        try:
            return await call()
        except AnswerAwaited as awaited:
            await asyncio.wait([awaited.answer])
    raise ControlError(ErrorKind.FAILED, "the authentication back end cannot be asked so much")
