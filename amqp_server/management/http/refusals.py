"""What the broker has refused, as HTTP says it."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from amqp_server.management.http.answers import ApiError, bad_request, not_authorised, not_found

if TYPE_CHECKING:
    from amqp_server.management.broker_client import BrokerRefused

_NAME: Final = re.compile(r"[A-Z_]+ - ")
"""Before the explanation in AMQP's texts: `PRECONDITION_FAILED - `."""
_NO_RIGHT: Final = (403, 530)

AWAY: Final = ApiError(
    HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "The broker does not answer: try again"
)
"""The broker does not answer."""


def error_of(refused: BrokerRefused) -> ApiError:
    """Return what a client gets whose command the broker has refused."""
    kind, reason = str(refused.kind), refused.reason
    if kind == "refused":
        code = refused.details.get("code")
        text = str(refused.details.get("text", reason))
        explanation = _NAME.sub("", text, count=1)
        if code in _NO_RIGHT:
            return not_authorised("Access refused.")
        if code == HTTPStatus.NOT_FOUND:
            return ApiError(HTTPStatus.NOT_FOUND, "not_found", explanation)
        return bad_request(explanation)
    if kind == "not_found":
        return not_found()
    if kind == "limit_reached":
        return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", reason)
    if kind in ("failed", "unknown_command"):
        return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", reason)
    return bad_request(reason)
