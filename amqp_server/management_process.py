"""The process of the management server: started after the broker listens, and again when it dies.

The broker never waits for it. It passes settings and sockets, and logs what it reports. If the
process dies, the sockets stay open, so clients wait until the next one accepts them.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from amqp_server import __version__
from amqp_server.child_process import ChildProcess
from amqp_server.config import words

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig
    from amqp_server.management_sockets import ManagementSockets

logger = logging.getLogger(__name__)


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
        certificates = words(config.management_tls_certificate or config.tls_certificate)[:1]
        has_own = bool(config.management_tls_certificate)
        keys = words(config.management_tls_key if has_own else config.tls_key)[:1]
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
            "tls": {
                "certificates": certificates,
                "keys": keys,
                "password_file": "" if has_own else config.tls_key_password_file,
                "versions": words(config.tls_versions),
                "ciphers": config.tls_ciphers,
            },
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
