"""The framing kernels, compiled where they were built, interpreted otherwise.

`AMQP_SERVER_PURE_PYTHON=1` uses the interpreted source; `AMQP_SERVER_REQUIRE_COMPILED=1`
refuses to run without the compiled one. `COMPILED` tells which is live. Both builds have the
names and types of `_framing_py`; the parity tests hold them to it.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from amqp_server.protocol import _framing_py
from amqp_server.protocol._framing_py import ACK, BODY, ERROR, HEADER, HEARTBEAT, METHOD, PUBLISH

__all__ = [
    "ACK",
    "BODY",
    "COMPILED",
    "ERROR",
    "HEADER",
    "HEARTBEAT",
    "METHOD",
    "PUBLISH",
    "FrameScanner",
    "delivery_mode_position",
    "encode_content",
    "encode_deliveries",
    "property_list_end",
]


def _load_compiled() -> ModuleType | None:
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        return None
    try:
        return import_module("amqp_server.protocol._framing_c")
    except ImportError:
        if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
            raise
        return None


_compiled = _load_compiled()
_kernels = _compiled or _framing_py

COMPILED = _compiled is not None

FrameScanner: type[_framing_py.FrameScanner] = _kernels.FrameScanner
encode_deliveries = _kernels.encode_deliveries
encode_content = _kernels.encode_content
property_list_end = _kernels.property_list_end
delivery_mode_position = _kernels.delivery_mode_position
