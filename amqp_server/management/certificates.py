"""The certificates of the management server, which it reads again as the broker does its own."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from amqp_server.connections.tls.reloading import CHECK_SECONDS, CurrentContext

if TYPE_CHECKING:
    import ssl

    from amqp_server.connections.tls.settings import TlsSettings

logger = logging.getLogger("amqp_server.management.certificates")


class Certificates:
    """What the handshakes of the listeners use: the files as they are now.

    They are read again when one of them has changed, at most `CHECK_SECONDS` later, and when the
    broker says so.

    Args:
        settings: Which files, with one certificate at least.

    Raises:
        StartupError: A file cannot be used.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._current = CurrentContext(settings)
        self._reload_requested = asyncio.Event()
        self.context: ssl.SSLContext = self._current.for_listener()

    def reload(self) -> None:
        """Read the files again soon."""
        self._reload_requested.set()

    async def watch(self) -> None:
        """Read the files again whenever that is due; runs until it is cancelled."""
        while True:
            try:
                await self._read_when_due()
            except Exception:
                # The next time may go well: the server must not miss its new certificate.
                logger.exception("TLS files not read again")

    async def _read_when_due(self) -> None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._reload_requested.wait()
        except TimeoutError:
            await self._current.check()
        else:
            self._reload_requested.clear()
            await self._current.reload()
