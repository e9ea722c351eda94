"""A real server tells a service manager, over a real socket, that it is ready, lives and stops."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.service_manager import ServiceManager
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS


@pytest.fixture
def notices(tmp_path: Path) -> Iterator[socket.socket]:
    """Listen as the service manager does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(HANG_SECONDS)
        yield receiver


def next_state(receiver: socket.socket) -> dict[str, str]:
    """Return the variables of the next datagram."""
    lines = receiver.recv(4096).decode().split("\n")
    return dict(line.split("=", 1) for line in lines)


def variables(receiver: socket.socket, **others: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": receiver.getsockname(), **others}


def test_a_server_reports_ready_when_clients_can_connect_and_its_stop(
    start_server: StartServer, notices: socket.socket, tmp_path: Path
) -> None:
    server = start_server(environment=variables(notices))

    state = next_state(notices)
    assert state == {"READY": "1", "STATUS": f"listening on {server.host}:{server.port}"}
    with connect(server.address):
        pass
    assert server.terminate() == 0
    assert next_state(notices) == {"STOPPING": "1", "STATUS": "stopping"}
    notices.setblocking(False)
    with pytest.raises(BlockingIOError):
        notices.recv(1)


def test_a_server_sends_signs_of_life_while_its_loop_turns(
    start_server: StartServer, notices: socket.socket
) -> None:
    server = start_server(environment=variables(notices, WATCHDOG_USEC="30000"))

    assert next_state(notices)["READY"] == "1"
    for _ in range(5):
        assert next_state(notices) == {"WATCHDOG": "1"}
    assert server.terminate() == 0


def test_a_server_without_a_watchdog_says_so(
    start_server: StartServer, notices: socket.socket
) -> None:
    server = start_server(environment=variables(notices))

    assert "WatchdogSec" in server.wait_for_message("no watchdog")
    assert server.terminate() == 0


def test_a_watchdog_of_another_process_gets_nothing(
    start_server: StartServer, notices: socket.socket
) -> None:
    server = start_server(environment=variables(notices, WATCHDOG_USEC="1000", WATCHDOG_PID="1"))

    assert next_state(notices)["READY"] == "1"
    assert server.terminate() == 0
    assert "STOPPING" in next_state(notices)


def test_a_server_works_without_the_service_manager_that_started_it(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server(environment={"NOTIFY_SOCKET": str(tmp_path / "absent")})

    server.wait_for_message("service manager not reached what='READY'")
    with connect(server.address):
        pass
    assert server.terminate() == 0


def test_processes_of_the_server_do_not_inherit_the_socket(tmp_path: Path) -> None:
    environment = {
        "NOTIFY_SOCKET": str(tmp_path / "socket"),
        "WATCHDOG_USEC": "5",
        "WATCHDOG_PID": str(os.getpid()),
        "PATH": "/bin",
    }
    ServiceManager.of(environment)

    assert environment == {"PATH": "/bin"}


def test_an_abstract_socket_is_one_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("")  # the kernel chooses an abstract name
        receiver.settimeout(HANG_SECONDS)
        name = receiver.getsockname()[1:].decode()
        ServiceManager.of({"NOTIFY_SOCKET": f"@{name}"}).ready("listening")

        assert next_state(receiver) == {"READY": "1", "STATUS": "listening"}
