"""Bodies of messages that come in several requests, because one request is too short for them."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.control.protocol import ControlError, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Callable

UPLOADS_MAX: Final = 64
"""Bodies that are not complete yet."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of all of them together."""
IDLE_SECONDS_MAX: Final = 60.0
"""Seconds after which a body is dropped of which nothing more has come."""


@dataclass(slots=True)
class _Upload:
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    timer: asyncio.TimerHandle | None = None


class BodyUploads:
    """Keeps the parts of bodies until they are published. The event loop owns it."""

    def __init__(self) -> None:
        self._uploads: dict[str, _Upload] = {}
        self._held_bytes = 0

    def add(self, name: str, part: bytes) -> str:
        """Add a part to a body; return its name.

        Args:
            name: Name of the body; empty: a new one.
            part: Its next octets.

        Raises:
            ControlError: There is no such body, or the bodies hold as much as allowed.
        """
        if name:
            upload = self._find(name)
        elif len(self._uploads) >= UPLOADS_MAX:
            reason = f"{UPLOADS_MAX} bodies of messages are incomplete, the most allowed"
            raise ControlError(ErrorKind.LIMIT_REACHED, reason)
        else:
            upload = _Upload()
            name = secrets.token_hex(16)
        if self._held_bytes + len(part) > BYTES_MAX:
            self._drop(name)
            reason = f"incomplete bodies of messages hold {BYTES_MAX >> 20} MiB, the most allowed"
            raise ControlError(ErrorKind.LIMIT_REACHED, reason)
        self._uploads[name] = upload
        upload.parts.append(part)
        upload.size += len(part)
        self._held_bytes += len(part)
        if upload.timer is not None:
            upload.timer.cancel()
        drop: Callable[[str], None] = self._drop
        upload.timer = asyncio.get_running_loop().call_later(IDLE_SECONDS_MAX, drop, name)
        return name

    def take(self, name: str) -> list[bytes]:
        """Return the parts of a body, and forget it.

        Raises:
            ControlError: There is no such body.
        """
        parts = self._find(name).parts
        self._drop(name)
        return parts

    def _find(self, name: str) -> _Upload:
        upload = self._uploads.get(name)
        if upload is None:
            reason = f"there is no incomplete body '{name:.50}': it is dropped after {_SECONDS} s"
            raise ControlError(ErrorKind.NOT_FOUND, reason)
        return upload

    def _drop(self, name: str) -> None:
        upload = self._uploads.pop(name, None)
        if upload is not None:
            self._held_bytes -= upload.size
            if upload.timer is not None:
                upload.timer.cancel()


_SECONDS: Final = int(IDLE_SECONDS_MAX)
