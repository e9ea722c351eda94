"""An address of the server: bound before the start, opened when recovery is complete."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Final, Self, cast

from amqp_server.base.errors import AddressUnavailableError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

BACKLOG: Final = 1024
"""Connections that the kernel queues until the event loop accepts them."""


class BoundAddress:
    """An address of this machine that the server has, and on which it may listen later.

    The system refuses connections until `listen`. Made by `BoundAddress.bind`.
    """

    def __init__(self, host: str, port: int) -> None:
        """Bind nothing; callers use `bind`."""
        self._host = host
        self._port = port
        self._listener: asyncio.Server | None = None
        self._make_protocol: Callable[[], asyncio.BaseProtocol] = asyncio.BaseProtocol

    @classmethod
    async def bind(cls, host: str, port: int) -> Self:
        """Bind a port on an address.

        Args:
            host: Address or host name.
            port: TCP port; 0 lets the system choose a free one.

        Raises:
            AddressUnavailableError: Another process listens there, or
                this machine does not have the address.
        """
        bound = cls(host, port)
        try:
            bound._listener = await asyncio.get_running_loop().create_server(
                lambda: bound._make_protocol(),
                host,
                port,
                backlog=BACKLOG,
                start_serving=False,
            )
        except OSError as error:
            raise bound._refused(error) from error
        return bound

    async def listen(
        self, make_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> list[tuple[str, int]]:
        """Accept connections from now on; return host and port, of a name with several each.

        Args:
            make_protocol: Returns the protocol of one new connection.

        Raises:
            AddressUnavailableError: Another process that had bound
                the same address began to listen earlier.
        """
        assert self._listener is not None, "the address is bound first"
        self._make_protocol = make_protocol
        try:
            await self._listener.start_serving()
        except OSError as error:
            raise self._refused(error) from error
        # uvloop reports no error when the kernel refuses: the listener has no socket then.
        sockets = cast("tuple[socket.socket | None, ...]", self._listener.sockets)
        listening = [each for each in sockets if each]
        if not listening:
            raise self._refused(OSError(errno.EADDRINUSE, ""))
        return [each.getsockname()[:2] for each in listening]

    def close(self) -> None:
        """Accept no more connections, and release the address; a second call does nothing."""
        if self._listener is not None:
            self._listener.close()

    def _refused(self, error: OSError) -> AddressUnavailableError:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        host = f"[{self._host}]" if ":" in self._host else self._host
        return AddressUnavailableError(f"cannot listen on {host}:{self._port}: {reason}")
