"""Decides who may log in: the user `guest`, from this machine only, as in a new RabbitMQ."""

from __future__ import annotations

import ipaddress
import logging
from hmac import compare_digest

logger = logging.getLogger(__name__)

_GUEST = "guest"
_GUEST_PASSWORD = b"guest"
_LOGGED_CHARACTERS_MAX = 64
"""Characters of a refused user name that are logged: a client may send a very long one."""


def may_login(user: str, password: bytes, peer: str, *, from_anywhere: bool = False) -> bool:
    """Return whether a user may log in.

    Args:
        user: User name of the login.
        password: Password of the login.
        peer: IP address of the client.
        from_anywhere: Whether `guest` may log in from another machine.
    """
    if user != _GUEST or not compare_digest(password, _GUEST_PASSWORD):
        reason = "unknown user or wrong password"
    elif not from_anywhere and not _is_loopback(peer):
        reason = "only from this machine"
    else:
        return True
    # As with RabbitMQ, the client does not learn the reason: its error refers to this log.
    shown = user[:_LOGGED_CHARACTERS_MAX]
    logger.warning("login refused user=%r peer=%s reason=%s", shown, peer, reason)
    return False


class ProxyWarning:
    """Warns once that clients of a proxy on this machine may log in as `guest`.

    Such a proxy connects from loopback, wherever its clients are. Nothing in a connection
    distinguishes it from a client on this machine. So the first login from loopback logs a warning,
    and the operator has to decide.

    Args:
        from_anywhere: Whether `guest` may log in from another machine anyway; then nothing is
            logged.
    """

    def __init__(self, *, from_anywhere: bool) -> None:
        self._is_due = not from_anywhere

    def guest_logged_in(self, peer: str) -> None:
        """Log the warning at the first login from loopback.

        Args:
            peer: IP address of the client.
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
