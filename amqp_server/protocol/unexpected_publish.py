"""A publish that is refused before its content arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.framing import MethodFrame
from amqp_server.protocol.methods import BasicPublish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.protocol.channel_machine import ChannelMachine

_METHOD_FRAME = b"\x01"
_PUBLISH_BYTES_MIN = 17


def unexpected_publish(
    buffer: bytes | bytearray, at: int, end: int, machines: Mapping[int, ChannelMachine]
) -> MethodFrame | None:
    """Return the event of a publish that is an error before its content has arrived, or None.

    The scanner waits for a whole publish. On channel 0, or where the content of another publish is
    due, the client may already wait for the error.

    Args:
        buffer: Octets that were read.
        at: Start of the octets that the scanner left over.
        end: End of the octets that were read.
        machines: The connection's channels, by number.
    """
    if end - at < _PUBLISH_BYTES_MIN or buffer[at : at + 1] != _METHOD_FRAME:
        return None
    stop = at + 8 + int.from_bytes(buffer[at + 3 : at + 7], "big")
    if stop != end or buffer[at + 7 : at + 11] != BasicPublish.identity:
        return None
    number = int.from_bytes(buffer[at + 1 : at + 3], "big")
    machine = machines.get(number)
    if number != 0 and (machine is None or not machine.awaits_content):
        return None
    return MethodFrame(number, bytes(buffer[at + 7 : stop - 1]))
