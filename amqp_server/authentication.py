"""Who may log in: for now the user `guest`, from this machine only, as RabbitMQ begins."""

from __future__ import annotations

import ipaddress
from hmac import compare_digest

_GUEST = "guest"
_GUEST_PASSWORD = b"guest"


def may_login(user: str, password: bytes, peer: str) -> bool:
    """Return whether `user` may log in with `password` from the address `peer`."""
    return user == _GUEST and compare_digest(password, _GUEST_PASSWORD) and _is_loopback(peer)


def _is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
