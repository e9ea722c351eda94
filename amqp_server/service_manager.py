"""Tells the service manager that started the process when it is ready, that it lives, and stops.

That is systemd's protocol sd_notify, which other service managers have as well: datagrams with
lines `NAME=value` to the Unix socket that the environment variable `NOTIFY_SOCKET` names. Without
the variable nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

logger = logging.getLogger("amqp_server.service_manager")

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS_VARIABLE: Final = "WATCHDOG_PID"
_PINGS_PER_TIMEOUT: Final = 3
"""Signs of life in the time after which the service manager restarts a silent process."""
_MICROSECONDS: Final = 1_000_000


class ServiceManager:
    """The service manager of this process.

    Args:
        address: Address of its socket, abstract ones with a null octet; None if there is none.
        watchdog_seconds: Time without a sign of life after which it restarts the process; None if
            it waits for none.
    """

    def __init__(self, address: str | None, watchdog_seconds: float | None = None) -> None:
        self._address = address
        self._watchdog_seconds = watchdog_seconds

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Self:
        """Return the service manager that the environment names.

        Args:
            environment: Variables of this process. Those that are read are removed: a process that
                the server starts must not speak in its place.
        """
        address = environment.pop(SOCKET_VARIABLE, "")
        timeout = environment.pop(WATCHDOG_VARIABLE, "")
        process = environment.pop(WATCHDOG_PROCESS_VARIABLE, "")
        if not address.startswith(("/", "@")):
            if address:
                logger.warning(
                    "no socket of a service manager variable=%s value=%s", SOCKET_VARIABLE, address
                )
            return cls(None)
        if address.startswith("@"):
            address = f"\0{address[1:]}"
        is_meant = process in ("", str(os.getpid()))
        if not (timeout.isdecimal() and int(timeout) and is_meant):
            return cls(address)
        return cls(address, int(timeout) / _MICROSECONDS)

    def ready(self, status: str) -> None:
        """Report that clients can connect.

        Args:
            status: One line for people, which `systemctl status` shows.
        """
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """Report what the process does, in one line for people."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """Report that the server stops by itself or because it was asked to."""
        self._send("STOPPING=1\nSTATUS=stopping")

    async def keep_alive(self, is_well: Callable[[], bool]) -> None:
        """Send signs of life until cancelled, from the event loop: one that hangs sends none.

        Args:
            is_well: Returns whether to send one.
        """
        if self._address is None:
            return
        if self._watchdog_seconds is None:
            logger.warning(
                "no watchdog note=a server that hangs, or whose disk does, is not started again; "
                "set WatchdogSec"
            )
            return
        while True:
            if is_well():
                self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_seconds / _PINGS_PER_TIMEOUT)

    def _send(self, state: str) -> None:
        """Send without waiting; the server works on without a service manager that is away."""
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(state.encode(), self._address)
        except OSError as error:
            # Not the text of the state: it may be long.
            logger.warning(
                "service manager not reached what=%s reason=%s", state.partition("=")[0], error
            )
