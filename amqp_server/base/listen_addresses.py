"""Addresses on which a server listens, as settings write them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

__all__ = ["ListenAddress", "hosts_of", "parse_addresses"]

ADDRESSES_MAX: Final = 64
"""Most addresses of one setting."""
_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host with its port.

    Attributes:
        host: IP address or name of a host, without brackets.
        port: TCP port; None: that of the setting for all addresses.
    """

    host: str
    port: int | None = None


def parse_addresses(text: str) -> tuple[ListenAddress, ...]:
    """Return the addresses of a setting, in their order.

    Args:
        text: `HOST` or `HOST:PORT`, separated by commas. An IPv6 address with a port, and only
            that, must be in brackets.

    Raises:
        ValueError: One of them is no address, or is there twice.
    """
    found: list[ListenAddress] = []
    for word in map(str.strip, text.split(",")):
        address = _parse(word)
        if address in found and address.port != 0:
            raise ValueError(f"has {word!r} twice")
        found.append(address)
    if len(found) > ADDRESSES_MAX:
        raise ValueError(f"more than {ADDRESSES_MAX} addresses")
    return tuple(found)


def hosts_of(text: str) -> tuple[str, ...]:
    """Return the hosts of a setting, each once, without their ports.

    Raises:
        ValueError: As `parse_addresses`.
    """
    return tuple(dict.fromkeys(each.host for each in parse_addresses(text)))


def _parse(word: str) -> ListenAddress:
    if word.startswith("["):
        host, bracket, rest = word[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{word!r} is not an address: write [::1] or [::1]:5672")
        if not _is_ipv6(host):
            raise ValueError(f"{host!r} in brackets is not an IPv6 address")
        return ListenAddress(host, _port(word, rest[1:]) if rest else None)
    if _is_ipv6(word):
        return ListenAddress(word)
    host, colon, port = word.partition(":")
    if not host:
        raise ValueError("empty: write 0.0.0.0 to listen everywhere")
    if ":" in port:
        raise ValueError(f"{word!r} is not an address: write [::1]:5672 for IPv6 with a port")
    return ListenAddress(host, _port(word, port) if colon else None)


def _port(word: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > _PORT_MAX:
        raise ValueError(f"{word!r} has no port of 0 to {_PORT_MAX}")
    return int(text)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
