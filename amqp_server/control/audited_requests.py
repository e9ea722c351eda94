"""Records the requests of one connection to the control socket in the audit log."""

from __future__ import annotations

import pwd
import socket
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from amqp_server.audit.actor import acting, os_actor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.audit.actor import Actor
    from amqp_server.audit.audit_log import AuditLog
    from amqp_server.control.registry import Command

_CREDENTIALS: Final = Struct("iII")
"""Process, user and group of a peer (struct ucred)."""


class AuditedRequests:
    """Records what one connection asks for, when it has ended.

    Args:
        audit: Audit log of the server.
    """

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._last_read: tuple[str, str, str, str] | None = None

    def record(self, command: Command, arguments: Mapping[str, Any], error: str = "") -> None:
        """Record a request that has ended.

        Args:
            command: Command of the request.
            arguments: Its arguments, checked.
            error: Kind of its error; empty if it was done.
        """
        audited = command.audited
        if audited is None:
            return
        vhost, name = str(arguments.get("vhost", "")), str(arguments.get(audited.name, ""))
        if audited.is_read:
            # A program may ask for several users on one connection.
            read = (acting.get().user, audited.event, vhost, name)
            if read == self._last_read:
                return
            self._last_read = read
        details = {each: arguments[each] for each in audited.details if each in arguments}
        if error:
            details["error"] = error
        self._audit.record(audited.event, vhost=vhost, name=name, details=details)


def peer_of(connection: socket.socket | None) -> Actor:
    """Return the user of the operating system at the other end of a Unix socket; may block.

    Args:
        connection: The socket; None if it is closed already.
    """
    if connection is None:
        return os_actor(-1, "")
    try:
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
    except OSError:
        return os_actor(-1, "")
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return os_actor(uid, name)
