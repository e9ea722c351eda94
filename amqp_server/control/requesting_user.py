"""The user of the server for whom a request is made, and what this user may do."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from amqp_server.broker.rights import ALL_RIGHTS, Rights
from amqp_server.control.messages import ControlError, ErrorKind
from amqp_server.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl

requesting_user: Final[ContextVar[str]] = ContextVar("requesting_user", default="")
"""User whom the request of the present task names; empty if it names none."""


def rights_in(access: AccessControl, vhost: str) -> Rights:
    """Return what the present request may do in a virtual host that exists.

    Args:
        access: Users and permissions.
        vhost: Name of the virtual host.

    Raises:
        ControlError: The user has no permission there.
    """
    user = requesting_user.get()
    if not user:
        return ALL_RIGHTS
    if not access.may_access(user, vhost):
        raise refusal(
            ReplyCode.NOT_ALLOWED,
            f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'",
        )
    return Rights(access, user, vhost)


def refusal(code: int, text: str) -> ControlError:
    """Return the error of a request that AMQP refuses.

    Args:
        code: Reply code, such as 403.
        text: Its text as a client of AMQP gets it.
    """
    return ControlError(ErrorKind.REFUSED, text, {"code": int(code), "text": text})
