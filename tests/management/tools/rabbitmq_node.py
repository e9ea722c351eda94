"""Runs a RabbitMQ with its management plugin for the tests that compare this server with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.rabbitmq import free_ports, start_rabbitmq
from tests.management.tools.api import Api

_PLUGINS = (
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
