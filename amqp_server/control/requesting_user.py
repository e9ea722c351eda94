"""The user of the server for whom a request is made, and what this user may do."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from amqp_server.access.backends.login import INTERNAL
from amqp_server.access.grants import UnansweredError
from amqp_server.access.user import ADMINISTRATOR
from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.parameters import ParameterOwner
from amqp_server.broker.rights import ALL_RIGHTS, AnswerAwaited, Rights
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.access.grants import Rules

requesting_user: Final[ContextVar[str]] = ContextVar("requesting_user", default="")
"""User whom the request of the present task names; empty if it names none."""

requesting_login: Final[ContextVar[str]] = ContextVar("requesting_login", default="")
"""Key of the login of that user, if another back end than the server's own has let the user in."""

ENTERED_SECONDS_MAX: Final = 10.0
"""Time until another back end must have said which virtual hosts a user may enter."""


def rights_in(access: AccessControl, vhost: str) -> Rights:
    """Return what the present request may do in a virtual host that exists.

    Args:
        access: Users and permissions.
        vhost: Name of the virtual host.

    Raises:
        ControlError: The user has no permission there.
        AnswerAwaited: It is not known yet: the request is made again when it is.
    """
    user = requesting_user.get()
    if not user:
        return ALL_RIGHTS
    if not may_enter(access, vhost):
        raise refusal(
            ReplyCode.NOT_ALLOWED,
            f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'",
        )
    return Rights(_rules_of(access, user), user, vhost)


def may_enter(access: AccessControl, vhost: str) -> bool:
    """Return whether the present request may enter a virtual host.

    Who let its user in decides that: the name alone may also be that of one of the server's users.

    Raises:
        ControlError: The user must log in again.
        AnswerAwaited: It is not known yet: the request is made again when it is.
    """
    user = requesting_user.get()
    if not user:
        return True
    try:
        return _rules_of(access, user).may_access(user, vhost)
    except UnansweredError as unanswered:
        text = f"access to vhost '{vhost}' of user '{user}' is not known yet"
        raise AnswerAwaited(text, unanswered.answer) from None


def owner_of_request(access: AccessControl) -> ParameterOwner | None:
    """Return the user for whom a parameter is set; None: an administrator.

    Raises:
        ControlError: The user must log in again.
    """
    user = requesting_user.get()
    if not user:
        return None
    key = requesting_login.get()
    if not key:
        known = access.users.get(user)
        tags, backend = (() if known is None else known.tags), INTERNAL
    else:
        login = access.visitors.find(key)
        if login is None or login.user != user:
            raise _log_in_again(user)
        tags, backend = login.tags, login.backend
    return None if ADMINISTRATOR in tags else ParameterOwner(user, backend)


async def entered_by_request(access: AccessControl, vhosts: Iterable[str]) -> set[str]:
    """Return those virtual hosts that the present request may enter.

    What a back end does not answer within `ENTERED_SECONDS_MAX` counts as closed.

    Raises:
        ControlError: The user must log in again.
    """
    found: set[str] = set()
    clock = asyncio.get_running_loop().time
    end = clock() + ENTERED_SECONDS_MAX
    time_slice = TimeSlice()
    for vhost in vhosts:
        while (left := end - clock()) > 0:
            await time_slice.yield_if_due()
            try:
                if may_enter(access, vhost):
                    found.add(vhost)
                break
            except AnswerAwaited as awaited:
                await asyncio.wait([awaited.answer], timeout=left)
    return found


def _rules_of(access: AccessControl, user: str) -> Rules:
    """Return who knows what the user of the present request may do."""
    key = requesting_login.get()
    if not key:
        return access
    login = access.visitors.find(key)
    if login is None or login.user != user:
        raise _log_in_again(user)
    return login.rules


def _log_in_again(user: str) -> ControlError:
    return refusal(ReplyCode.ACCESS_REFUSED, f"ACCESS_REFUSED - user '{user}' must log in again")


def refusal(code: int, text: str) -> ControlError:
    """Return the error of a request that AMQP refuses.

    Args:
        code: Reply code, such as 403.
        text: Its text as a client of AMQP gets it.
    """
    return ControlError(ErrorKind.REFUSED, text, {"code": int(code), "text": text})
