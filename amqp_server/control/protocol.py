"""Requests and replies on the control socket: one JSON object a line, in UTF-8.

Source: docs/control.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

VERSION: Final = 1
"""Version of the protocol; a request with another version is refused."""
LINE_BYTES_MAX: Final = 1024 * 1024
"""Longest request in bytes, with its line feed. Replies have no such limit."""


class ErrorKind(StrEnum):
    """Kind of an error, for programs; the reason beside it is for people."""

    BAD_REQUEST = "bad_request"
    UNSUPPORTED_VERSION = "unsupported_version"
    UNKNOWN_COMMAND = "unknown_command"
    INVALID_ARGUMENT = "invalid_argument"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    LIMIT_REACHED = "limit_reached"
    IN_USE = "in_use"
    OUT_OF_RANGE = "out_of_range"
    REGRESSING_COMMIT = "regressing_commit"
    REFUSED = "refused"
    FAILED = "failed"


class ControlError(Exception):
    """A request that was refused or failed.

    Attributes:
        kind: Kind of the error.
        reason: One line: what failed, where, what was found and what was expected.
        details: Values from the reason for programs, by name, such as the valid range.
    """

    def __init__(
        self, kind: ErrorKind, reason: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.details = dict(details or {})


class ClientGoneError(OSError):
    """The client has closed its connection, so its progress reports have no reader."""


@dataclass(frozen=True, slots=True)
class RequestActor:
    """The user of the server for whom a program makes a request.

    Attributes:
        user: Name of the user, whom the program has authenticated.
        peer: Address of the user: `host:port`.
        login: Key of the login, which `logins.check` has told; empty for the server's own users.
    """

    user: str
    peer: str
    login: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        command: Name of the command.
        arguments: Arguments by name, not checked yet.
        actor: User for whom the request is made; None: the program itself, which may do everything.
    """

    command: str
    arguments: dict[str, Any]
    actor: RequestActor | None = None


def encode_request(request: Request) -> bytes:
    """Return a request as a line.

    Raises:
        ControlError: An argument is not valid UTF-8.
    """
    fields: dict[str, Any] = {
        "version": VERSION,
        "command": request.command,
        "arguments": request.arguments,
    }
    if request.actor is not None:
        actor = request.actor
        fields["actor"] = {"user": actor.user, "peer": actor.peer}
        if actor.login:
            fields["actor"]["login"] = actor.login
    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        reason = f"an argument cannot be sent: {error}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason) from error


def decode_request(line: bytes) -> Request:
    """Parse a request.

    Raises:
        ControlError: The line is no request, or has another version.
    """
    fields = _object(line)
    version = fields.pop("version", VERSION)
    if version != VERSION:
        reason = f"version {version!r} of the control protocol, this server speaks {VERSION}"
        raise ControlError(ErrorKind.UNSUPPORTED_VERSION, reason)
    command = fields.pop("command", None)
    arguments = fields.pop("arguments", {})
    if not isinstance(command, str):
        raise ControlError(ErrorKind.BAD_REQUEST, '"command" is missing or not text')
    if not isinstance(arguments, dict):
        raise ControlError(ErrorKind.BAD_REQUEST, '"arguments" is not an object')
    actor = _actor(fields.pop("actor", None))
    if fields:
        raise ControlError(ErrorKind.BAD_REQUEST, f"unknown fields {', '.join(sorted(fields))}")
    return Request(command, arguments, actor)


def encode_result(result: object) -> bytes:
    """Return the reply to a request that succeeded, as a line."""
    return orjson.dumps({"ok": result}, option=orjson.OPT_APPEND_NEWLINE)


def encode_progress(progress: Mapping[str, object]) -> bytes:
    """Return a progress report as a line; a long request sends several before its reply."""
    return orjson.dumps({"progress": progress}, option=orjson.OPT_APPEND_NEWLINE)


def encode_error(error: ControlError) -> bytes:
    """Return the reply to a request that failed, as a line."""
    reply: dict[str, object] = {"error": error.kind.value, "reason": error.reason}
    if error.details:
        reply["details"] = error.details
    return orjson.dumps(reply, option=orjson.OPT_APPEND_NEWLINE)


def decode_progress(line: bytes) -> dict[str, Any] | None:
    """Return a progress report; None if the line is the reply."""
    # Compare the start first: a reply may be long, so it should be parsed only once.
    if not line.startswith(b'{"progress":'):
        return None
    progress = _object(line)["progress"]
    return progress if isinstance(progress, dict) else None


def decode_reply(line: bytes) -> Any:  # noqa: ANN401 - what a command returns
    """Return the result in a reply.

    Raises:
        ControlError: The request failed, or the line is no reply.
    """
    fields = _object(line)
    if "ok" in fields:
        return fields["ok"]
    kind = fields.get("error")
    reason = fields.get("reason")
    known = next((each for each in ErrorKind if each == kind), ErrorKind.FAILED)
    details = fields.get("details")
    raise ControlError(
        known,
        str(reason or "the reply says neither ok nor error"),
        details if isinstance(details, dict) else None,
    )


def _actor(value: object) -> RequestActor | None:
    match value:
        case None:
            return None
        case {"user": str(user), "peer": str(peer), **others} if user and not others:
            return RequestActor(user, peer)
        case {"user": str(user), "peer": str(peer), "login": str(login), **others} if (
            user and not others
        ):
            return RequestActor(user, peer, login)
    reason = '"actor" must be an object with the texts "user" and "peer"'
    raise ControlError(ErrorKind.BAD_REQUEST, reason)


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ControlError(ErrorKind.BAD_REQUEST, f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ControlError(ErrorKind.BAD_REQUEST, "not a JSON object")
    return fields
