"""Reply texts about frames that the broker refuses, in RabbitMQ's words.

The texts show octets as Erlang prints a binary: `<<"abc">>` if all of them are printable,
`<<0,60,1>>` otherwise. People search for these texts, and the logs of clients contain them.

Source: RabbitMQ, rabbit_reader (payload_snippet, unexpected_frame, frame_error).
"""

from __future__ import annotations

_SNIPPET_BYTES_MAX = 16
_BINARY_BYTES_MAX = 128
"""Octets that are shown of a longer string: a reply text has no room for more."""
_FIRST_PRINTABLE, _LAST_PRINTABLE = 0x20, 0x7E


def binary_text(octets: bytes) -> str:
    """Return octets as Erlang prints them."""
    shown = octets[:_BINARY_BYTES_MAX]
    if shown and all(_FIRST_PRINTABLE <= octet <= _LAST_PRINTABLE for octet in shown):
        text = shown.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    return f"<<{','.join(map(str, shown))}>>"


def frame_text(kind: int, payload: bytes) -> str:
    """Return the type of a frame and the first octets of its payload."""
    which = "all" if len(payload) <= _SNIPPET_BYTES_MAX else f"first {_SNIPPET_BYTES_MAX}"
    return f"type {kind}, {which} octets = {binary_text(payload[:_SNIPPET_BYTES_MAX])}"
