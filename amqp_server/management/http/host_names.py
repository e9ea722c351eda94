"""Names by which clients reach the server: the authority in the headers Host and Origin."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

_PORT_DIGITS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Authority:
    """Where a client wants to be: `rabbit.example:15672`.

    Attributes:
        host: Name in lower case, or an IP address; IPv6 without brackets.
        port: Port; None where it is the default of the scheme.
    """

    host: str
    port: int | None

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address."""
        # Only IPv6 has zones: `127.0.0.1%x` is a name.
        host = self.host.partition("%")[0] if ":" in self.host else self.host
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    @property
    def is_this_machine(self) -> bool:
        """Whether the host is a name that always means the machine of the client (RFC 6761)."""
        return self.host == "localhost" or self.host.endswith(".localhost")


def parse_authority(text: str) -> Authority | None:
    """Return the parts of `host`, `host:port`, or `[IPv6]:port`; None if it is none of these."""
    text = text.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in host:
            return None
    else:
        host, colon, port = text.partition(":")
        rest = colon + port
    port = rest.removeprefix(":")
    if rest and not rest.startswith(":"):
        return None
    is_port = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS_MAX
    host = host.lower().removesuffix(".")
    if not host or (port and not is_port) or any(each in host for each in " /@?#\\,"):
        return None
    return Authority(host, int(port) if port else None)
