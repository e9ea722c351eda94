"""Runs a RabbitMQ with its management plugin for the tests that compare this server with it.

    python -m tests.management.tools.rabbitmq_node COMMAND...

runs a command with `TOOLS_API` in its environment, and stops RabbitMQ when it has ended.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.rabbitmq import free_ports, start_rabbitmq
from tests.management.tools.api import Api

API_VARIABLE: Final = "TOOLS_API"
"""Names the API that the tests use instead of one of ours: `HOST:PORT:AMQP_PORT`."""
_PLUGINS: Final = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_management",
    "rabbitmq_random_exchange",
)


@contextmanager
def rabbitmq_api(directory: Path) -> Iterator[Api]:
    """Run RabbitMQ with all that it writes in an empty directory; stop it at the end.

    Yields:
        Its HTTP API, on a free port of the loopback interface, for the user `guest`.
    """
    (port,) = free_ports(1)
    settings = f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"
    with start_rabbitmq("RabbitMQ", directory, plugins=_PLUGINS, settings=settings) as broker:
        yield Api("127.0.0.1", port, broker.url.port)


def main(command: Sequence[str]) -> int:
    """Start it, run the command, and return its exit status."""
    with tempfile.TemporaryDirectory() as directory, rabbitmq_api(Path(directory)) as api:
        named = {API_VARIABLE: f"{api.host}:{api.port}:{api.amqp_port}"}
        return subprocess.run(command, env=os.environ | named, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
