"""The networks whose proxies are believed."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from amqp_server.base.config import words

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig


class TrustedProxies:
    """Networks of an operator.

    Args:
        config: Settings; `proxy_protocol_trusted` was checked by them.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._networks = [
            ipaddress.ip_network(word) for word in words(config.proxy_protocol_trusted)
        ]

    def __bool__(self) -> bool:
        """Return whether any proxy is trusted."""
        return bool(self._networks)

    def has(self, host: str) -> bool:
        """Return whether an IP address is in one of the networks; False for what is no address."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        # A socket that listens on `::` has IPv4 clients as ::ffff:10.0.0.1.
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)
