"""The client's frames from connect to an open connection, and the frame that closes it.

Source: AMQP 0-9-1, section 2.2.4 (the connection class).
"""

import struct
from typing import Final

from bench.amqp_frames import (
    CLOSE_ARGUMENTS,
    EMPTY_TABLE,
    Frame,
    long_string,
    method_frame,
    short_string,
)
from bench.broker_url import BrokerUrl

PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
START: Final = (10, 10)
TUNE: Final = (10, 30)
OPEN_OK: Final = (10, 41)
CLOSE_OK: Final = (10, 51)
CHANNEL_OPEN_OK: Final = (20, 11)


def start_ok(url: BrokerUrl) -> bytes:
    """Encode the login with PLAIN."""
    plain = long_string(f"\0{url.user}\0{url.password}".encode())
    login = EMPTY_TABLE + short_string("PLAIN") + plain + short_string("en_US")
    return method_frame(0, 10, 11, login)


def tune_ok(tune: Frame) -> bytes:
    """Encode the acceptance of the broker's limits; the client asks for no heartbeats."""
    channel_max, frame_bytes_max = struct.unpack_from(">HI", tune.payload, 4)
    return method_frame(0, 10, 31, struct.pack(">HIH", channel_max, frame_bytes_max, 0))


def open_vhost(url: BrokerUrl) -> bytes:
    """Encode the request to open the virtual host."""
    return method_frame(0, 10, 40, short_string(url.vhost) + b"\0\0")


def open_channel(channel: int) -> bytes:
    """Encode the request to open a channel."""
    return method_frame(channel, 20, 10, b"\0")


def close_connection() -> bytes:
    """Encode the request to close the connection."""
    return method_frame(0, 10, 50, CLOSE_ARGUMENTS)
