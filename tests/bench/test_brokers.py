"""Brokers that do not start."""

import os
import socket
import sys
from pathlib import Path

import pytest

from bench import rabbitmq
from bench.errors import BrokerStartError
from bench.rabbitmq import free_ports, start_rabbitmq
from bench.running_broker import server_process, wait_until_ready
from tests.limits import HANG_SECONDS


def test_a_broker_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq, "_SERVER_SCRIPTS", ("no-such-program",))

    with (
        pytest.raises(BrokerStartError, match="no-such-program is not installed"),
        start_rabbitmq("rabbitmq", tmp_path),
    ):
        pass


def test_the_system_gives_free_ports_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        given = other.getsockname()[1]
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as taken:
        used = taken.getsockname()[1]
        monkeypatch.setattr(rabbitmq, "_PORTS", range(used, used + 50))
        found = free_ports(20)

    assert used < given
    assert used not in found
    assert len(set(found)) == 20


def test_a_server_that_ends_while_it_starts_is_reported_with_its_output(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    command = [sys.executable, "-c", "raise SystemExit('the port is taken')"]

    with (
        server_process("it", command, os.environ, output, tmp_path) as process,
        pytest.raises(BrokerStartError, match="exit status 1: the port is taken"),
    ):
        wait_until_ready("it", process, output, lambda: None, seconds_max=HANG_SECONDS)


def test_a_server_is_stopped_at_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()"]

    with server_process("it", command, os.environ, tmp_path / "out", tmp_path) as process:
        pass

    assert process.returncode is not None
