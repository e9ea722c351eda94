"""The units of deploy/ under a real systemd, with all of their protections."""

import shutil
from collections.abc import Iterator
from typing import Final

import pytest

from tests.deploy.systemd_machine import (
    PACKAGES,
    PYTHON,
    PYTHON_NAME,
    SOURCE,
    SystemdMachine,
    started_machine,
    what_is_missing,
)

EXPORTS: Final = "amqp-server-export"
STORE_QUEUE: Final = """
from pathlib import Path
from tests.spark.builders import plain_messages, store_queue
queue = store_queue(Path("/var/lib/amqp-server"))
queue.append(plain_messages(20))
queue.close()
"""
SHORT_WATCHDOG: Final = """
install -D --mode 0644 /dev/stdin /etc/systemd/system/amqp-server.service.d/test.conf <<'END'
[Service]
WatchdogSec=1
RestartSec=100ms
END
systemctl daemon-reload
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[SystemdMachine]:
    """Start a machine with the program in /opt, and with the unit, which is not started yet."""
    if missing := what_is_missing():
        pytest.skip(missing)
    with started_machine() as machine:
        machine.output(
            "rm -rf /opt/amqp-server /var/lib/amqp-server /etc/amqp-server\n"
            f"{PYTHON} -m venv --without-pip /opt/amqp-server\n"
            f"printf '%s\\n' {SOURCE} {PACKAGES} "
            f">/opt/amqp-server/lib/{PYTHON_NAME}/site-packages/with.pth\n"
            "install /dev/stdin /opt/amqp-server/bin/amqp-server <<'END'\n"
            "#!/opt/amqp-server/bin/python\n"
            "from cli.entry import main\nraise SystemExit(main())\nEND\n"
            "useradd --system --home-dir /var/lib/amqp-server amqp-server\n"
            "install -D /dev/stdin /etc/amqp-server/environment <<'END'\n"
            "RABBITMQ_DEFAULT_USER=ops\nRABBITMQ_DEFAULT_PASS=secret\nEND\n"
            f"install --mode 0644 {SOURCE}/deploy/amqp-server.service /etc/systemd/system/\n"
            f"{SHORT_WATCHDOG}"
        )
        yield machine


@pytest.fixture
def started(machine: SystemdMachine) -> SystemdMachine:
    """Start the unit on an empty data directory."""
    machine.output(
        "systemctl stop amqp-server; systemctl reset-failed\n"
        "rm -rf /var/lib/amqp-server\nsystemctl start amqp-server"
    )
    return machine


def property_of(machine: SystemdMachine, name: str, unit: str = "amqp-server") -> str:
    return machine.output(f"systemctl show --property={name} --value {unit}").strip()


def wait_for_restart(machine: SystemdMachine, earlier: str) -> None:
    """Wait until the unit has another main process, and is active."""
    machine.output(
        "until systemctl is-active --quiet amqp-server && "
        f'[ "$(systemctl show --property=MainPID --value amqp-server)" != {earlier} ]; '
        "do sleep 0.1; done"
    )


def test_a_start_returns_when_clients_can_connect_and_a_stop_is_clean(
    started: SystemdMachine,
) -> None:
    address = started.output("ss --listening --tcp --numeric | grep --count ':5672 '")
    started.output("systemctl stop amqp-server")

    assert address == "1\n"
    assert property_of(started, "Result") == "success"
    assert property_of(started, "ExecMainStatus") == "0"
    # Its own processes must not get the signal: it would find one ended, and start it again.
    assert property_of(started, "KillMode") == "mixed"
    journal = started.output("journalctl --unit amqp-server --no-pager --output cat")
    assert "level=warning" not in journal
    assert "Traceback" not in journal


def test_the_data_directory_is_private_and_belongs_to_the_user(started: SystemdMachine) -> None:
    listed = started.output(
        "stat --format '%U %a' /var/lib/amqp-server /var/lib/amqp-server/metadata"
    )

    assert listed == "amqp-server 700\n" * 2


def test_a_killed_server_is_started_again(started: SystemdMachine) -> None:
    earlier = property_of(started, "MainPID")
    started.output("systemctl kill --signal=SIGKILL amqp-server")
    wait_for_restart(started, earlier)

    assert property_of(started, "NRestarts") == "1"
    journal = started.output("journalctl --unit amqp-server --no-pager --output cat")
    assert "status=9/KILL" in journal


def test_a_server_that_hangs_is_ended_and_started_again(started: SystemdMachine) -> None:
    earlier = property_of(started, "MainPID")
    started.output(f"kill -STOP {earlier}")
    wait_for_restart(started, earlier)

    journal = started.output("journalctl --unit amqp-server --no-pager --output cat")
    assert "Watchdog timeout" in journal


def test_a_mistake_in_the_settings_is_no_reason_to_start_again(started: SystemdMachine) -> None:
    started.output(
        "systemctl stop amqp-server\n"
        "echo AMQP_SERVER_HEARTBEAT=often >>/etc/amqp-server/environment"
    )
    refused = started.run("systemctl start amqp-server")
    state = property_of(started, "ActiveState"), property_of(started, "ExecMainStatus")
    started.output("sed -i /HEARTBEAT/d /etc/amqp-server/environment")

    assert refused.returncode != 0
    assert state == ("failed", "2")
    assert property_of(started, "NRestarts") == "0"
    assert "often" in started.output("journalctl --unit amqp-server --no-pager --output cat -n 5")


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_the_unit_of_exports_exports_with_all_of_its_protections(machine: SystemdMachine) -> None:
    machine.output(
        "systemctl stop amqp-server; systemctl reset-failed; rm -rf /var/lib/amqp-server\n"
        "install --directory --owner amqp-server --mode 0700 /var/lib/amqp-server\n"
        "cd /var/lib/amqp-server\n"
        f"runuser -u amqp-server -- /opt/amqp-server/bin/python -c '{STORE_QUEUE}'\n"
        f"install --mode 0644 {SOURCE}/deploy/{EXPORTS}.service /etc/systemd/system/\n"
        f"systemctl daemon-reload; systemctl start {EXPORTS}\n"
        f"until systemctl show --property=StatusText --value {EXPORTS} | grep --quiet 'round 1: '\n"
        "do sleep 0.1; done"
    )
    status = property_of(machine, "StatusText", EXPORTS)
    leases = machine.output("ls /var/lib/amqp-server/leases | wc --lines")
    machine.output(f"systemctl stop {EXPORTS}")

    journal = machine.output(f"journalctl --unit {EXPORTS} --no-pager --output cat")
    assert status.startswith("round 1: 20 messages of 1 queue in 1 file, "), journal
    assert leases == "1\n"
    assert property_of(machine, "Result", EXPORTS) == "success"
    assert property_of(machine, "ExecMainStatus", EXPORTS) == "0"
    assert "Traceback" not in journal
    assert machine.output("ls /var/lib/amqp-server/leases") == ""
    out = f"/var/lib/{EXPORTS}"
    machine.output(f"/opt/amqp-server/bin/amqp-server export verify --out {out}")
