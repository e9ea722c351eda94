"""A server on port 5672 of a network of its own, as the Java client's tests expect a broker."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cli.main import main
from tests.java_client.namespace import NetworkNamespace
from tests.servers import NO_MANAGEMENT

_MAKEFILE: Final = """
start-rabbit-on-node:
\t{server} >>{log} 2>&1 </dev/null &
\t$(RABBITMQCTL) await_startup
stop-rabbit-on-node:
\t$(RABBITMQCTL) stop
set-resource-alarm:
\t$(RABBITMQCTL) eval 'rabbit_alarm:set_alarm({{{{resource_limit, $(SOURCE), node()}}, []}}).'
clear-resource-alarm:
\t$(RABBITMQCTL) eval 'rabbit_alarm:clear_alarm({{resource_limit, $(SOURCE), node()}}).'
"""
"""What the tests ask `make` for."""
_CONTROL: Final = """#!/bin/sh
case "$*" in *list_*) set -- "$@" --no-table-headers ;; esac
exec {tool} "$@"
"""
"""Tools older than those of RabbitMQ 3.8 wrote no headers, and so the tests expect none."""


class BrokerUnderTest:
    """The server, its `rabbitmqctl`, and a Makefile that stops and starts it.

    As a context manager it is stopped at the end.

    Args:
        directory: An empty directory for its data and scripts.
        network: Network that it listens in.
    """

    def __init__(self, directory: Path, network: NetworkNamespace) -> None:
        self._directory = directory
        self._network = network
        self.log = directory / "log"
        self.control = directory / "rabbitmqctl"

    def __enter__(self) -> Self:
        """Start it."""
        directory, data = self._directory, self._directory / "data"
        tools = directory / "tools"
        assert main(["install-rabbitmq-tools", str(tools), "--storage-path", str(data)]) == 0
        self.control.write_text(_CONTROL.format(tool=shlex.quote(str(tools / "rabbitmqctl"))))
        self.control.chmod(0o755)
        words = ["setsid", sys.executable, "-m", "amqp_server", "--host", "0.0.0.0"]
        words += ["--port", "5672", "--storage-path", str(data)]
        makefile = _MAKEFILE.format(server=shlex.join(words), log=shlex.quote(str(self.log)))
        (directory / "Makefile").write_text(makefile)
        self._make("start-rabbit-on-node")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self._make("stop-rabbit-on-node")

    def properties(self) -> list[str]:
        """Return the options of `java` by which the tests find it."""
        properties = {
            "rabbitmqctl.bin": self.control,
            "rabbitmq.dir": self._directory,
            "make.bin": "make",
            "test-broker.A.nodename": "rabbit@localhost",
            "test-broker.A.node_port": 5672,
            "test-broker.A.config_file": "none",
            "broker.hostname": "localhost",
            "broker.port": 5672,
        }
        return [f"-D{name}={value}" for name, value in properties.items()]

    def _make(self, target: str) -> None:
        words = ["make", "-s", "-C", str(self._directory), f"RABBITMQCTL={self.control}", target]
        command = self._network.command(*words)
        environment = {**os.environ, **NO_MANAGEMENT}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.log.read_text()
