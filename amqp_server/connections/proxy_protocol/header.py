"""The header of the PROXY protocol: parses octets, does no I/O.

version 1:  PROXY TCP4 192.0.2.7 198.51.100.1 56324 5672 CR LF     at most 107 octets
version 2:  signature (12) | 0x20 LOCAL or 0x21 PROXY | family | length (2) | addresses | TLVs
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final, NamedTuple

SIGNATURE_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_BYTES_MAX: Final = 107
"""Longest line of version 1, with its end."""
LENGTH_MAX: Final = 536
"""Largest length that a header of version 2 may state: octets of addresses and TLVs."""
HEADER_BYTES_MAX: Final = 16 + LENGTH_MAX
_FIRST_V1: Final = b"PROXY "
_FAMILIES_V2: Final = {0x11: (socket.AF_INET, 4), 0x21: (socket.AF_INET6, 16)}
"""Address families of TCP connections, with the octets of one address."""


class ProxyHeaderError(Exception):
    """A header is malformed; the message says how."""


class ProxiedAddresses(NamedTuple):
    """The two ends of a client's connection to a proxy; each is an IP address and a port."""

    source: tuple[str, int]
    destination: tuple[str, int]


class ParsedHeader(NamedTuple):
    """A complete header.

    Attributes:
        addresses: Addresses that the proxy names; None if it connects for itself (LOCAL) or knows
            none.
        size: Octets of the header.
    """

    addresses: ProxiedAddresses | None
    size: int


def may_be_header(octets: bytes) -> bool:
    """Return whether octets begin as a header does, rather than as AMQP or TLS.

    Args:
        octets: At least one.
    """
    return octets[0] in (_FIRST_V1[0], SIGNATURE_V2[0])


def parse_header(octets: bytes) -> ParsedHeader | None:
    """Return the header at the begin of `octets`; None if its end has not come.

    Args:
        octets: At least one; `may_be_header` has said yes.

    Raises:
        ProxyHeaderError: The header is malformed or too long.
    """
    if octets[0] == SIGNATURE_V2[0]:
        return _parse_v2(octets)
    return _parse_v1(octets)


def _parse_v1(octets: bytes) -> ParsedHeader | None:
    if octets[: len(_FIRST_V1)] != _FIRST_V1[: len(octets)]:
        raise ProxyHeaderError("it begins like none")
    end = octets.find(b"\r\n", 0, LINE_BYTES_MAX)
    if end < 0:
        if len(octets) >= LINE_BYTES_MAX:
            raise ProxyHeaderError(f"version 1: no end of the line in {LINE_BYTES_MAX} octets")
        return None
    fields = octets[:end].split(b" ")
    if fields[1] == b"UNKNOWN":
        return ParsedHeader(None, end + 2)
    version = {b"TCP4": 4, b"TCP6": 6}.get(fields[1])
    if version is None or len(fields) != 6:
        raise ProxyHeaderError(
            "version 1: not TCP4 or TCP6, two addresses and two ports, nor UNKNOWN"
        )
    hosts = [_host_v1(field, version) for field in fields[2:4]]
    ports = [_port_v1(field) for field in fields[4:6]]
    return ParsedHeader(ProxiedAddresses((hosts[0], ports[0]), (hosts[1], ports[1])), end + 2)


def _host_v1(field: bytes, version: int) -> str:
    try:
        address = ipaddress.ip_address(field.decode("ascii"))
    except ValueError:
        raise ProxyHeaderError("version 1: an address is none") from None
    # An address with a zone (fe80::1%eth0) is one of the proxy's machine.
    if address.version != version or b"%" in field:
        raise ProxyHeaderError("version 1: an address is of another family")
    return str(address)


def _port_v1(field: bytes) -> int:
    if not field.isdigit() or len(field) > 5 or int(field) > 65_535:
        raise ProxyHeaderError("version 1: a port is none")
    return int(field)


def _parse_v2(octets: bytes) -> ParsedHeader | None:
    if octets[:12] != SIGNATURE_V2[: len(octets)]:
        raise ProxyHeaderError("it begins like none")
    if len(octets) < 16:
        return None
    command, family, length = octets[12], octets[13], int.from_bytes(octets[14:16], "big")
    if command not in (0x20, 0x21):
        raise ProxyHeaderError(f"version 2: unknown version or command 0x{command:02x}")
    if length > LENGTH_MAX:
        raise ProxyHeaderError(f"version 2: length {length} is above {LENGTH_MAX}")
    size = 16 + length
    if len(octets) < size:
        return None
    known = _FAMILIES_V2.get(family)
    if command == 0x20 or known is None:
        return ParsedHeader(None, size)
    number, width = known
    if length < 2 * width + 4:
        raise ProxyHeaderError(f"version 2: length {length} is too short for two addresses")
    at = 16
    hosts = [socket.inet_ntop(number, octets[start : start + width]) for start in (at, at + width)]
    at += 2 * width
    ports = [int.from_bytes(octets[start : start + 2], "big") for start in (at, at + 2)]
    return ParsedHeader(ProxiedAddresses((hosts[0], ports[0]), (hosts[1], ports[1])), size)
