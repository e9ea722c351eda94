"""What a handler gives back: an answer, or an error with RabbitMQ's shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in JSON.

    Attributes:
        status: HTTP status.
        value: JSON value; `NOTHING` for an answer without a body.
        headers: Further headers, by name in lower case.
    """

    status: int
    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Octets:
    """An answer whose body is made already.

    Attributes:
        status: HTTP status.
        content_type: Value of the header.
        body: The whole body.
        headers: Further headers, by name in lower case.
        gzipped: The body compressed, if its maker keeps it; None: it is compressed when asked for.
        is_packed: Whether the body is compressed already, so that it is sent as it is.
    """

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    gzipped: bytes | None = None
    is_packed: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer whose body comes in parts, such as events, or a list too long for the memory.

    Attributes:
        content_type: Value of the header.
        parts: Parts of the body; closed when the client has gone.
        headers: Further headers, by name in lower case.
    """

    content_type: str
    parts: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


AnyAnswer = Answer | Octets | Stream

NOTHING: Final = object()
"""Value of an answer without a body."""

CREATED: Final = Answer(HTTPStatus.CREATED, NOTHING)
NO_CONTENT: Final = Answer(HTTPStatus.NO_CONTENT, NOTHING)


def ok(value: Any) -> Answer:  # noqa: ANN401 - any JSON value
    """Return the answer 200 with a JSON value."""
    return Answer(HTTPStatus.OK, value)


class ApiError(Exception):
    """An error that the client gets.

    Attributes:
        status: HTTP status.
        error: Word for programs, `error` in the body; empty: there is no body.
        reason: Text or list for people, `reason` in the body.
        headers: Further headers.
    """

    def __init__(
        self,
        status: int,
        error: str = "",
        reason: str | list[Any] = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})

    def answer(self) -> Answer:
        """Return the error as an answer."""
        value = {"error": self.error, "reason": self.reason} if self.error else NOTHING
        return Answer(self.status, value, self.headers)


def bad_request(reason: str | list[Any]) -> ApiError:
    """Return the error 400."""
    return ApiError(HTTPStatus.BAD_REQUEST, "bad_request", reason)


def not_found() -> ApiError:
    """Return the error 404 for a path or an object that does not exist."""
    return ApiError(HTTPStatus.NOT_FOUND, "Object Not Found", "Not Found")


def vhost_not_found() -> ApiError:
    """Return the error 404 for a write to a virtual host that does not exist."""
    return ApiError(HTTPStatus.NOT_FOUND, "not_found", "vhost_not_found")


def not_authorised(reason: str) -> ApiError:
    """Return the error 401 of a user who may not do this; RabbitMQ never answers 403."""
    return ApiError(HTTPStatus.UNAUTHORIZED, "not_authorised", reason)
