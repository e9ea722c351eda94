"""Takes new TLS files into use while the server runs, on SIGHUP and when a file has changed.

A reload builds a whole new context and replaces the old one, so that a removed authority or cipher
counts too. Only new handshakes use it: open connections keep theirs. Files that cannot be used
change nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import StartupError
from amqp_server.connections.tls.certificate_files import CertificateFiles
from amqp_server.connections.tls.contexts import load_context

if TYPE_CHECKING:
    import ssl

    from amqp_server.base.clock import Clock
    from amqp_server.connections.tls.settings import TlsSettings

logger = logging.getLogger("amqp_server.tls.reloading")

CHECK_SECONDS: Final = 30.0
"""Seconds between two looks at the times of the files."""


class CurrentContext:
    """The context that new handshakes use. The event loop owns it.

    Args:
        settings: Which files, with one certificate at least.

    Attributes:
        context: Context of the next handshake.

    Raises:
        StartupError: A file cannot be used.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._files = CertificateFiles.of(settings)
        # Before the files are read: a change in between is seen at the next look.
        self._fingerprint = self._files.fingerprint()
        self.context: ssl.SSLContext = load_context(settings)
        self._lock = asyncio.Lock()

    def for_listener(self) -> ssl.SSLContext:
        """Return a context that hands each handshake to the present one.

        For listeners of a library, which keep the context that they begin with.

        Raises:
            StartupError: A file cannot be used.
        """
        front = load_context(self._settings)

        # Called for each handshake, also of clients that name no host.
        def switch(connection: ssl.SSLObject, name: str, _front: ssl.SSLContext) -> int | None:
            # What a handshake has taken from the front, versions and whether a certificate is
            # needed, is a setting, which no reload changes.
            connection.context = self.context
            by_name = self.context.sni_callback
            return None if by_name is None else by_name(connection, name, self.context)

        front.sni_callback = switch
        return front

    async def reload(self) -> bool:
        """Read the files again; return whether they are in use now. Logs one line."""
        async with self._lock:
            self._fingerprint = await asyncio.to_thread(self._files.fingerprint)
            try:
                # Files take milliseconds to read, and a bundle of authorities to parse.
                self.context = await asyncio.to_thread(load_context, self._settings)
            except StartupError as error:
                logger.error(  # noqa: TRY400 - one line says it all
                    "TLS files not reloaded reason=%r note=the previous ones stay in use",
                    error.message,
                )
                return False
            logger.info("TLS files reloaded")
            return True

    async def check(self) -> bool:
        """Reload if a file has changed; return whether new files are in use now."""
        if await asyncio.to_thread(self._files.fingerprint) == self._fingerprint:
            return False
        return await self.reload()

    async def watch(self, clock: Clock) -> None:
        """Check the files every `CHECK_SECONDS` until cancelled."""
        due = clock.monotonic() + CHECK_SECONDS
        while True:
            due = await clock.until_round(due, CHECK_SECONDS)
            try:
                await self.check()
            except Exception:
                # The next check may go well: a server must not miss its new certificate.
                logger.exception("TLS files not checked")
            due = max(due, clock.monotonic()) + CHECK_SECONDS
