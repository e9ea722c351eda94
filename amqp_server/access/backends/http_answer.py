"""Answers of a back end's HTTP server, read as RabbitMQ's plugin reads them.

Source: rabbitmq_auth_backend_http, `rabbit_auth_backend_http`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SUCCESSES: Final = (200, 201)
"""Status codes of answers that count."""
BYTES_MAX: Final = 64 * 1024
"""Longest answer."""
_SHOWN_CHARACTERS_MAX: Final = 60


class BadAnswerError(Exception):
    """It is no answer that the server may give: it denies."""


class HttpAnswer(NamedTuple):
    """An answer.

    Attributes:
        allows: Whether it is `allow`.
        words: Words behind `allow`: the tags of a user.
        reason: Text behind `deny`.
    """

    allows: bool
    words: tuple[str, ...] = ()
    reason: str = ""


def read_answer(status: int, octets: bytes, *, is_shown: bool) -> HttpAnswer:
    """Return what an answer says.

    Args:
        status: Status code of HTTP.
        octets: Body.
        is_shown: Whether an error may quote it: a server may repeat a password that it was sent.

    Raises:
        BadAnswerError: It is neither `allow` nor `deny`.
    """
    if status not in SUCCESSES:
        raise BadAnswerError(f"the server answered with status {status}")
    try:
        text = octets.decode().strip()
    except UnicodeDecodeError:
        raise BadAnswerError("the answer is not UTF-8") from None
    verdict, _, rest = text.partition(" ")
    match verdict.lower():
        case "allow":
            return HttpAnswer(True, tuple(rest.lower().split()))
        case "deny":
            return HttpAnswer(False, reason=rest.strip())
    shown = f" but {text[:_SHOWN_CHARACTERS_MAX]!r}" if is_shown else ""
    raise BadAnswerError(f"the answer is neither allow nor deny{shown}")
