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
"""Of this language; a request of another version is refused."""
LINE_BYTES_MAX: Final = 1024 * 1024
"""Longest request, with its line feed. Replies are as long as what was asked for."""


class ErrorKind(StrEnum):
    """What went wrong, for programs; the reason beside it is for people."""

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
    FAILED = "failed"


class ControlError(Exception):
    """A request that was not done.

    Attributes:
        kind: What went wrong.
        reason: One line: what, where, found, expected.
        details: What of the reason a program may want, by name, such as the valid range.
    """

    def __init__(
        self, kind: ErrorKind, reason: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.details = dict(details or {})


class ClientGoneError(OSError):
    """Nobody is there any more to be told how far a request is."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        command: Name of a command.
        arguments: By name, not checked yet.
    """

    command: str
    arguments: dict[str, Any]


def encode_request(request: Request) -> bytes:
    """Return a request as a line.

    Raises:
        ControlError: An argument is not UTF-8.
    """
    fields = {"version": VERSION, "command": request.command, "arguments": request.arguments}
    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        reason = f"an argument cannot be sent: {error}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason) from error


def decode_request(line: bytes) -> Request:
    """Read a request.

    Raises:
        ControlError: It is none, or of another version.
    """
    fields = _object(line)
    version = fields.pop("version", VERSION)
    if version != VERSION:
        reason = f"version {version!r} of the control protocol, this server speaks {VERSION}"
        raise ControlError(ErrorKind.UNSUPPORTED_VERSION, reason)
    command, arguments = fields.pop("command", None), fields.pop("arguments", {})
    if not isinstance(command, str):
        raise ControlError(ErrorKind.BAD_REQUEST, 'no "command", which is text')
    if not isinstance(arguments, dict):
        raise ControlError(ErrorKind.BAD_REQUEST, '"arguments" is not an object')
    if fields:
        raise ControlError(ErrorKind.BAD_REQUEST, f"unknown fields {', '.join(sorted(fields))}")
    return Request(command, arguments)


def encode_result(result: object) -> bytes:
    """Return the reply to a request that was done, as a line."""
    return orjson.dumps({"ok": result}, option=orjson.OPT_APPEND_NEWLINE)


def encode_progress(progress: Mapping[str, object]) -> bytes:
    """Return what comes before the reply to a long request, perhaps many times, as a line."""
    return orjson.dumps({"progress": progress}, option=orjson.OPT_APPEND_NEWLINE)


def encode_error(error: ControlError) -> bytes:
    """Return the reply to a request that was not done, as a line."""
    reply: dict[str, object] = {"error": error.kind.value, "reason": error.reason}
    if error.details:
        reply["details"] = error.details
    return orjson.dumps(reply, option=orjson.OPT_APPEND_NEWLINE)


def decode_progress(line: bytes) -> dict[str, Any] | None:
    """Return what a line tells of a request at work; None when it is the reply."""
    # A reply may be long, and is read once only.
    if not line.startswith(b'{"progress":'):
        return None
    progress = _object(line)["progress"]
    return progress if isinstance(progress, dict) else None


def decode_reply(line: bytes) -> Any:  # noqa: ANN401 - what a command returns
    """Return the result in a reply.

    Raises:
        ControlError: The request was not done, or this is no reply.
    """
    fields = _object(line)
    if "ok" in fields:
        return fields["ok"]
    kind, reason = fields.get("error"), fields.get("reason")
    known = next((each for each in ErrorKind if each == kind), ErrorKind.FAILED)
    details = fields.get("details")
    raise ControlError(
        known,
        str(reason or "the reply says neither ok nor error"),
        details if isinstance(details, dict) else None,
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ControlError(ErrorKind.BAD_REQUEST, f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ControlError(ErrorKind.BAD_REQUEST, "not a JSON object")
    return fields
