"""Checks of a stream's consumers.

Source: RabbitMQ 3.10, `rabbit_stream_queue` (`consume`, `dequeue`) and `rabbit_channel`, with their
texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.declaring.argument_values import unacceptable
from amqp_server.broker.subscriptions.joining import GROUP
from amqp_server.broker.subscriptions.start_position import parse_start
from amqp_server.protocol.errors import NotImplementedAmqp, PreconditionFailed
from amqp_server.protocol.field_comparison import INTEGER_KINDS, erlang_term, type_name

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.field_values import FieldValue, Table
    from amqp_server.protocol.methods import BasicConsume

_START_KINDS = INTEGER_KINDS | {b"S", b"T"}


def stream_offset(value: FieldValue, _arguments: Table) -> str | None:
    """Return the fault of `x-stream-offset`, or None."""
    if value.kind not in _START_KINDS:
        return unacceptable(value)
    if parse_start(value, now_ns=0) is None:
        shown = f"{{{type_name(value)},{erlang_term(value.value)}}}"
        return f"{{invalid_stream_offset_arg,{shown}}}"
    return None


def stream_filter(_value: FieldValue, arguments: Table) -> str | None:
    """Return the fault of `x-stream-filter`, or None: its values may be of any type."""
    return "members of a consumer group cannot have a filter" if GROUP in arguments else None


def check_stream_consumer(channel: Channel, queue: Queue, method: BasicConsume) -> None:
    """Check that a consumer of a stream has a prefetch limit of its own and acknowledges.

    Raises:
        PreconditionFailed: The channel has no prefetch limit for its consumers.
        NotImplementedAmqp: The consumer does not acknowledge, or the channel has a global limit.
    """
    where = _where(queue)
    if not channel.prefetch:
        raise PreconditionFailed(f"consumer prefetch count is not set for '{where}'")
    if method.no_ack:
        raise NotImplementedAmqp(
            f"automatic acknowledgement not supported by stream queues {where}"
        )
    if channel.prefetch_global:
        raise NotImplementedAmqp(f"{where} does not support global qos")


def _where(queue: Queue) -> str:
    return f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
