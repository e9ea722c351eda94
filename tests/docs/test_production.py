"""The page on production: its commands run in their order, on a machine with systemd."""

import re
import shutil
from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from cli import unit_costs as costs
from tests.built_package import built
from tests.deploy.systemd_machine import (
    PACKAGES,
    PYTHON,
    SOURCE,
    SystemdMachine,
    started_machine,
    what_is_missing,
)
from tests.docs.code_blocks import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "production.md"
WHEELS: Final = "/var/tmp/amqp-server"
DIRECTORY: Final = "/run/directory"


def sections() -> dict[str, str]:
    """Return the text of each section by its title, in their order."""
    parts = re.split(r"^## \d+\. (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(section: str) -> list[tuple[str, str]]:
    """Return the language and the text of the section's blocks of code."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def run_block(machine: SystemdMachine, language: str, text: str) -> str:
    if language == "sh":
        # A reader has one shell: the next block begins where this one ends.
        return machine.output(f'cd "$(cat {DIRECTORY})"\n{text}\npwd >{DIRECTORY}')
    assert language == "python", language
    return machine.output(f"/opt/amqp-server/bin/python - <<'END'\n{text}\nEND")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdMachine]:
    """Start a machine with the wheel of this checkout, a disk for back-ups, and no index."""
    if missing := what_is_missing():
        pytest.skip(missing)
    wheel = built("wheel", tmp_path_factory)
    with started_machine() as machine:
        machine.outside(WHEELS).mkdir(parents=True)
        shutil.copy(wheel, machine.outside(WHEELS))
        machine.output(
            # The Python of this run, for which the wheel is.
            "install /dev/stdin /usr/local/bin/python3 <<'END'\n"
            f'#!/bin/sh\nexec {PYTHON} "$@"\nEND\n'
            "install -D /dev/stdin /etc/pip.conf <<'END'\n"
            "[global]\nno-index = true\nno-deps = true\ndisable-pip-version-check = true\nEND\n"
            "rm -rf /var/lib/amqp-server /opt/amqp-server /etc/amqp-server\n"
            "mkdir --parents /var/backups/amqp-server\n"
            "mount -t tmpfs tmpfs /var/backups/amqp-server\n"
            f"echo {SOURCE} >{DIRECTORY}\n"
        )
        yield machine


@pytest.mark.timeout(900)
def test_every_command_of_the_page_runs_in_its_order(machine: SystemdMachine) -> None:
    printed: dict[str, str] = {}
    for title, section in sections().items():
        for language, text in blocks(section):
            if language == "text":
                lines = printed[title].splitlines()
                for line in text.splitlines():
                    assert any(each.startswith(line) for each in lines), line
                continue
            output = run_block(machine, language, text)
            printed[title] = printed.get(title, "") + output
            if "bin/pip install /var" in text:
                install_dependencies(machine)

    assert "restore drill passed: 2 queues, 1 messages" in printed["Back-up"]
    assert "interpreted" not in printed["Install"]
    assert "compiled" in printed["Install"]
    assert "one order" in printed["Rehearse"]
    assert "rabbitmq_alarms_memory_used_watermark 0" in printed["Alerts"]
    # From the back-up, beside what was there before.
    restored = machine.output("amqp-server stats --vhost orders --json")
    assert [name in restored for name in ("shop.new", "shop.failed")] == [True, True]
    machine.output("test -d /var/lib/amqp-server.before-*/logs")
    assert machine.output("systemctl is-active amqp-server") == "active\n"
    assert machine.output("amqp-server users list | grep guest || true") == ""
    assert machine.output("systemctl --failed --no-legend") == ""


def install_dependencies(machine: SystemdMachine) -> None:
    """Let the environment of the page find the dependencies of this one: there is no index."""
    machine.output(f"echo {PACKAGES} >$(echo /opt/amqp-server/lib/python*/site-packages)/with.pth")


def test_the_costs_are_those_of_the_command() -> None:
    table = sections()["Size"]
    octets = (
        *(costs.CONNECTION_BYTES, costs.SOCKET_BYTES, costs.QUEUE_BYTES, costs.STORED_QUEUE_BYTES),
        *(costs.RING_MESSAGE_BYTES, costs.WAITING_MESSAGE_BYTES, costs.STORED_MESSAGE_BYTES),
    )
    assert [f"{each:,} B" for each in octets if f"{each:,} B" not in table] == []
    times = (costs.WINDOW_US, costs.CONFIRM_EACH_US, costs.DELIVERY_US, costs.HEARTBEAT_US)
    assert [f"{each} us" for each in times if f"{each} us" not in table] == []
    empty = costs.BROKER_BYTES // costs.MIB, costs.MANAGEMENT_BYTES // costs.MIB
    assert "{} MiB + {} MiB".format(*empty) in table
    assert f"{costs.OTHER_FILES + costs.CACHED_FILES} |" in table
    day = 86_400 * (1024 + costs.HEADER_BYTES + costs.STORED_MESSAGE_BYTES)
    assert f"{round(day / 1e6)} MB" in table


def test_the_page_names_ten_alerts_that_exist() -> None:
    groups = yaml.safe_load((REPOSITORY / "docs" / "monitoring" / "alerts.yml").read_text())
    alerts = {
        rule["alert"]: rule["labels"]["severity"]
        for group in groups["groups"]
        for rule in group["rules"]
    }
    named = re.findall(r"^\| `(\w+)` \|", sections()["Alerts"], re.MULTILINE)

    assert len(named) == 10
    assert [alerts[name] for name in named] == ["critical"] * 4 + ["warning"] * 6
