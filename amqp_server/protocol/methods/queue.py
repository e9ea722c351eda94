"""Methods of class queue (50): declare, bind, unbind, purge and delete."""

from dataclasses import field

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import (
    Bit,
    FieldTable,
    Long,
    Method,
    Short,
    ShortStr,
    method,
)

_CLASS = ClassId.QUEUE


@method("queue.declare", _CLASS, 10)
class QueueDeclare(Method):
    """Client: create the queue, or check it when passive."""

    ticket: Short = 0
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method("queue.declare-ok", _CLASS, 11)
class QueueDeclareOk(Method):
    """Server: the queue exists; `message_count` counts ready messages only."""

    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


@method("queue.bind", _CLASS, 20)
class QueueBind(Method):
    """Client: route from `exchange` to `queue`."""

    ticket: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method("queue.bind-ok", _CLASS, 21)
class QueueBindOk(Method):
    """Server: the binding exists."""


@method("queue.purge", _CLASS, 30)
class QueuePurge(Method):
    """Client: drop all ready messages."""

    ticket: Short = 0
    queue: ShortStr = ""
    no_wait: Bit = False


@method("queue.purge-ok", _CLASS, 31)
class QueuePurgeOk(Method):
    """Server: how many messages were dropped."""

    message_count: Long = 0


@method("queue.delete", _CLASS, 40)
class QueueDelete(Method):
    """Client: delete the queue."""

    ticket: Short = 0
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


@method("queue.delete-ok", _CLASS, 41)
class QueueDeleteOk(Method):
    """Server: the queue is deleted; it had this many ready messages."""

    message_count: Long = 0


@method("queue.unbind", _CLASS, 50)
class QueueUnbind(Method):
    """Client: remove a binding; there is no no-wait form."""

    ticket: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: FieldTable = field(default_factory=dict)


@method("queue.unbind-ok", _CLASS, 51)
class QueueUnbindOk(Method):
    """Server: the binding does not exist any more."""


QUEUE_METHODS: tuple[type[Method], ...] = (
    QueueDeclare,
    QueueDeclareOk,
    QueueBind,
    QueueBindOk,
    QueuePurge,
    QueuePurgeOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
