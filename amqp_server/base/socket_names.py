"""Names of the two ends of a client's connection."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import asyncio


class SocketNames(NamedTuple):
    """The addresses of both ends, as the socket module writes them.

    Attributes:
        peer: Address of the client: behind a trusted proxy, the one that the proxy named.
        local: Address that the client has connected to.
    """

    peer: object
    local: object

    @property
    def text(self) -> str:
        """Both addresses, for log lines."""
        return f"{_address(self.peer)} -> {_address(self.local)}"

    @property
    def peer_host(self) -> str:
        """IP address of the client; a client on a Unix socket is on this machine.

        Empty if the client has closed the socket before the server looked.
        """
        peer = self.peer
        if peer is None:
            return ""
        return str(peer[0]) if isinstance(peer, tuple) and peer else "127.0.0.1"


def address_key(host: str) -> str:
    """Return the key under which limits for each IP address count this one.

    For IPv6 it is the network of 64 bits: a client with one address there can have all of them.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    if address.version == 4 or mapped is not None:
        return str(mapped or address)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def is_loopback(host: str) -> bool:
    """Return whether an IP address is one of this machine."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def names_of(transport: asyncio.BaseTransport) -> SocketNames:
    """Return the addresses of a socket."""
    return SocketNames(transport.get_extra_info("peername"), transport.get_extra_info("sockname"))


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"{name[0]}:{name[1]}"
    return "?" if name is None else str(name) or "?"
