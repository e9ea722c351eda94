"""Starts `amqp-server` for a benchmark."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.broker_url import BrokerUrl
from bench.running_broker import RunningBroker, server_process, wait_until_ready
from cli.rabbitmq_tools.install import write_tool
from cli.rabbitmq_tools.verbs import TOOLS

_START_SECONDS_MAX: Final = 120
_LISTENING: Final = re.compile(r"listening on (\S+):(\d+)")
_SETTINGS_PREFIX: Final = "AMQP_SERVER_"


@contextmanager
def start_our_server(
    name: str,
    directory: Path,
    *,
    ring_slots: int | None = None,
    is_pure: bool = False,
    options: Sequence[str] = (),
) -> Iterator[RunningBroker]:
    """Run our server on a free port of the loopback interface.

    The server does not get the settings of this environment, so that figures do not depend on them.

    Args:
        name: Name in the report.
        directory: Empty directory for the server's data and output.
        ring_slots: Slots of each queue's ring; None for the server's default.
        is_pure: Whether to run without the compiled kernels; if not, they must be there.
        options: Other options of the command line.

    Raises:
        BrokerStartError: The server did not start.
    """
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS_PREFIX)
    }
    kernels = "PURE_PYTHON" if is_pure else "REQUIRE_COMPILED"
    environment[f"{_SETTINGS_PREFIX}{kernels}"] = "1"
    arguments = ["--port", "0", "--storage-path", str(directory / "data")]
    # Another process on the same cores: a row that is about it asks for it.
    arguments += ["--management-port", "0", "--metrics-port", "0", *options]
    if ring_slots is not None:
        arguments += ["--ring-size", str(ring_slots)]
    output = directory / "output.txt"

    def try_find_address() -> BrokerUrl | None:
        found = _LISTENING.search(output.read_text(errors="replace"))
        if not found:
            return None
        return BrokerUrl(found[1].strip("[]"), int(found[2]), "guest", "guest", "/")

    # The module, not the installed command: that may be of another copy of this repository.
    repository = Path(__file__).parent.parent
    with server_process(
        name, [sys.executable, "-m", "amqp_server", *arguments], environment, output, repository
    ) as process:
        url = wait_until_ready(name, process, output, try_find_address, _START_SECONDS_MAX)
        yield RunningBroker(name, url, process.pid, _install_tools(directory))


def _install_tools(directory: Path) -> Path:
    """Write the tools for the server; return their directory."""
    tools = directory / "tools"
    tools.mkdir(exist_ok=True)
    for tool in TOOLS:
        write_tool(tools / tool, tool, directory / "data")
    return tools
