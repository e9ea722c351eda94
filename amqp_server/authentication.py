"""Who may log in: for now the user `guest`, from this machine only, as RabbitMQ begins."""

from __future__ import annotations

import ipaddress
import logging
from hmac import compare_digest

logger = logging.getLogger(__name__)

_GUEST = "guest"
_GUEST_PASSWORD = b"guest"
_LOGGED_CHARACTERS_MAX = 64
"""So much of a name that somebody made up is enough to know it by."""


def may_login(user: str, password: bytes, peer: str, *, from_anywhere: bool = False) -> bool:
    """Return whether a user may log in.

    Args:
        user: The name that was given.
        password: The password that was given.
        peer: Address that the connection comes from.
        from_anywhere: Whether `guest` may come from another machine.
    """
    if user != _GUEST or not compare_digest(password, _GUEST_PASSWORD):
        reason = "unknown user or wrong password"
    elif not from_anywhere and not _is_loopback(peer):
        reason = "only from this machine"
    else:
        return True
    # The client is told to look here: it does not learn the reason, as with RabbitMQ.
    shown = user[:_LOGGED_CHARACTERS_MAX]
    logger.warning("login refused user=%r peer=%s reason=%s", shown, peer, reason)
    return False


class ProxyWarning:
    """Warns once that clients of a proxy on this machine may log in as `guest`.

    Such a proxy connects from loopback, wherever its client is, and nothing in a connection tells
    it from a client on this machine. So the first login says it, and the operator has to decide.

    Args:
        from_anywhere: Whether `guest` may come from another machine anyway; nothing is logged then.
    """

    def __init__(self, *, from_anywhere: bool) -> None:
        self._is_due = not from_anywhere

    def guest_logged_in(self, peer: str) -> None:
        """Log the warning, unless it was logged before.

        Args:
            peer: Address that the connection comes from.
        """
        if self._is_due and _is_loopback(peer):
            self._is_due = False
            logger.warning(
                "guest logged in from this machine peer=%s note=the clients of a proxy on this "
                "machine look the same: restrict at the proxy who may connect",
                peer,
            )


def _is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
