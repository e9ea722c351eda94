"""The addresses on which a server listens for clients, without TLS and with."""

from __future__ import annotations

import ipaddress
import logging
from typing import TYPE_CHECKING, Final, Self

from amqp_server.connections.accepted_connections import AcceptedConnections
from amqp_server.connections.listening import BoundAddress
from amqp_server.connections.proxy_protocol.connection import ProxiedConnection
from amqp_server.connections.proxy_protocol.trusted import TrustedProxies
from amqp_server.connections.tls.configured import amqp_tls
from amqp_server.connections.tls.connection import TlsConnection
from amqp_server.connections.tls.handshake_queue import HandshakeQueue
from amqp_server.connections.tls.reloading import CurrentContext

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from amqp_server.base.config import ServerConfig
    from amqp_server.connections.client_connection import ClientConnection
    from amqp_server.connections.open_connections import OpenConnections

logger = logging.getLogger("amqp_server.client_listeners")

TLS_READ_BYTES: Final = 128 * 1024
"""Largest read of encrypted octets."""

PLAIN: Final = "amqp"
TLS: Final = "amqp/ssl"
"""Protocols of listeners, in RabbitMQ's words."""
Listening = tuple[str, int, str]
"""Host, port and protocol, `amqp` or `amqp/ssl`, of a listener."""


class ClientListeners:
    """The listeners of one server; made by `ClientListeners.bind`.

    Args:
        config: Settings; not changed.

    Attributes:
        context: Context of new TLS handshakes; None if the server does not listen for TLS.

    Raises:
        StartupError: The certificate or the key cannot be used.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.context = CurrentContext(amqp_tls(config)) if config.tls_certificate else None
        self._config = config
        self._trusted = TrustedProxies(config)
        self._handshake_queue = HandshakeQueue(config.limits.tls_handshakes_max)
        self._accepted: AcceptedConnections | None = None
        self._plain: list[BoundAddress] = []
        self._tls: list[BoundAddress] = []

    @classmethod
    async def bind(cls, config: ServerConfig) -> Self:
        """Read the certificates and bind the addresses of a server.

        Raises:
            StartupError: A certificate or an address cannot be used.
        """
        listeners = cls(config)
        try:
            for bound, addresses in (
                (listeners._plain, config.plain_addresses),
                (listeners._tls, config.tls_addresses),
            ):
                for host, port in addresses:
                    bound.append(await BoundAddress.bind(host, port))
        except BaseException:
            listeners.close()
            raise
        return listeners

    async def listen(
        self, make_connection: Callable[[], ClientConnection], connections: OpenConnections
    ) -> list[Listening]:
        """Accept clients from now on.

        Args:
            make_connection: Returns the protocol of one new client.
            connections: The open connections of clients.

        Returns:
            All listeners, those without TLS first, each in the order of the settings.

        Raises:
            StartupError: Another process that had bound the same address began to listen earlier.
        """
        limits = self._config.limits
        accepted = self._accepted = AcceptedConnections(connections, self._config.connections_max)
        buffer = memoryview(bytearray(TLS_READ_BYTES))

        def make_plain() -> asyncio.BaseProtocol:
            connection = make_connection()
            return self._behind_proxy(connection, connection, accepted)

        def make_tls() -> asyncio.BaseProtocol:
            assert self.context is not None, "without certificates nothing listens for TLS"
            connection = make_connection()
            return self._behind_proxy(
                TlsConnection(
                    connection,
                    connection.names_of,
                    self.context,
                    self._handshake_queue,
                    accepted,
                    limits.handshake_seconds_max,
                    buffer,
                ),
                connection,
                accepted,
            )

        found: list[Listening] = []
        for bound in self._plain:
            # Without proxies nothing stands between the socket and the connection.
            addresses = await bound.listen(make_plain if self._trusted else make_connection)
            for host, port in addresses:
                found.append((host, port, PLAIN))
                _warn_of_open_text(host)
        for bound in self._tls:
            found += [(host, port, TLS) for host, port in await bound.listen(make_tls)]
        return found

    @property
    def arrival_count(self) -> int:
        """Number of sockets that are no connections of clients yet."""
        return 0 if self._accepted is None else len(self._accepted)

    def close(self) -> None:
        """Accept no more clients, and close what is no connection yet; may be called again."""
        for bound in (*self._plain, *self._tls):
            bound.close()
        if self._accepted is not None:
            self._accepted.close()

    def _behind_proxy(
        self,
        protocol: asyncio.BufferedProtocol,
        connection: ClientConnection,
        accepted: AcceptedConnections,
    ) -> asyncio.BufferedProtocol:
        if not self._trusted:
            return protocol
        return ProxiedConnection(protocol, connection.come_from, self._trusted, accepted)


def _warn_of_open_text(host: str) -> None:
    """Log a warning if others than this machine can reach a listener without TLS."""
    if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        logger.warning(
            "listening without TLS host=%s note=passwords and messages can be read on the network: "
            "use --tls-certificate with --tls-only, or a network that you trust",
            host,
        )
