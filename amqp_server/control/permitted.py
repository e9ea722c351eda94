"""Commands of users whose permissions a back end has to be asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from amqp_server.broker.rights import AnswerAwaited
from amqp_server.control.messages import ControlError, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

QUESTIONS_MAX: Final = 100
"""Permissions that are asked for one command."""
ResultT = TypeVar("ResultT")


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
