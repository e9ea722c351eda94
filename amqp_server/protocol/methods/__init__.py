"""AMQP methods, one frozen class for each, and their conversion to and from method frames.

Source: AMQP 0-9-1 specification, section 1.3 and following, and RabbitMQ's protocol extensions.
"""

from struct import Struct

from amqp_server.protocol.constants import FRAME_END_BYTE, FRAME_METHOD
from amqp_server.protocol.errors import FieldSyntaxError, NotImplementedAmqp
from amqp_server.protocol.methods.access import (
    ACCESS_METHODS,
    AccessRequest,
    AccessRequestOk,
)
from amqp_server.protocol.methods.basic import (
    BASIC_METHODS,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
)
from amqp_server.protocol.methods.channel import (
    CHANNEL_METHODS,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)
from amqp_server.protocol.methods.codec import METHOD_ID_BYTES, Method
from amqp_server.protocol.methods.confirm import (
    CONFIRM_METHODS,
    ConfirmSelect,
    ConfirmSelectOk,
)
from amqp_server.protocol.methods.connection import (
    CONNECTION_METHODS,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from amqp_server.protocol.methods.exchange import (
    EXCHANGE_METHODS,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)
from amqp_server.protocol.methods.queue import (
    QUEUE_METHODS,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from amqp_server.protocol.methods.tx import (
    TX_METHODS,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)

__all__ = [
    "METHODS",
    "AccessRequest",
    "AccessRequestOk",
    "BasicAck",
    "BasicCancel",
    "BasicCancelOk",
    "BasicConsume",
    "BasicConsumeOk",
    "BasicDeliver",
    "BasicGet",
    "BasicGetEmpty",
    "BasicGetOk",
    "BasicNack",
    "BasicPublish",
    "BasicQos",
    "BasicQosOk",
    "BasicRecover",
    "BasicRecoverAsync",
    "BasicRecoverOk",
    "BasicReject",
    "BasicReturn",
    "ChannelClose",
    "ChannelCloseOk",
    "ChannelFlow",
    "ChannelFlowOk",
    "ChannelOpen",
    "ChannelOpenOk",
    "ConfirmSelect",
    "ConfirmSelectOk",
    "ConnectionBlocked",
    "ConnectionClose",
    "ConnectionCloseOk",
    "ConnectionOpen",
    "ConnectionOpenOk",
    "ConnectionSecure",
    "ConnectionSecureOk",
    "ConnectionStart",
    "ConnectionStartOk",
    "ConnectionTune",
    "ConnectionTuneOk",
    "ConnectionUnblocked",
    "ConnectionUpdateSecret",
    "ConnectionUpdateSecretOk",
    "ExchangeBind",
    "ExchangeBindOk",
    "ExchangeDeclare",
    "ExchangeDeclareOk",
    "ExchangeDelete",
    "ExchangeDeleteOk",
    "ExchangeUnbind",
    "ExchangeUnbindOk",
    "Method",
    "QueueBind",
    "QueueBindOk",
    "QueueDeclare",
    "QueueDeclareOk",
    "QueueDelete",
    "QueueDeleteOk",
    "QueuePurge",
    "QueuePurgeOk",
    "QueueUnbind",
    "QueueUnbindOk",
    "TxCommit",
    "TxCommitOk",
    "TxRollback",
    "TxRollbackOk",
    "TxSelect",
    "TxSelectOk",
    "ack_frame",
    "decode_method",
    "method_frame",
    "method_name",
]

_METHOD_ID = Struct(">HH")
_FRAME_HEADER = Struct(">BHI")
_ACK_FRAME = Struct(">BHI4sQBc")
_ACK_BYTES = 13
"""Length of a `basic.ack`'s payload."""

METHODS: dict[tuple[int, int], type[Method]] = {
    (method_class.class_id, method_class.method_id): method_class
    for method_class in (
        *CONNECTION_METHODS,
        *CHANNEL_METHODS,
        *ACCESS_METHODS,
        *EXCHANGE_METHODS,
        *QUEUE_METHODS,
        *BASIC_METHODS,
        *CONFIRM_METHODS,
        *TX_METHODS,
    )
}
"""Every method that can be decoded, by class id and method id."""


def decode_method(payload: bytes) -> Method:
    """Decode the payload of a method frame.

    Args:
        payload: The whole payload, class id first; not kept.

    Raises:
        FieldSyntaxError: The payload is too short or too long, or an argument is malformed.
        NotImplementedAmqp: No class or method has these ids.
    """
    if len(payload) < METHOD_ID_BYTES:
        raise FieldSyntaxError(f"method frame of {len(payload)} bytes has no method id")
    class_id, method_id = _METHOD_ID.unpack_from(payload)
    method_class = METHODS.get((class_id, method_id))
    if method_class is None:
        raise NotImplementedAmqp("unimplemented method", class_id, method_id)
    return method_class.decode(payload)


def method_name(payload: bytes) -> str:
    """Return the name of the method in a payload, as in `QueueDeclare`, also of an unknown one."""
    if len(payload) < METHOD_ID_BYTES:
        return "no method"
    class_id, method_id = _METHOD_ID.unpack_from(payload)
    method_class = METHODS.get((class_id, method_id))
    return f"{class_id}.{method_id}" if method_class is None else method_class.__name__


def method_frame(channel: int, method: Method) -> bytes:
    """Return the whole frame that carries a method, from frame type to end octet.

    Args:
        channel: Channel number, 0 to 65535.
        method: The method; not kept.

    Raises:
        FieldSyntaxError: A value does not fit its argument type.
    """
    payload = method.encode()
    return _FRAME_HEADER.pack(FRAME_METHOD, channel, len(payload)) + payload + FRAME_END_BYTE


def ack_frame(channel: int, delivery_tag: int, *, multiple: bool) -> bytes:
    """Return the frame of a `basic.ack`, of which a busy server sends one for each publish.

    Args:
        channel: Channel number, 0 to 65535.
        delivery_tag: Tag of the last publish that it confirms.
        multiple: Whether it confirms those before too.
    """
    return _ACK_FRAME.pack(
        FRAME_METHOD,
        channel,
        _ACK_BYTES,
        BasicAck.identity,
        delivery_tag,
        multiple,
        FRAME_END_BYTE,
    )
