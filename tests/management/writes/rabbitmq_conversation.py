"""RabbitMQ 3.10 answers as `rabbitmq-3.10.json` says: `make check-tools` runs this."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.rabbitmq import free_ports, start_rabbitmq
from tests.management.writes.conversation import Step, steps

PLUGINS = ("rabbitmq_management", "rabbitmq_federation")


@pytest.fixture
def rabbitmq_url(tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    settings = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\n"
    with start_rabbitmq("RabbitMQ", tmp_path, plugins=PLUGINS, settings=settings):
        yield f"http://127.0.0.1:{port}"


def test_rabbitmq_answers_as_recorded(rabbitmq_url: str) -> None:
    name = {"request": "PUT /api/cluster-name", "body": {"name": "c1"}, "status": 204}
    for step in (Step(name), *steps()):
        step.check(rabbitmq_url, of_rabbitmq=True)
