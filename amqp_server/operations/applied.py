"""A change of the broker that is in memory: its result, and when it is durable.

What changes queues, exchanges and bindings is a function that takes the channel of the client that
asks for it, and a method of AMQP that says what is wanted. It checks, changes and returns what it
has applied; its caller replies. It raises before it has changed anything.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from amqp_server.broker.deletion import Deletion
    from amqp_server.protocol.methods import Method

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Applied(Generic[ResultT]):
    """What an operation has done.

    Attributes:
        result: For the reply. It is read when the change is durable, not earlier.
        durable: Awaited before any client learns of the change: afterwards a crash cannot undo it.
            None: nothing has to be awaited.
        notices: Notices of the same change for the channel that asked for it. They follow the
            reply, and are not sent if `durable` fails.
    """

    result: ResultT
    durable: Awaitable[None] | None = None
    notices: Sequence[Method] = ()


AppliedSteps: TypeAlias = Generator[None, None, Applied[ResultT] | None]
"""The steps of a change that takes longer than other clients should wait for.

Its result is None if the channel was closed before the change began.
"""
Operation: TypeAlias = Applied[ResultT] | AppliedSteps[ResultT]
"""What an operation returns."""


def deleted(deletion: Deletion, result: ResultT) -> Operation[ResultT]:
    """Take the first step of a deletion; return the change, or the steps that are left.

    As in RabbitMQ the reply comes before the cancellations on its own channel: clients take a
    cancellation that comes before the reply for one by another client.

    Args:
        deletion: Deletion that the operation has begun.
        result: For the reply.
    """
    if deletion.take_step():
        return Applied(result, deletion.finish(), deletion.notices)
    return _rest_of_deletion(deletion, result)


def _rest_of_deletion(deletion: Deletion, result: ResultT) -> AppliedSteps[ResultT]:
    yield
    yield from deletion.steps()
    return Applied(result, deletion.finish(), deletion.notices)
