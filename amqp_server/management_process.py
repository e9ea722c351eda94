"""The process of the management server: started after the broker listens, and again when it dies.

The broker never waits for it. It passes settings and sockets, and logs what it reports. If the
process dies, the sockets stay open, so clients wait until the next one accepts them.
"""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from amqp_server import __version__
from amqp_server.child_process import ChildProcess
from amqp_server.config import words
from amqp_server.tls.configured import management_tls

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig
    from amqp_server.management_sockets import ManagementSockets

logger = logging.getLogger(__name__)

RELOAD_LINE: Final = b"reload certificates\n"
"""What the process reads after its settings, when the operator has sent SIGHUP."""


class ManagementProcess:
    """Keeps one management server running; does nothing without sockets.

    Args:
        config: Settings; not changed.
        sockets: What it serves; closed by their owner.

    Attributes:
        is_serving: Whether the process has said that it serves.
    """

    def __init__(self, config: ServerConfig, sockets: ManagementSockets) -> None:
        self._config = config
        self._sockets = sockets
        self._child = ChildProcess("management server", "amqp_server.management", self, logger)
        self._amqp_listeners: list[tuple[str, int, str]] = []
        self.is_serving = False

    @property
    def starts(self) -> int:
        """How often the process has been started."""
        return self._child.starts

    @property
    def status(self) -> dict[str, Any] | None:
        """What `amqp-server status` shows of it; None if there is none."""
        if not self._sockets.sockets:
            return None
        urls = {"http": [], "metrics": []}  # type: dict[str, list[str]]
        for each in self._sockets.sockets:
            urls[each.kind].append(each.url)
        return {
            "urls": urls["http"],
            "metrics_urls": urls["metrics"],
            "is_serving": self.is_serving,
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

        Raises:
            StartupError: Another process has taken a port that was asked for.
        """
        self._sockets.listen()
        self._amqp_listeners = amqp_listeners
        if not self._sockets.sockets:
            return
        self._child.start()

    async def reload_certificates(self) -> None:
        """Let the process read the files of its certificates again, if one runs."""
        if self.is_serving:
            await self._child.send(RELOAD_LINE)

    async def stop(self) -> None:
        """End the process."""
        await self._child.stop()

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
