"""What a connection says, told twice: by the scanner's events and by pamqp, frame by frame.

A *statement* is one logical thing on one channel: a whole publish, one acknowledgement,
another method, a heartbeat. However the scanner groups its events, the statements and
their order are the same.
"""

from itertools import groupby
from struct import unpack_from
from typing import Any

from pamqp import body, commands, frame, header, heartbeat

from amqp_server.protocol._scanning_py import REPEATS_MAX
from amqp_server.protocol.content_assembly import AssemblyBudget, ContentAssembly
from amqp_server.protocol.framing import (
    AckRun,
    BrokenFrame,
    ContentBody,
    ContentHeader,
    Event,
    HeartbeatFrame,
    MethodFrame,
    PublishRow,
    PublishRun,
)
from amqp_server.protocol.methods import BasicPublish, decode_method
from amqp_server.protocol.properties import decode_properties
from appendlog.layout.message import HAS_HEADERS, encode_message

Statement = tuple[Any, ...]
PUBLISH_ID = b"\x00\x3c\x00\x28"


class Teller:
    """Turns events into statements; contents in pieces go through the real assembler."""

    def __init__(self, message_bytes_max: int = 1 << 27) -> None:
        self.statements: list[Statement] = []
        self._message_bytes_max = message_bytes_max
        self._assemblies: dict[int, ContentAssembly] = {}

    def take(self, events: list[Event]) -> None:
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        channel = event.channel
        match event:
            case PublishRun() | PublishRow():
                self._say_whole(event)
            case AckRun():
                assert event.ranges, "a run without acknowledgements"
                for first, last in zip(event.ranges[::2], event.ranges[1::2], strict=True):
                    tags = range(first, last + 1) if first else [last]
                    self.statements += [("ack", channel, tag, not first) for tag in tags]
            case MethodFrame(_, payload) if payload[:4] == PUBLISH_ID:
                method = decode_method(payload)
                assert isinstance(method, BasicPublish)
                bytes_max = self._message_bytes_max
                self._assemblies[channel] = ContentAssembly(
                    method, payload, bytes_max, AssemblyBudget(bytes_max)
                )
            case ContentHeader():
                self._assembled(channel, self._assemblies[channel].take_header(event.payload))
            case ContentBody():
                self._assembled(channel, self._assemblies[channel].take_body(event.payload))
            case MethodFrame():
                self.statements.append(self._ack_or(("method", channel, event.payload)))
            case HeartbeatFrame():
                self.statements.append(("heartbeat", channel))
            case BrokenFrame():
                self.statements.append(("error", channel, event.text))

    def _say_whole(self, event: PublishRun | PublishRow) -> None:
        messages = event.messages
        if isinstance(event, PublishRun):
            assert messages, "a run without messages"
            payloads = [event.method_payload] * len(messages)
        else:
            assert len(messages) > 1, "a row without neighbours"
            payloads = event.method_payloads
            repeats = [len(list(same)) for _, same in groupby(payloads, key=id)]
            assert max(repeats) <= REPEATS_MAX, "a run inside a row"
        for method_payload, message in zip(payloads, messages, strict=True):
            assert message[0] & ~HAS_HEADERS == event.shared_flags
            self._say_publish(event.channel, method_payload, message, event.checked_flags)

    def _ack_or(self, statement: Statement) -> Statement:
        """Tags that no client can mean are left to the method decoder; they are acks still."""
        if statement[0] == "method" and statement[2][:4] == b"\x00\x3c\x00\x50":
            tag, multiple = unpack_from(">QB", statement[2], 4)
            return ("ack", statement[1], tag, bool(multiple & 1))
        return statement

    def _assembled(self, channel: int, is_whole: bool) -> None:
        if is_whole:
            done = self._assemblies.pop(channel)
            assert done.message[0] == done.message_flags
            self._say_publish(channel, done.method_payload, done.message, done.checked_flags)

    def _say_publish(
        self, channel: int, method_payload: bytes, message: bytes, checked_flags: int
    ) -> None:
        self.statements.append(("publish", channel, method_payload, message, checked_flags))


def statements_by_pamqp(octets: bytes) -> list[Statement]:
    """Tell the statements of a well-formed stream without any of our code but the layout."""
    statements: list[Statement] = []
    open_contents: dict[int, list[Any]] = {}
    at = 0
    while at < len(octets):
        kind, channel, size = unpack_from(">BHI", octets, at)
        payload = octets[at + 7 : at + 7 + size]
        consumed, pamqp_channel, value = frame.unmarshal(octets[at:])
        assert (consumed, pamqp_channel) == (size + 8, channel)
        at += consumed
        match value:
            case commands.Basic.Publish():
                open_contents[channel] = [payload, value, b"", 0, b""]
                continue
            case header.ContentHeader():
                assert kind == 2
                open_contents[channel][2:4] = payload[12:], value
                missing = value.body_size
            case body.ContentBody():
                open_contents[channel][4] += value.value
                missing = open_contents[channel][3].body_size - len(open_contents[channel][4])
            case commands.Basic.Ack():
                tag = value.delivery_tag % 2**64  # pamqp takes the sign bit for one
                statements.append(("ack", channel, tag, bool(value.multiple)))
                continue
            case heartbeat.Heartbeat():
                statements.append(("heartbeat", channel))
                continue
            case _:
                statements.append(("method", channel, payload))
                continue
        if not missing:
            statements.append(_publish_by_pamqp(channel, *open_contents.pop(channel)))
    return statements


def _publish_by_pamqp(
    channel: int,
    method_payload: bytes,
    method: commands.Basic.Publish,
    properties: bytes,
    content: header.ContentHeader,
    content_body: bytes,
) -> Statement:
    values = content.properties
    flags = (
        (values.delivery_mode == 2)
        | (values.headers is not None) << 1
        | (values.expiration is not None) << 2
        | (values.priority is not None) << 3
    )
    exchange, routing_key = method.exchange.encode(), method.routing_key.encode()
    message = encode_message(flags, exchange, routing_key, properties, content_body)
    return ("publish", channel, method_payload, message, checked_flags_of(properties))


def checked_flags_of(octets: bytes) -> int:
    """The flags of the properties that the broker must look at."""
    flags = int.from_bytes(octets[:2], "big")
    properties = decode_properties(octets)
    looked_at = 0b1_0001_0000
    if {"CC", "BCC"} & set(properties.headers or {}):
        looked_at |= 0x2000
    if properties.reply_to == "amq.rabbitmq.reply-to":
        looked_at |= 0b10_0000_0000
    return flags & looked_at
