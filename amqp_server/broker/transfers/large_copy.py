"""Puts the body of a large message behind new properties, in steps.

A dead letter is a message of its own, with other headers, so its body must be copied. In one piece,
a body of 127 MB would hold the event loop for a tenth of a second.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_server.broker.routing.steps import Steps

STEP_BYTES: Final = 512 * 1024
"""Bytes that one step copies."""


def with_body(front: bytes, body: memoryview) -> Steps[bytes]:
    """Return the steps to a message with this body behind `front`, which is one without any."""
    # It grows in place, and hands over the room itself, as in `content_assembly`.
    room = BytesIO()
    room.write(front)
    for at in range(0, len(body), STEP_BYTES):
        room.write(body[at : at + STEP_BYTES])
        yield
    return room.getvalue()
