"""Numbers of AMQP 0-9-1: the protocol header, frame types, class ids and reply codes.

Source: AMQP 0-9-1 specification, section 1.2 (constants) and 4.2.2 (protocol header).
"""

from enum import IntEnum
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8

FRAME_END: Final = 0xCE
FRAME_END_BYTE: Final = b"\xce"

FRAME_OVERHEAD_BYTES: Final = 8
"""Octets besides the payload: type u8, channel u16, payload size u32, and the end octet."""


class ClassId(IntEnum):
    """The class ids of AMQP 0-9-1 and of RabbitMQ's confirm extension."""

    CONNECTION = 10
    CHANNEL = 20
    ACCESS = 30
    EXCHANGE = 40
    QUEUE = 50
    BASIC = 60
    CONFIRM = 85
    TX = 90


class ReplyCode(IntEnum):
    """Reply codes; the name of each is the code name that begins a reply text."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541
