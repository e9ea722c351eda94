"""The ports of the management server, which the broker binds and the management server serves.

The broker binds them because it is the one that can refuse to start. The sockets outlive the
management server: while it is started again, clients wait instead of being refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.errors import StartupError
from amqp_server.tls.configured import management_tls
from amqp_server.tls.contexts import load_context

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
FREE_PORT: Final = -1
"""Port setting that lets the system choose."""


@dataclass(frozen=True, slots=True)
class ManagementSocket:
    """A socket of the management server.

    Attributes:
        kind: `http` for the API and the page, `metrics` for Prometheus.
        is_tls: Whether clients have to speak TLS.
        is_optional: Whether the server goes on if another process has the port.
        bound: The socket.
    """

    kind: str
    is_tls: bool
    is_optional: bool
    bound: socket.socket

    @property
    def host(self) -> str:
        """Address."""
        return str(self.bound.getsockname()[0])

    @property
    def port(self) -> int:
        """Port."""
        return int(self.bound.getsockname()[1])

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        path = "/metrics" if self.kind == "metrics" else ""
        return f"http{'s' * self.is_tls}://{host}:{self.port}{path}"


class ManagementSockets:
    """The sockets of one management server; made by `bind_management`.

    Attributes:
        sockets: Those that could be bound.
    """

    def __init__(self) -> None:
        self.sockets: list[ManagementSocket] = []

    def listen(self) -> None:
        """Let clients connect: the kernel keeps them until the management server accepts them.

        Raises:
            StartupError: Another process that had bound the same address listened earlier, and the
                port is not optional.
        """
        for each in tuple(self.sockets):
            try:
                each.bound.listen(BACKLOG)
            except OSError as error:
                self.sockets.remove(each)
                host, port = each.host, each.port
                each.bound.close()
                _refuse(error, each.kind, host, port, is_optional=each.is_optional)

    def close(self) -> None:
        """Release the ports."""
        for each in self.sockets:
            each.bound.close()


async def bind_management(config: ServerConfig) -> ManagementSockets:
    """Bind the ports that the settings name.

    A port that is only a default and that another process has is a warning.

    Args:
        config: Settings; not changed.

    Raises:
        StartupError: A port that was asked for cannot be had, or there is no certificate for it.
    """
    _check_certificates(config)
    found = ManagementSockets()
    has_tls = bool(config.tls_certificate or config.management_tls_certificate)
    wanted = [
        ("http", config.management_port, False, "management_port"),
        ("metrics", config.metrics_port, False, "metrics_port"),
    ]
    asks_for_tls = config.management_tls_port and "management_tls_port" not in config.optional_ports
    if asks_for_tls and not has_tls:
        raise StartupError(
            f"cannot listen on port {config.management_tls_port} for management with TLS: there is "
            "no certificate: set --tls-certificate or --management-tls-certificate"
        )
    if has_tls and (config.management_port or asks_for_tls):
        wanted.append(("http", config.management_tls_port, True, "management_tls_port"))
    try:
        for kind, port, is_tls, setting in wanted:
            if not port or (config.tls_only and kind == "http" and not is_tls):
                continue
            host = config.management_host or config.host
            is_optional = setting in config.optional_ports
            number = 0 if port == FREE_PORT else port
            try:
                bound = await _bind(host, number)
            except OSError as error:
                _refuse(error, kind, host, port, is_optional=is_optional)
            else:
                found.sockets += [
                    ManagementSocket(kind, is_tls, is_optional, each) for each in bound
                ]
    except BaseException:
        found.close()
        raise
    return found


def _check_certificates(config: ServerConfig) -> None:
    """Try the certificates and authorities that only the management server uses.

    Raises:
        StartupError: A file cannot be used.
    """
    settings = management_tls(config)
    has_own = config.management_tls_certificate or settings.authorities
    if not (settings.certificates and has_own):
        return
    try:
        load_context(settings)
    except StartupError as error:
        raise StartupError(f"{error.message} (for the management server)") from error


async def _bind(host: str, port: int) -> list[socket.socket]:
    """Bind a port on every address that a host has.

    Raises:
        OSError: It cannot be had on one of them.
    """
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                each = socket.socket(family, kind, protocol)
            except OSError:
                # A family that this machine does not have.
                continue
            sockets.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(sockets) > 1:
                # The same free port on every address.
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            each.bind(address)
            each.setblocking(False)
    except BaseException:
        for each in sockets:
            with suppress(OSError):
                each.close()
        raise
    return sockets


def _refuse(error: OSError, kind: str, host: str, port: int, *, is_optional: bool) -> None:
    """Log that a port cannot be had, or refuse the start.

    Raises:
        StartupError: The port was asked for.
    """
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    what = "metrics" if kind == "metrics" else "management"
    if not is_optional:
        raise StartupError(f"cannot listen on {host}:{port} for {what}: {reason}") from error
    logger.warning(
        "%s is off: port not available address=%s:%d reason=%s: choose another with --%s-port",
        what,
        host,
        port,
        reason,
        what,
    )
