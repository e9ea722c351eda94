"""The process of the management server: started after the broker listens, and again when it dies.

The broker never waits for it. It passes settings and sockets, and logs what it reports. If the
process dies, the sockets stay open, so clients wait until the next one accepts them. When a port
becomes free for which it waited, the process starts, or starts again with one socket more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from amqp_server import __version__
from amqp_server.base.config import words
from amqp_server.children.child_process import ChildProcess
from amqp_server.children.management_sockets import TRY_AGAIN_SECONDS
from amqp_server.connections.tls.configured import management_tls

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.children.management_sockets import ManagementSockets

logger = logging.getLogger("amqp_server.management_process")

RELOAD_LINE: Final = b"reload certificates\n"
"""Line that the process reads after its settings, when the operator has sent SIGHUP."""


class ManagementProcess:
    """Keeps one management server running; does nothing without sockets.

    Args:
        config: Settings; not changed.
        sockets: Sockets that it serves; closed by their owner.

    Attributes:
        is_serving: Whether the process has said that it serves.
    """

    def __init__(self, config: ServerConfig, sockets: ManagementSockets) -> None:
        self._config = config
        self._sockets = sockets
        self._child = ChildProcess("management server", "amqp_server.management", self, logger)
        self._amqp_listeners: list[tuple[str, int, str]] = []
        self._waiting: asyncio.Task[None] | None = None
        self.is_serving = False

    @property
    def starts(self) -> int:
        """Number of starts of the process."""
        return self._child.starts

    @property
    def status(self) -> dict[str, Any] | None:
        """Status for `amqp-server status`; None without a management server."""
        if not self._sockets.are_wanted:
            return None
        urls = {"http": [], "metrics": []}  # type: dict[str, list[str]]
        for each in self._sockets.sockets:
            urls[each.kind].append(each.url)
        return {
            "urls": urls["http"],
            "metrics_urls": urls["metrics"],
            "is_serving": self.is_serving,
            "waiting": [
                {"kind": each.kind, "host": each.host, "port": each.port, "reason": each.reason}
                for each in self._sockets.waiting
            ],
            "pid": self._child.pid,
            "starts": self.starts,
        }

    @property
    def has_tls(self) -> bool:
        """Whether it has certificates."""
        return any(each.is_tls for each in self._sockets.sockets)

    @property
    def listeners(self) -> list[dict[str, Any]]:
        """Protocol, host and port of every listener of the server."""
        found = [
            {"protocol": protocol, "host": host, "port": port}
            for host, port, protocol in self._amqp_listeners
        ]
        for each in self._sockets.sockets:
            protocol = "http/prometheus" if each.kind == "metrics" else "http" + "s" * each.is_tls
            found.append({"protocol": protocol, "host": each.host, "port": each.port})
        return found

    def start(self, amqp_listeners: list[tuple[str, int, str]]) -> None:
        """Let clients connect, and start the process; returns at once.

        Args:
            amqp_listeners: Address, port and protocol of each listener of the broker.
        """
        self._sockets.listen()
        self._amqp_listeners = amqp_listeners
        if self._sockets.sockets:
            self._child.start()
        if self._sockets.waiting:
            self._waiting = asyncio.create_task(self._wait_for_ports(), name="management ports")

    async def reload_certificates(self) -> None:
        """Let the process read the files of its certificates again, if one runs."""
        if self.is_serving:
            await self._child.send(RELOAD_LINE)

    async def stop(self) -> None:
        """End the process, and wait for no port any more."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._child.stop()

    async def _wait_for_ports(self) -> None:
        """Serve each port when it becomes free."""
        while self._sockets.waiting:
            await asyncio.sleep(TRY_AGAIN_SECONDS)
            if not await self._sockets.try_again():
                continue
            if self._child.is_started:
                await self._child.start_again()
            else:
                self._child.start()

    # For the process

    def descriptors(self) -> list[int]:
        """Return the descriptors of the sockets."""
        return [each.bound.fileno() for each in self._sockets.sockets]

    def process_ended(self) -> None:
        """Note that nothing serves; the sockets stay open."""
        self.is_serving = False

    def settings(self) -> dict[str, Any]:
        """Return what the process needs to know."""
        config = self._config
        return {
            "storage_path": str(config.storage_path.absolute()),
            "broker_pid": os.getpid(),
            "listeners": [
                {
                    "descriptor": each.bound.fileno(),
                    "kind": each.kind,
                    "is_tls": each.is_tls,
                    "host": each.host,
                    "port": each.port,
                }
                for each in self._sockets.sockets
            ],
            "tls": asdict(management_tls(config)),
            "cors_origins": words(config.management_cors_origin),
            "hosts": words(config.management_hosts),
            "guest_from_anywhere": config.guest_from_anywhere,
            "node_name": f"rabbit@{socket.gethostname().partition('.')[0]}",
            "server_version": __version__,
            "presented_version": config.present_version,
            "amqp_listeners": self._amqp_listeners,
        }

    def take_report(self, fields: dict[str, Any]) -> bool:
        """Note that the process serves; return whether the report says that."""
        if not fields.get("serving"):
            return False
        self.is_serving = True
        urls = " ".join(each.url for each in self._sockets.sockets)
        logger.info("management server started starts=%d urls=%s", self.starts, urls)
        return True
