"""A disk that hangs below a real server: it is seen, said, and ends when the disk goes on.

The limit is one second here. No test depends on how soon it is over: each waits for what must come.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pamqp.commands import Basic, Connection

from amqp_server.control.client import ask
from amqp_server.upkeep.disk_watch import EXIT_DISK_STALL
from cli.exit_codes import EXIT_TRY_AGAIN
from tests.amqp_client import AmqpClient, connect
from tests.deploy.test_service_manager import next_state, notices, variables
from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementOptions, ManagementServer
from tests.system.watched import CAN_BE_BLOCKED

if TYPE_CHECKING:
    from tests.conftest import StartServer
    from tests.disk.conftest import Disk, FrozenDisk, HangingDisk
    from tests.management.conftest import StartManagementServer
    from tests.servers import RunningServer

__all__ = ["notices"]

LIMIT = ("--disk-stall-limit", "1s", "--disk-free-limit", "0")
CHECK = "/api/health/checks/disk"
ALARMS = "/api/health/checks/local-alarms"
PERSISTENT = Basic.Properties(delivery_mode=2)


def until_check_is(server: ManagementServer, status: int, path: str = CHECK) -> dict[str, Any]:
    """Return the answer of a check when it has a status."""
    deadline = time.monotonic() + HANG_SECONDS
    while (reply := server.request("GET", path)).status != status:
        assert time.monotonic() < deadline, f"{path} stays {reply.status}: {reply.body!r}"
        time.sleep(0.02)
    found: dict[str, Any] = reply.json
    return found


def publish(client: AmqpClient, body: bytes) -> None:
    client.publish(body, "q", properties=PERSISTENT)


def until_ended(pid: int) -> None:
    """Return when a process has ended but for threads that wait for the disk."""
    status = Path(f"/proc/{pid}/status")
    deadline = time.monotonic() + HANG_SECONDS
    while "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline, "the process lives on"
        time.sleep(0.01)


def publisher(server: RunningServer) -> AmqpClient:
    """Return a client that publishes with confirms, and that an alarm may block."""
    client = connect(server.address, capabilities=CAN_BE_BLOCKED)
    client.open_channel(confirms=True)
    return client


def confirming(server: RunningServer) -> AmqpClient:
    """Return a client with a durable queue and one confirmed message in it.

    It gets no connection.blocked: a busy disk may take longer than the limit at any time.
    """
    client = connect(server.address)
    client.open_channel(confirms=True)
    client.declare("q", durable=True)
    publish(client, b"before")
    client.expect_confirmed()
    return client


def check_a_stall(server: ManagementServer, disk: Disk, operations: str) -> None:
    """Let a disk hang and go on, and check what everybody sees of it."""
    server.server.may_fail = True
    with confirming(server.server) as waiting, publisher(server.server) as other:
        # Twice, as a probe does: later the process of the API cannot open the control socket any
        # more, which is a file, and has the connections that were made before.
        for path in (CHECK, ALARMS) * 2:
            assert until_check_is(server, 200, path) == {"status": "ok"}
        disk.hang(operations)
        publish(waiting, b"during")

        failed = until_check_is(server, 503)
        assert str(failed["reason"]).startswith("The disk does not answer: ")
        # An orchestrator has no login.
        assert server.request("GET", CHECK, user=None).status == 503
        local = until_check_is(server, 503, ALARMS)
        assert [each["resource"] for each in local["alarms"]] == ["disk_stall"]
        line = server.server.wait_for_message("disk does not answer")
        assert str(disk.path) in line
        assert "operation=" in line
        publish(other, b"parked")
        assert other.expect(Connection.Blocked, 0).reason == "the disk does not answer"

        disk.go_on()
        server.server.wait_for_message("disk answers again")
        waiting.expect_confirmed()
        other.expect(Connection.Unblocked, 0)
        other.expect_confirmed()
        until_check_is(server, 200)
        assert waiting.ready_count("q") == 3
    assert server.server.terminate() == 0


@pytest.mark.parametrize("operations", ["fsync", "write", "all"])
def test_a_disk_that_hangs_is_seen_and_goes_on(
    hanging_disk: HangingDisk, start_management_server: StartManagementServer, operations: str
) -> None:
    server = start_management_server(*LIMIT, storage_path=hanging_disk.path / "data")
    check_a_stall(server, hanging_disk, operations)


def test_a_file_system_that_is_frozen_is_seen_and_goes_on(
    frozen_disk: FrozenDisk, start_management_server: StartManagementServer
) -> None:
    server = start_management_server(*LIMIT, storage_path=frozen_disk.path / "data")
    check_a_stall(server, frozen_disk, "all")


def test_interpreted_threads_are_watched_too(
    hanging_disk: HangingDisk, start_server: StartServer
) -> None:
    path = hanging_disk.path / "data"
    # Without checkpoints, which might hang first.
    options = (*LIMIT, "--offset-checkpoint-interval", "1h")
    server = start_server(*options, storage_path=path, interpreted=True)
    server.may_fail = True
    with confirming(server) as client:
        hanging_disk.hang("fsync")
        publish(client, b"during")
        server.wait_for_message("disk does not answer operation='pwritev'")
        hanging_disk.go_on()
        client.expect_confirmed()


def test_a_watchdog_is_fed_no_more(
    hanging_disk: HangingDisk, start_server: StartServer, notices: socket.socket
) -> None:
    environment = variables(notices, WATCHDOG_USEC="30000")
    path = hanging_disk.path / "data"
    server = start_server(*LIMIT, storage_path=path, environment=environment)
    server.may_fail = True
    assert next_state(notices)["READY"] == "1"
    with confirming(server) as client:
        hanging_disk.hang("fsync")
        publish(client, b"during")
        server.wait_for_message("disk does not answer")
        # The line may come before the event loop knows.
        deadline = time.monotonic() + HANG_SECONDS
        while ask(path, "probe")["alarms"] != ["disk_stall"]:
            assert time.monotonic() < deadline, "no alarm"
        notices.setblocking(False)
        while True:
            # What was sent before.
            try:
                notices.recv(4096)
            except BlockingIOError:
                break
        # Long enough for ten signs of life.
        notices.settimeout(0.3)  # short: ten signs of life would come
        with pytest.raises(TimeoutError):
            notices.recv(4096)

        notices.settimeout(HANG_SECONDS)
        hanging_disk.go_on()
        assert next_state(notices) == {"WATCHDOG": "1"}
        client.expect_confirmed()
    assert server.terminate() == 0


@pytest.mark.parametrize("operations", ["fsync", "all"])
def test_a_server_may_end_at_once(
    hanging_disk: HangingDisk, start_server: StartServer, operations: str
) -> None:
    """Its threads wait in the kernel, which keeps the process: clients must not wait with it."""
    path = hanging_disk.path / "data"
    limits = ("--disk-stall-limit", "3s", "--disk-free-limit", "0")
    options = (*limits, "--on-disk-stall", "exit", *ManagementOptions)
    server = start_server(*options, storage_path=path)
    server.may_fail = True
    line = server.wait_for_message("management server started")
    host, _, port = line.partition("urls='http://")[2].split()[0].partition("'")[0].partition(":")
    api = socket.create_connection((host, int(port)), HANG_SECONDS)
    with confirming(server) as client, api:
        hanging_disk.hang(operations)
        publish(client, b"during")

        client.expect_end()
        assert "note='the process ends'" in server.wait_for_message("disk does not answer")
        until_ended(server.pid)
        if operations == "fsync":
            # The process of the API has ended, too. It cannot while the control socket hangs.
            assert api.recv(1) == b""
    hanging_disk.go_on()
    assert server.wait() == EXIT_DISK_STALL

    # What was confirmed is there; the message of the hung write may be.
    with server.restart(), connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("q") in (1, 2)


def test_another_server_ends_in_one_line_while_syncs_hang(
    hanging_disk: HangingDisk, start_server: StartServer
) -> None:
    path = hanging_disk.path / "data"
    server = start_server(*LIMIT, storage_path=path)
    server.may_fail = True
    hanging_disk.hang("fsync")
    with subprocess.Popen(
        [sys.executable, "-m", "amqp_server", "--port", "0", "--management-port", "0"],
        env={**os.environ, "AMQP_SERVER_STORAGE_PATH": str(path)},
        stderr=subprocess.DEVNULL,
    ) as other:
        try:
            assert other.wait(HANG_SECONDS) == EXIT_TRY_AGAIN
        finally:
            # Before the kill: what waits for a disk cannot be killed.
            hanging_disk.go_on()
            other.kill()
