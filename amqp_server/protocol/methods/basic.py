"""Methods of class basic (60): publishing, consuming and settling messages."""

import struct
from dataclasses import field

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import (
    Bit,
    FieldTable,
    Long,
    LongLong,
    Method,
    Short,
    ShortStr,
    method,
)

_CLASS = ClassId.BASIC
_ACK = struct.Struct(">4sQ?")


@method("basic.qos", _CLASS, 10)
class BasicQos(Method):
    """Client: limit the unacknowledged deliveries; `prefetch_size` in bytes, 0 for no limit."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


@method("basic.qos-ok", _CLASS, 11)
class BasicQosOk(Method):
    """Server: the limit is set."""


@method("basic.consume", _CLASS, 20)
class BasicConsume(Method):
    """Client: start a consumer; an empty tag asks the server to choose one."""

    ticket: Short = 0
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method("basic.consume-ok", _CLASS, 21)
class BasicConsumeOk(Method):
    """Server: the consumer is running."""

    consumer_tag: ShortStr = ""


@method("basic.cancel", _CLASS, 30)
class BasicCancel(Method):
    """Client: stop a consumer. Server: the consumer's queue is gone."""

    consumer_tag: ShortStr = ""
    no_wait: Bit = False


@method("basic.cancel-ok", _CLASS, 31)
class BasicCancelOk(Method):
    """The consumer gets no more deliveries."""

    consumer_tag: ShortStr = ""


@method("basic.publish", _CLASS, 40, has_content=True)
class BasicPublish(Method):
    """Client: send a message to an exchange."""

    ticket: Short = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


@method("basic.return", _CLASS, 50, has_content=True)
class BasicReturn(Method):
    """Server: return a message that could not be routed."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@method("basic.deliver", _CLASS, 60, has_content=True)
class BasicDeliver(Method):
    """Server: a message for a consumer."""

    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@method("basic.get", _CLASS, 70)
class BasicGet(Method):
    """Client: ask for one message."""

    ticket: Short = 0
    queue: ShortStr = ""
    no_ack: Bit = False


@method("basic.get-ok", _CLASS, 71, has_content=True)
class BasicGetOk(Method):
    """Server: the message asked for; `message_count` ready ones remain."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


@method("basic.get-empty", _CLASS, 72)
class BasicGetEmpty(Method):
    """Server: no message is ready; `cluster_id` means nothing since 0-9-1."""

    cluster_id: ShortStr = ""


@method("basic.ack", _CLASS, 80)
class BasicAck(Method):
    """Client: settle a delivery. Server: confirm a publish. Multiple means up to and including."""

    delivery_tag: LongLong = 0
    multiple: Bit = False

    def encode(self) -> bytes:
        """Return the payload in one step: each confirm of a lone message is one."""
        try:
            return _ACK.pack(self.identity, self.delivery_tag, self.multiple)
        except struct.error:
            # With the text of the argument that does not fit.
            return Method.encode(self)


@method("basic.reject", _CLASS, 90)
class BasicReject(Method):
    """Client: refuse one delivery."""

    delivery_tag: LongLong = 0
    requeue: Bit = True


@method("basic.recover-async", _CLASS, 100)
class BasicRecoverAsync(Method):
    """Client: requeue all unacknowledged deliveries, without a reply (deprecated)."""

    requeue: Bit = False


@method("basic.recover", _CLASS, 110)
class BasicRecover(Method):
    """Client: requeue all unacknowledged deliveries."""

    requeue: Bit = False


@method("basic.recover-ok", _CLASS, 111)
class BasicRecoverOk(Method):
    """Server: the deliveries are requeued."""


@method("basic.nack", _CLASS, 120)
class BasicNack(Method):
    """Client: refuse deliveries. Server: a publish was not accepted (RabbitMQ extension)."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


BASIC_METHODS: tuple[type[Method], ...] = (
    BasicQos,
    BasicQosOk,
    BasicConsume,
    BasicConsumeOk,
    BasicCancel,
    BasicCancelOk,
    BasicPublish,
    BasicReturn,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicGetEmpty,
    BasicAck,
    BasicReject,
    BasicRecoverAsync,
    BasicRecover,
    BasicRecoverOk,
    BasicNack,
)
