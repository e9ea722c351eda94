"""The key that tells bindings between the same two ends apart in RabbitMQ's HTTP API.

Without arguments it is the routing key, quoted; with arguments the same with `~` and a hash of them
behind it. The hash differs from RabbitMQ's, which no program computes.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus, unquote_to_bytes

from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

_EMPTY: Final = "~"
_MARK: Final = "~"


def properties_key(routing_key: str, arguments: Table) -> str:
    """Return the key of a binding."""
    if not routing_key and not arguments:
        return _EMPTY
    # Python leaves ~ as it is, as RabbitMQ's library does; RabbitMQ then quotes it too.
    octets = routing_key.encode("utf-8", "surrogateescape")
    quoted = quote_plus(octets).replace(_MARK, "%7E")
    if not arguments:
        return quoted
    hashed = zlib.crc32(encode_table(arguments)).to_bytes(4, "big")
    return f"{quoted}{_MARK}{urlsafe_b64encode(hashed).rstrip(b'=').decode()}"


def routing_key_in(key: str) -> str:
    """Return the routing key in the key of a binding."""
    octets = unquote_to_bytes(key.partition(_MARK)[0].replace("+", " "))
    return octets.decode("utf-8", "surrogateescape")


def has_arguments(key: str) -> bool:
    """Return whether the binding of a key has arguments."""
    return _MARK in key and key != _EMPTY


def is_key_of(key: str, routing_key: str, arguments: Table) -> bool:
    """Return whether a key names a binding; without arguments the routing key itself does too.

    Clients put the key into a path encoded once more, or as it is, as with RabbitMQ.
    """
    if properties_key(routing_key, arguments) == key:
        return True
    return not arguments and not has_arguments(key) and routing_key_in(key) == routing_key
