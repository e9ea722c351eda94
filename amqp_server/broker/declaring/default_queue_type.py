"""The queue type that a virtual host gives to queues that are declared without one.

Source: RabbitMQ 4.2, `rabbit_amqqueue:augment_declare_args`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.broker.declaring.queue_arguments import TYPE_MODULES, queue_type
from amqp_server.broker.queue_settings import QueueType
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.methods import QueueDeclare

DEFAULT_QUEUE_TYPE: Final = "default_queue_type"
"""Member of a virtual host's description."""
_TYPE: Final = "x-queue-type"
_TYPES: Final = {kind.value: kind for kind in QueueType} | {
    module: kind for kind, module in TYPE_MODULES.items()
}


def with_queue_type(vhost: VirtualHost, method: QueueDeclare) -> QueueDeclare:
    """Return a declare with the type of its virtual host, if it names none and may have that one.

    A queue that is transient, exclusive or deleted with its last consumer is a classic one.
    """
    kind = _TYPES.get(str(vhost.metadata.get(DEFAULT_QUEUE_TYPE, "")), QueueType.CLASSIC)
    if (
        kind is QueueType.CLASSIC
        or _TYPE in method.arguments
        or not method.durable
        or method.exclusive
        or method.auto_delete
    ):
        return method
    arguments = {**method.arguments, _TYPE: FieldValue(b"S", kind.value.encode())}
    return replace(method, arguments=arguments)


def check_server_may_name(method: QueueDeclare) -> None:
    """Check that a queue without a name has a type whose queues the server names.

    Raises:
        PreconditionFailed: It is a quorum queue or a stream.
    """
    value = method.arguments.get(_TYPE)
    if value is None or value.value not in (b"quorum", b"stream"):
        # Another value is no type at all, which the check of the arguments tells.
        return
    module = TYPE_MODULES[queue_type(method.arguments)]
    raise PreconditionFailed(f"Cannot declare a server-named queue for type {module}")
