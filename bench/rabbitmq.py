"""Starts an installed RabbitMQ for a benchmark, independent of a RabbitMQ that the system runs.

Node name, ports, data, logs, cookie and port mapper (epmd) are its own, in a given directory; it
reads and writes nothing of the system's RabbitMQ. Only the named plugins are enabled.
"""

import os
import secrets
import shlex
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BenchError, BrokerStartError
from bench.running_broker import RunningBroker, server_process, wait_until_ready

_START_SECONDS_MAX: Final = 120
_PORTS: Final = range(20_000, 32_000)
_SERVER_SCRIPTS: Final = (
    # Debian's `rabbitmq-server` on the PATH changes to the system's user and directories. The
    # script that it calls starts a broker for any user.
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "rabbitmq-server",
)


CONTROL_COMMAND: Final = "rabbitmqctl"
"""Script in the directory of the broker that runs `rabbitmqctl` for it."""
_SCRIPTS: Final = "/usr/lib/rabbitmq/bin"


@contextmanager
def start_rabbitmq(
    name: str,
    directory: Path,
    *,
    plugins: Sequence[str] = (),
    settings: str = "",
    erlang_flags: str = "",
) -> Iterator[RunningBroker]:
    """Run RabbitMQ on free ports of the loopback interface.

    Args:
        name: Name in the report.
        directory: Empty directory for all files of the broker.
        plugins: Names of RabbitMQ's own plugins to enable.
        settings: Text of its configuration file.
        erlang_flags: Flags of its Erlang, beside its own; a benchmark leaves them alone.

    Raises:
        BrokerStartError: RabbitMQ is not installed, or did not start.
    """
    node = RabbitMQNode(
        name, directory, plugins=plugins, settings=settings, erlang_flags=erlang_flags
    )
    with node.port_mapper(), node.running() as broker:
        yield broker


class RabbitMQNode:
    """A RabbitMQ whose name, ports and files stay, so that it can be killed and started again.

    Args:
        name: Name in the report.
        directory: Empty directory for all files of the broker.
        plugins: Names of RabbitMQ's own plugins to enable.
        settings: Text of its configuration file.
        erlang_flags: Flags of its Erlang, beside its own; a benchmark leaves them alone.

    Raises:
        BrokerStartError: RabbitMQ is not installed.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        plugins: Sequence[str] = (),
        settings: str = "",
        erlang_flags: str = "",
    ) -> None:
        self._name = name
        self._directory = directory
        self._server = _find_program(name, _SERVER_SCRIPTS)
        self._epmd = _find_program(name, ("epmd",))
        port, distribution_port, self._epmd_port = free_ports(3)
        (directory / "rabbitmq.conf").write_text(settings)
        (directory / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        self._environment = _environment(directory, port, distribution_port, self._epmd_port)
        if erlang_flags:
            self._environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] = erlang_flags
        for tool in (CONTROL_COMMAND, "rabbitmq-diagnostics"):
            _write_tool(directory, tool, self._environment)
        self._url = BrokerUrl("127.0.0.1", port, "guest", "guest", "/")

    @contextmanager
    def port_mapper(self) -> Iterator[None]:
        """Run the node's port mapper, which it needs all the time that it runs."""
        with _port_mapper(
            self._name, self._epmd, self._epmd_port, self._environment, self._directory
        ):
            yield

    @contextmanager
    def running(self) -> Iterator[RunningBroker]:
        """Run the node, and stop it at the end if nobody has killed it.

        Raises:
            BrokerStartError: It did not start.
        """
        output = self._directory / "output.txt"
        with server_process(
            self._name, [self._server], self._environment, output, self._directory
        ) as process:
            # The port opens before the broker has started: only a login shows that it is ready.
            url = self._url
            wait_until_ready(
                self._name, process, output, lambda: _try_log_in(url), _START_SECONDS_MAX
            )
            yield RunningBroker(self._name, url, process.pid, self._directory)


def is_rabbitmq_installed() -> bool:
    """Return whether there is a RabbitMQ to start."""
    return any(shutil.which(program) for program in _SERVER_SCRIPTS)


@contextmanager
def _port_mapper(
    name: str, epmd: str, port: int, environment: dict[str, str], directory: Path
) -> Iterator[None]:
    """Run an epmd of our own: the epmd that Erlang starts by itself outlives its node."""
    output = directory / "epmd.txt"
    command = [epmd, "-port", str(port), "-address", "127.0.0.1"]
    with server_process(name, command, environment, output, directory) as process:
        wait_until_ready(name, process, output, lambda: _try_connect(port), _START_SECONDS_MAX)
        yield


def _environment(
    directory: Path, port: int, distribution_port: int, epmd_port: int
) -> dict[str, str]:
    """Return the environment of a RabbitMQ that shares nothing with another RabbitMQ."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("RABBITMQ_")}
    no_settings = directory / "rabbitmq-env.conf"
    no_settings.touch()
    return inherited | {
        "HOME": str(directory),  # has the cookie
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_CONF_ENV_FILE": str(no_settings),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_NODENAME": f"bench-{secrets.token_hex(4)}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        # The script then becomes the broker, instead of its parent: our pid is the broker's.
        "RUNNING_UNDER_SYSTEMD": "true",
    }


def _write_tool(directory: Path, tool: str, environment: dict[str, str]) -> None:
    """Write a script that runs a tool for this node, whatever the system's own one is."""
    names = ("HOME", "ERL_EPMD_ADDRESS", "ERL_EPMD_PORT", "RABBITMQ_CONF_ENV_FILE")
    lines = [f"export {name}={shlex.quote(environment[name])}" for name in names]
    node = shlex.quote(environment["RABBITMQ_NODENAME"])
    lines.append(f'exec {_SCRIPTS}/{tool} --node {node} "$@"')
    script = directory / tool
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    script.chmod(0o700)


def _find_program(name: str, programs: Sequence[str]) -> str:
    for program in programs:
        if found := shutil.which(program):
            return found
    raise BrokerStartError(name, f"{programs[-1]} is not installed (Debian: rabbitmq-server)")


def free_ports(count: int) -> list[int]:
    """Return TCP ports of the loopback interface that were free a moment ago.

    The system gives them to no client meanwhile: it takes theirs, and those of servers that ask for
    any, from 32768 on.
    """
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = _PORTS.start + secrets.randbelow(len(_PORTS))
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    return found


def _try_log_in(url: BrokerUrl) -> bool | None:
    try:
        with Connection(url, channel=1) as connection:
            connection.close()
    except (OSError, BenchError):
        return None
    return True


def _try_connect(port: int) -> bool | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return None
