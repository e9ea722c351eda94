"""The ports of the management server, which the broker binds and the management server serves.

The broker binds them before it touches the data directory. The sockets outlive the management
server: while it is started again, clients wait instead of being refused. A port that another
process has does not keep the broker from serving AMQP: it is tried again until it can be had.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import AddressUnavailableError, StartupError
from amqp_server.connections.tls.configured import management_tls
from amqp_server.connections.tls.contexts import load_context

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig

logger = logging.getLogger("amqp_server.management_sockets")

BACKLOG: Final = 1024
FREE_PORT: Final = -1
"""Port setting that lets the system choose."""
TRY_AGAIN_SECONDS: Final = 2
"""Seconds between two tries to have a port that another process has."""
_PASSING_ERRORS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
"""Errors that may end without a change of the settings."""


@dataclass(frozen=True, slots=True)
class ManagementSocket:
    """A socket of the management server.

    Attributes:
        kind: `http` for the API and the page, `metrics` for Prometheus.
        is_tls: Whether clients have to speak TLS.
        bound: The socket.
    """

    kind: str
    is_tls: bool
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


@dataclass(frozen=True, slots=True)
class WantedPort:
    """A port of the management server on one host.

    Attributes:
        kind: `http` for the API and the page, `metrics` for Prometheus.
        host: Address or host name.
        port: TCP port; 0 lets the system choose.
        is_tls: Whether clients have to speak TLS.
        reason: Why it could not be had when it was last tried; empty before.
    """

    kind: str
    host: str
    port: int
    is_tls: bool
    reason: str = ""

    @property
    def address(self) -> str:
        """Host and port, for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def purpose(self) -> str:
        """Part of the server that it is for."""
        return "metrics" if self.kind == "metrics" else "management"

    @property
    def option(self) -> str:
        """Option of the command line that chooses the port."""
        return "--management-tls-port" if self.is_tls else f"--{self.purpose}-port"


class ManagementSockets:
    """The sockets of one management server; made by `bind_management`.

    Attributes:
        sockets: Those that could be bound.
        waiting: Ports that another process has, or whose address this machine does not have yet.
    """

    def __init__(self) -> None:
        self.sockets: list[ManagementSocket] = []
        self.waiting: list[WantedPort] = []

    @property
    def are_wanted(self) -> bool:
        """Whether there is a port to serve, now or later."""
        return bool(self.sockets or self.waiting)

    async def bind(self, wanted: WantedPort) -> None:
        """Bind a port, or let it wait.

        Raises:
            AddressUnavailableError: It cannot be had, and waiting is of no use.
        """
        try:
            bound = await _bind(wanted.host, wanted.port)
        except OSError as error:
            if error.errno not in _PASSING_ERRORS:
                raise AddressUnavailableError(
                    f"cannot listen on {wanted.address} for {wanted.purpose}: {_reason(error)}"
                ) from error
            self._wait(wanted, error)
        else:
            self.sockets += [ManagementSocket(wanted.kind, wanted.is_tls, each) for each in bound]

    def listen(self) -> None:
        """Let clients connect: the kernel keeps them until the management server accepts them.

        A port that another process had bound as well, and on which it listened earlier, waits.
        """
        for each in tuple(self.sockets):
            try:
                each.bound.listen(BACKLOG)
            except OSError as error:
                self.sockets.remove(each)
                wanted = WantedPort(each.kind, each.host, each.port, each.is_tls)
                each.bound.close()
                self._wait(wanted, error)

    async def try_again(self) -> bool:
        """Bind the ports that wait, as far as they are free, and let clients connect to them.

        Returns:
            Whether one more can be served.
        """
        has_more = False
        for wanted in tuple(self.waiting):
            try:
                bound = await _bind(wanted.host, wanted.port)
            except OSError as error:
                self._replace(wanted, replace(wanted, reason=_reason(error)))
                continue
            try:
                for each in bound:
                    each.listen(BACKLOG)
            except OSError as error:
                for each in bound:
                    each.close()
                self._replace(wanted, replace(wanted, reason=_reason(error)))
                continue
            self.waiting.remove(wanted)
            self.sockets += [ManagementSocket(wanted.kind, wanted.is_tls, each) for each in bound]
            logger.info("%s port is free now address=%s", wanted.purpose, wanted.address)
            has_more = True
        return has_more

    def close(self) -> None:
        """Release the ports."""
        for each in self.sockets:
            each.bound.close()

    def _replace(self, wanted: WantedPort, tried: WantedPort) -> None:
        self.waiting[self.waiting.index(wanted)] = tried

    def _wait(self, wanted: WantedPort, error: OSError) -> None:
        wanted = replace(wanted, reason=_reason(error))
        self.waiting.append(wanted)
        logger.warning(
            "%s waits for its port address=%s reason=%s: it is tried again every %d s, and AMQP "
            "works without it: end the process that has it, or choose another port with %s "
            "(0: none)",
            wanted.purpose,
            wanted.address,
            wanted.reason,
            TRY_AGAIN_SECONDS,
            wanted.option,
        )


async def bind_management(config: ServerConfig) -> ManagementSockets:
    """Bind the ports that the settings name.

    A port that another process has is a warning, and waits.

    Args:
        config: Settings; not changed.

    Raises:
        StartupError: A port cannot be had whatever other processes do, or there is no certificate
            for it.
    """
    check_certificates(config)
    found = ManagementSockets()
    has_tls = bool(config.tls_certificate or config.management_tls_certificate)
    wanted = [("http", config.management_port, False), ("metrics", config.metrics_port, False)]
    asks_for_tls = config.management_tls_port and "management_tls_port" not in config.optional_ports
    if asks_for_tls and not has_tls:
        raise StartupError(
            f"cannot listen on port {config.management_tls_port} for management with TLS: there is "
            "no certificate: set --tls-certificate or --management-tls-certificate"
        )
    if has_tls and (config.management_port or asks_for_tls):
        wanted.append(("http", config.management_tls_port, True))
    try:
        for kind, port, is_tls in wanted:
            if not port or (config.tls_only and kind == "http" and not is_tls):
                continue
            number = 0 if port == FREE_PORT else port
            for host in config.management_addresses:
                await found.bind(WantedPort(kind, host, number, is_tls))
    except BaseException:
        found.close()
        raise
    return found


def check_certificates(config: ServerConfig) -> None:
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


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
