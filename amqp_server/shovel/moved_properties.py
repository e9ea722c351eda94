"""Changes properties of the messages that a shovel moves."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.field_values import FieldValue, field_value
from amqp_server.protocol.properties import decode_properties

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.shovel.definition import ShovelDefinition

_SHOVELLED: Final = "x-shovelled"
_SHOVELLED_AT: Final = "x-shovelled-timestamp"
HOPS_MAX: Final = 64
"""Entries of `x-shovelled` that are kept: a circle of shovels must not let messages grow."""


def rewriter(definition: ShovelDefinition, hop: dict[str, str]) -> Callable[[bytes], bytes] | None:
    """Return what changes the properties of each message; None if nothing does.

    Args:
        definition: The shovel.
        hop: What `x-shovelled` says of it.
    """
    changes = definition.properties
    adds_hop, adds_time = definition.adds_forward_headers, definition.adds_timestamp_header
    if not changes and not adds_hop and not adds_time:
        return None
    entry = field_value({name: hop[name] for name in sorted(hop)})

    def rewrite(octets: bytes) -> bytes:
        try:
            properties = decode_properties(octets)
        except AmqpError:
            # Broken properties pass on as they are; the destination judges them.
            return octets
        headers = properties.headers
        if adds_hop:
            headers = dict(headers or {})
            earlier = headers.get(_SHOVELLED)
            hops = list(earlier.value) if earlier and isinstance(earlier.value, list) else []
            headers[_SHOVELLED] = FieldValue(b"A", [entry, *hops[: HOPS_MAX - 1]])
        if adds_time:
            headers = dict(headers or {})
            headers[_SHOVELLED_AT] = FieldValue(b"l", int(time.time()))
        return replace(properties, **changes, headers=headers).encode()

    return rewrite
