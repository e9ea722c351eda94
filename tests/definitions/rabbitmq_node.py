"""A RabbitMQ with its own tools, for definitions that it reads and writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.broker_url import BrokerUrl
from bench.rabbitmq import start_rabbitmq
from tests.conformance.rabbitmq import PLUGINS, SLEEPING_SCHEDULERS

_TOOL: Final = "/usr/lib/rabbitmq/bin/rabbitmqctl"


class RabbitNode:
    """A node that runs.

    Args:
        url: Where clients connect.
        environment: Variables that its tools need to find it.
        directory: Where files are exchanged.

    Attributes:
        url: As given.
    """

    def __init__(self, url: BrokerUrl, environment: dict[str, str], directory: Path) -> None:
        self.url = url
        self._environment = environment
        self._directory = directory

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl; return what it writes."""
        ran = subprocess.run(
            [_TOOL, "--node", self._environment["RABBITMQ_NODENAME"], *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def export(self) -> dict[str, Any]:
        """Return its definitions, as its own command writes them."""
        path = self._directory / "exported.json"
        path.unlink(missing_ok=True)
        self.ctl("export_definitions", str(path))
        definitions: dict[str, Any] = json.loads(path.read_text())
        return definitions

    def load(self, definitions: dict[str, Any]) -> None:
        """Import definitions with its own command."""
        path = self._directory / "imported.json"
        path.write_text(json.dumps(definitions))
        self.ctl("import_definitions", str(path))


@contextmanager
def rabbit_node(directory: Path, *, settings: str = "") -> Iterator[RabbitNode]:
    """Run RabbitMQ in an empty directory, with these lines of its configuration file."""
    with start_rabbitmq(
        "RabbitMQ",
        directory,
        plugins=PLUGINS,
        settings=settings,
        erlang_flags=SLEEPING_SCHEDULERS,
    ) as broker:
        octets = Path(f"/proc/{broker.pid}/environ").read_bytes()
        pairs = (each.partition("=") for each in octets.decode().split("\0") if each)
        yield RabbitNode(broker.url, {name: value for name, _, value in pairs}, directory)
