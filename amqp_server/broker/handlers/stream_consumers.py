"""What a stream asks of its consumers, and what cannot be done with a stream at all.

Source: RabbitMQ 3.10, `rabbit_stream_queue` (`consume`, `dequeue`) and `rabbit_channel`; texts as
it sends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.handlers.argument_values import unacceptable
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
    """Return what is wrong with where a consumer wants to begin, or None."""
    if value.kind not in _START_KINDS:
        return unacceptable(value)
    if parse_start(value, now_ns=0) is None:
        shown = f"{{{type_name(value)},{erlang_term(value.value)}}}"
        return f"{{invalid_stream_offset_arg,{shown}}}"
    return None


def stream_filter(_value: FieldValue, arguments: Table) -> str | None:
    """Return what is wrong with a filter, or None: its values may be of any type."""
    return "the members of a group have no filter" if GROUP in arguments else None


def check_stream_consumer(channel: Channel, queue: Queue, method: BasicConsume) -> None:
    """Check that a stream can serve a consumer: it is bounded, and by itself.

    Raises:
        PreconditionFailed: The channel has no prefetch limit for its consumers.
        NotImplementedAmqp: It does not acknowledge, or shares a limit with others.
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


def refuse_stream(queue: Queue, operation: str) -> None:
    """Refuse what cannot be done with streams.

    Args:
        queue: What it is to be done with.
        operation: Name of the method.

    Raises:
        NotImplementedAmqp: It is a stream.
    """
    if queue.is_stream:
        raise NotImplementedAmqp(f"{operation} not supported by stream queues {_where(queue)}")


def _where(queue: Queue) -> str:
    return f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
