"""Takes the body of a large message away while its properties change, and puts it behind the new.

A dead letter is a message of its own, with other headers, so its body must be copied. In one piece,
a body of 127 MB would hold the event loop for a tenth of a second: it is copied in steps.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from appendlog.layout.message import message_borders

if TYPE_CHECKING:
    from collections.abc import Generator

LARGE_BYTES = 512 * 1024
"""Bytes from which on the body of a message is not copied with its properties in one piece."""
STEP_BYTES = 512 * 1024
"""Bytes that one step copies."""


def without_large_body(message: bytes) -> tuple[bytes, memoryview | None]:
    """Return a message to be changed, and the body to be put behind it afterwards.

    Returns:
        A large message without its body, and the body; any other message unchanged, and None.

    Raises:
        ValueError: The lengths in the message do not add up.
    """
    if len(message) < LARGE_BYTES:
        return message, None
    _, _, body_at = message_borders(message)
    return message[:body_at], memoryview(message)[body_at:]


def with_body(front: bytes, body: memoryview) -> Generator[None, None, bytes]:
    """Return the steps to a message with this body behind `front`, which is one without any."""
    # It grows in place, and hands over the room itself, as in `content_assembly`.
    room = BytesIO()
    room.write(front)
    for at in range(0, len(body), STEP_BYTES):
        room.write(body[at : at + STEP_BYTES])
        yield
    return room.getvalue()
