"""The ports: sockets that the broker has bound, with or without TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.management.settings import ListenerSettings, TlsSettings

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
HANDSHAKE_SECONDS_MAX: Final = 10.0
RELOAD_SECONDS: Final = 30.0
"""Seconds between two looks at the files of TLS."""


def tls_context(files: TlsSettings) -> ssl.SSLContext:
    """Return what the handshakes of TLS use.

    Raises:
        OSError: A file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = (
        ssl.TLSVersion.TLSv1_2 if "1.2" in files.versions else ssl.TLSVersion.TLSv1_3
    )
    if "1.3" not in files.versions:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if files.ciphers:
        context.set_ciphers(files.ciphers)
    context.set_alpn_protocols(["http/1.1"])
    load_files(context, files)
    return context


def load_files(context: ssl.SSLContext, files: TlsSettings) -> None:
    """Load the first certificate and its key; handshakes from now on use them.

    Raises:
        OSError: A file cannot be used.
    """
    key = files.keys[0] if files.keys else None
    password: Callable[[], str] | str = ""
    if files.password_file:
        password = Path(files.password_file).read_text(encoding="utf-8").partition("\n")[0]
    context.load_cert_chain(files.certificates[0], key, password=password)


async def watch_files(context: ssl.SSLContext, files: TlsSettings) -> None:
    """Load the files again whenever they have changed; runs until it is cancelled."""
    seen = await asyncio.to_thread(_fingerprint, files)
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        now = await asyncio.to_thread(_fingerprint, files)
        if now == seen:
            continue
        seen = now
        try:
            # A key and a certificate that do not belong together must not replace those in use.
            await asyncio.to_thread(tls_context, files)
            load_files(context, files)
        except OSError as error:
            logger.warning("TLS files of the management server not loaded reason=%s", error)
        else:
            logger.info("TLS files of the management server loaded")


def _fingerprint(files: TlsSettings) -> list[tuple[int, int, int]]:
    paths = [*files.certificates, *files.keys, *([files.password_file] * bool(files.password_file))]
    found = []
    for path in paths:
        try:
            state = Path(path).stat()
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
    return found


async def serve_listener(
    listener: ListenerSettings,
    make_protocol: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext | None,
) -> asyncio.Server:
    """Accept clients on a socket that the broker has bound.

    Args:
        listener: The socket.
        make_protocol: Returns the protocol of one connection.
        context: What handshakes use, for a socket with TLS.
    """
    bound = socket.socket(fileno=listener.descriptor)
    bound.setblocking(False)
    return await asyncio.get_running_loop().create_server(
        make_protocol,
        sock=bound,
        backlog=BACKLOG,
        ssl=context if listener.is_tls else None,
        ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX if listener.is_tls else None,
    )
