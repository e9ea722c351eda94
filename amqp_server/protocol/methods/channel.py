"""Methods of class channel (20): open, flow and close."""

from amqp_server.protocol.constants import ClassId
from amqp_server.protocol.methods.codec import Bit, LongStr, Method, Short, ShortStr, method

_CLASS = ClassId.CHANNEL


@method("channel.open", _CLASS, 10)
class ChannelOpen(Method):
    """Client: open the channel; `out_of_band` means nothing since 0-9-1."""

    out_of_band: ShortStr = ""


@method("channel.open-ok", _CLASS, 11)
class ChannelOpenOk(Method):
    """Server: the channel is open; `channel_id` means nothing since 0-9-1."""

    channel_id: LongStr = b""


@method("channel.flow", _CLASS, 20)
class ChannelFlow(Method):
    """Either side: ask the other to stop or to resume sending content."""

    active: Bit = False


@method("channel.flow-ok", _CLASS, 21)
class ChannelFlowOk(Method):
    """Either side: whether content flows from now on."""

    active: Bit = False


@method("channel.close", _CLASS, 40)
class ChannelClose(Method):
    """Either side: end the channel; class and method name the cause, 0 for none."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id_: Short = 0
    method_id_: Short = 0


@method("channel.close-ok", _CLASS, 41)
class ChannelCloseOk(Method):
    """Either side: the channel is closed and its number is free."""


CHANNEL_METHODS: tuple[type[Method], ...] = (
    ChannelOpen,
    ChannelOpenOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelClose,
    ChannelCloseOk,
)
