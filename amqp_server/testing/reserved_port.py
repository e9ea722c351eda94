"""A TCP port that stays the same while a server on it stops and starts."""

from __future__ import annotations

import os
import socket

from amqp_server.base.errors import StartupError


class ReservedPort:
    """A port that the system gives to no other program until `release`.

    The socket is bound and never listens: the system lets a server with `SO_REUSEADDR` bind the
    port too, and refuses clients while no server listens.

    Args:
        host: Address of this machine.
        port: TCP port; 0 lets the system choose a free one.

    Attributes:
        port: The port.

    Raises:
        StartupError: The port is in use, or this machine does not have the address.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise StartupError(f"cannot reserve {host}:{port}: {reason}") from error
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Give the port back; a second call does nothing."""
        self._socket.close()
