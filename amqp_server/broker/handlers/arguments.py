"""Arguments of queues and exchanges: checked, refused, or taken though nothing acts on them yet.

An argument that decides what becomes of a message is refused while it is not served: taken in
silence, it would lose messages or keep them for ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.protocol.errors import NotImplementedAmqp, PreconditionFailed
from amqp_server.protocol.field_comparison import type_name

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldValue
    from amqp_server.protocol.tables import Table

logger = logging.getLogger(__name__)

RETAIN_FOR = "x-retain-for"
"""Milliseconds that settled messages are kept for replay and export."""

_WITHOUT_EFFECT = ("x-message-ttl", "x-expires")
_NOT_SERVED = (
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-single-active-consumer",
)
_INTEGER_KINDS = b"bBsuIilL"


def check_queue_arguments(queue: str, vhost: str, arguments: Table) -> None:
    """Check the arguments of a new queue.

    Raises:
        PreconditionFailed: One has a value that it cannot have.
        NotImplementedAmqp: A kind of queue that is not served.
    """
    retain_for = arguments.get(RETAIN_FOR)
    if retain_for is not None:
        _check_not_negative(RETAIN_FOR, retain_for, queue, vhost)
    kind = arguments.get("x-queue-type")
    if kind is not None and kind.value not in (b"classic", b"quorum"):
        shown = (
            kind.value.decode("utf-8", "replace") if isinstance(kind.value, bytes) else kind.value
        )
        if kind.value == b"stream":
            raise NotImplementedAmqp("x-queue-type=stream")
        raise PreconditionFailed(
            f"invalid arg 'x-queue-type' for queue '{queue}' in vhost '{vhost}': "
            f"unsupported queue type '{shown}'"
        )
    for name in _NOT_SERVED:
        if name in arguments:
            raise NotImplementedAmqp(f"queue argument {name}")
    idle = [name for name in _WITHOUT_EFFECT if name in arguments]
    if idle:
        logger.warning("arguments without effect queue=%s arguments=%s", queue, ",".join(idle))


def check_alternate(exchange: str, vhost: str, arguments: Table) -> None:
    """Check a new exchange's `alternate-exchange`, if it has one.

    Raises:
        PreconditionFailed: It is not a string.
    """
    value = arguments.get("alternate-exchange")
    if value is not None and value.kind != b"S":
        raise PreconditionFailed(
            f"invalid type '{type_name(value)}' for arg 'alternate-exchange' "
            f"in exchange '{exchange}' in vhost '{vhost}'"
        )


def retain_for_seconds(arguments: Table, default_seconds: float) -> float:
    """Return how long the queue keeps settled messages, in seconds."""
    value = arguments.get(RETAIN_FOR)
    if value is None or not isinstance(value.value, int):
        return default_seconds
    return value.value / 1000


def _check_not_negative(name: str, value: FieldValue, queue: str, vhost: str) -> None:
    if value.kind not in _INTEGER_KINDS or not isinstance(value.value, int):
        fault = f"{{unacceptable_type,{value.kind.decode()}}}"
    elif value.value < 0:
        fault = f"{{value_negative,{value.value}}}"
    else:
        return
    raise PreconditionFailed(
        f"invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': {fault}"
    )
