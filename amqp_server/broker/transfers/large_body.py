"""Takes the body of a large message away while its properties change."""

from __future__ import annotations

from typing import Final

from appendlog.layout.message import message_borders

LARGE_BYTES: Final = 512 * 1024
"""Bytes from which on the body of a message is not copied with its properties in one piece."""


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
