"""Server-sent events: the octets of one event, and of the comment that keeps a stream alive.

Source: HTML Living Standard, section 9.2.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

CONTENT_TYPE: Final = "text/event-stream"
HEADERS: Final = {"x-accel-buffering": "no"}
"""A proxy that keeps parts of an answer back would keep events back."""
HEARTBEAT: Final = b":\n\n"


def encode_event(value: Any, *, name: str = "", identity: str = "") -> bytes:  # noqa: ANN401 - JSON
    """Return an event with JSON as its data, in one line.

    Args:
        value: JSON value. No text in it can end the line: JSON escapes line feeds.
        name: Kind of the event; empty: `message`.
        identity: What a client sends as `Last-Event-ID` when it comes again; empty: nothing.
    """
    parts = []
    if identity:
        parts.append(f"id: {identity}\n".encode())
    if name:
        parts.append(f"event: {name}\n".encode())
    parts += (b"data: ", orjson.dumps(value), b"\n\n")
    return b"".join(parts)
