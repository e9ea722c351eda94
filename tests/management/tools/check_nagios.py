"""The checks of Debian's `nagios-plugins-rabbitmq`, unmodified. Run by `make check-tools`.

Left out is `check_rabbitmq_shovels`: it fails where there is no shovel, as with RabbitMQ.
"""

import subprocess
from pathlib import Path

import pika
import pytest

from tests.limits import HANG_SECONDS
from tests.management.tools.api import Api

OK, WARNING, CRITICAL, UNKNOWN = range(4)


@pytest.fixture(autouse=True)
def _three_messages(api: Api) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters(api.host, api.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for _ in range(3):
            channel.basic_publish("", "orders", b"x")


def check(api: Api, name: str, *options: str) -> tuple[int, str]:
    """Run a check; return its exit status and its line."""
    command = [f"/usr/bin/check_rabbitmq_{name}", "-H", api.host, "--port", str(api.port)]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    return done.returncode, done.stdout.strip() + done.stderr.strip()


def test_they_are_well(api: Api) -> None:
    node = api.get("/overview")["node"].removeprefix("rabbit@")

    assert check(api, "aliveness") == (OK, "RABBITMQ_ALIVENESS OK - vhost: /")
    status, line = check(api, "connections")
    assert (status, line.split(" - ")[0]) == (OK, "RABBITMQ_CONNECTIONS OK")
    status, line = check(api, "objects")
    assert status == OK
    # It says the number of the last one, which it counts from 0.
    assert "vhost=0;; exchange=7;; binding=0;; queue=0;; channel=0;;" in line
    status, line = check(api, "overview")
    assert status == OK
    assert "messages=3;; messages_ready=3;; messages_unacknowledged=0;;" in line
    status, line = check(api, "queue", "--queue", "orders")
    assert status == OK
    assert "messages=3;; messages_ready=3;; messages_unacknowledged=0;; consumers=0;;" in line
    limits = ("-w", "101,101,101,101", "-c", "101,101,101,101")
    status, line = check(api, "server", "-n", node, *limits)
    assert status == OK, line
    assert all(f"{name} OK" in line for name in ("Memory", "Process", "FD", "Sockets")), line
    status, line = check(api, "watermark", "-n", node)
    assert status == OK, line
    status, line = check(api, "partition", "-n", node)
    assert status == OK, line


def test_they_warn(api: Api) -> None:
    assert check(api, "queue", "--queue", "orders", "-w", "2,-1,-1,-1")[0] == WARNING
    assert check(api, "overview", "-c", "2,-1,-1")[0] == CRITICAL
    assert check(api, "aliveness", "--vhost", "nosuch") == (
        UNKNOWN,
        "RABBITMQ_ALIVENESS UNKNOWN - Not found: nosuch",
    )
    assert check(api, "aliveness", "-p", "wrong") == (
        UNKNOWN,
        "RABBITMQ_ALIVENESS UNKNOWN - Access refused: /",
    )


def test_all_are_installed() -> None:
    found = {path.name for path in Path("/usr/bin").glob("check_rabbitmq_*")}

    assert found == {
        f"check_rabbitmq_{name}"
        for name in (
            "aliveness",
            "connections",
            "objects",
            "overview",
            "partition",
            "queue",
            "server",
            "shovels",
            "watermark",
        )
    }
