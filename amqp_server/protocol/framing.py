"""The framing kernels, compiled where they were built, interpreted otherwise.

`AMQP_SERVER_PURE_PYTHON=1` uses the interpreted source; `AMQP_SERVER_REQUIRE_COMPILED=1`
refuses to run without the compiled one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from amqp_server.protocol import _framing_py

if TYPE_CHECKING:
    from collections.abc import Sequence


class Scanner(Protocol):
    """Turns the read buffers of one connection into events."""

    frame_max: int
    body_bytes_max: int

    def scan(self, data: bytes | bytearray, start: int, end: int, events: list[Any]) -> int:
        """Append the events of `data[start:end]`; return where the rest begins."""


class FramingKernels(Protocol):
    """What both builds of the kernels offer."""

    PUBLISH: int
    ACK: int
    METHOD: int
    HEADER: int
    BODY: int
    HEARTBEAT: int
    ERROR: int

    def FrameScanner(self, frame_max: int, body_bytes_max: int) -> Scanner:  # noqa: N802
        """Make a scanner for one connection."""

    def encode_deliveries(
        self,
        messages: Sequence[bytes],
        channel: int,
        consumer_tag: bytes,
        first_tag: int,
        redelivered: bool,
        frame_max: int,
    ) -> bytes:
        """Encode one run of deliveries."""

    def encode_content(
        self, message: bytes, channel: int, before_route: bytes, after_route: bytes, frame_max: int
    ) -> bytes:
        """Encode one method that carries a message."""

    def property_list_end(self, data: bytes, at: int, end: int, flags: int) -> int:
        """Return where a property list ends, or -1."""

    def delivery_mode_position(self, data: bytes, at: int, flags: int) -> int:
        """Return the position of the delivery-mode octet."""


def _choose() -> tuple[FramingKernels, bool]:
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        return _framing_py, False
    try:
        from amqp_server.protocol import _framing_c
    except ImportError:
        if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
            raise
        return _framing_py, False
    return _framing_c, True


_kernels, COMPILED = _choose()

PUBLISH = _framing_py.PUBLISH
ACK = _framing_py.ACK
METHOD = _framing_py.METHOD
HEADER = _framing_py.HEADER
BODY = _framing_py.BODY
HEARTBEAT = _framing_py.HEARTBEAT
ERROR = _framing_py.ERROR

FrameScanner = _kernels.FrameScanner
encode_deliveries = _kernels.encode_deliveries
encode_content = _kernels.encode_content
property_list_end = _kernels.property_list_end
delivery_mode_position = _kernels.delivery_mode_position
