"""The process of the management server: it starts, dies and ends without the broker's noticing."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
import time
from contextlib import suppress
from multiprocessing.connection import wait as wait_for
from pathlib import Path

import pytest
from click.testing import CliRunner
from pamqp.body import ContentBody
from pamqp.commands import Basic

from amqp_server.children.child_process import WORKED_WAIT_SECONDS_MAX
from amqp_server.control.client import ask
from amqp_server.management.priority import NICENESS
from cli.status import status
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.management.conftest import (
    ManagementOptions,
    ManagementServer,
    StartManagementServer,
)
from tests.servers import RunningServer
from tests.tls.certificates import Authority

KILLS = int(os.environ.get("MANAGEMENT_KILLS", "4"))
pytestmark = pytest.mark.timeout(300 + 10 * KILLS)
"""Other programs begin in these tests, which takes long on a busy machine."""


def wait_for_end(process_id: int, descriptor: int) -> None:
    """Return when a process has ended."""
    ready = wait_for([descriptor], HANG_SECONDS)
    os.close(descriptor)
    assert ready, f"process {process_id} has not ended"


class Traffic:
    """A publisher with confirms and a consumer that goes on until they are stopped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_ending = threading.Event()
        self._error: BaseException | None = None
        self.count = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def reaches(self, count: int) -> None:
        """Return when so many messages came through."""
        while self.count < count:
            assert self._thread.is_alive(), self._error
            time.sleep(0.005)

    def _run(self) -> None:
        try:
            with connect(("127.0.0.1", self._port)) as client:
                client.open_channel(1, confirms=True)
                client.open_channel(2)
                client.declare("work")
                client.consume("work", prefetch=10, channel=2)
                while not self._is_ending.is_set():
                    client.publish(b"%d" % self.count, "work")
                    found = {}
                    for _ in range(2):
                        channel, frame = client.receive()
                        found[channel] = frame
                        if isinstance(frame, Basic.Deliver):
                            client.receive()
                            _, body = client.receive()
                            assert isinstance(body, ContentBody)
                            assert body.value == b"%d" % self.count, "in order, and each once"
                            assert not frame.redelivered
                            client.send(Basic.Ack(frame.delivery_tag or 0), 2)
                    assert isinstance(found[1], Basic.Ack)
                    self.count += 1
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            self._error = error


def test_clients_see_nothing_of_its_deaths(management_server: ManagementServer) -> None:
    broker = management_server.server
    with Traffic(management_server.amqp_port) as traffic:
        for number in range(KILLS):
            before = traffic.count
            os.kill(management_server.process_id, signal.SIGKILL)
            broker.wait_for_message(f"started starts={number + 2} ")
            assert management_server.get("/api/overview").status == 200
            (queue,) = management_server.get("/api/queues").json
            assert queue["name"] == "work"
            traffic.reaches(before + 1)

    warned = [line for line in broker.messages if "management server ended" in line]
    assert len(warned) == KILLS
    assert all("reason='signal 9'" in line for line in warned)
    waits = {float(line.rpartition(" in ")[2].split()[0]) for line in warned}
    assert max(waits) <= WORKED_WAIT_SECONDS_MAX
    print(f"{KILLS} kills, {traffic.count} messages, each once and in order")


def test_its_priority_is_below_that_of_the_broker(management_server: ManagementServer) -> None:
    # Threads that compress answers as well: each has a priority of its own.
    headers = {"Accept-Encoding": "gzip"}
    assert management_server.get("/api/exchanges", headers=headers).status == 200
    process_id = management_server.process_id
    broker = os.getpriority(os.PRIO_PROCESS, management_server.server.pid)
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        assert os.getpriority(os.PRIO_PROCESS, int(thread.name)) == min(broker + NICENESS, 19)
        assert os.sched_getscheduler(int(thread.name)) == os.SCHED_BATCH
    assert os.sched_getscheduler(management_server.server.pid) == os.SCHED_OTHER


def test_signals_of_its_group_are_for_the_broker(management_server: ManagementServer) -> None:
    process_id = management_server.process_id
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(process_id, number)

    assert management_server.get("/api/overview").status == 200
    assert management_server.process_id == process_id


def test_a_service_manager_that_ends_all_processes_at_once_warns_nobody(
    management_server: ManagementServer,
) -> None:
    """It sends SIGTERM to the management server as well, which ends in good order."""
    os.kill(management_server.process_id, signal.SIGTERM)

    line = management_server.server.wait_for_message("management server ended")
    assert "reason='it was told to'" in line
    assert "level=info" in line


def test_a_client_waits_while_it_starts_again(management_server: ManagementServer) -> None:
    os.kill(management_server.process_id, signal.SIGKILL)

    assert management_server.get("/api/overview").status == 200


def test_it_ends_with_the_broker(management_server: ManagementServer) -> None:
    process_id = management_server.process_id
    descriptor = os.pidfd_open(process_id)

    assert management_server.server.terminate() == 0

    wait_for_end(process_id, descriptor)


def test_it_ends_with_a_broker_that_is_killed_even_while_it_hangs(
    management_server: ManagementServer,
) -> None:
    process_id = management_server.process_id
    descriptor = os.pidfd_open(process_id)
    os.kill(process_id, signal.SIGSTOP)

    management_server.server.kill()

    wait_for_end(process_id, descriptor)


def test_a_broker_stops_while_it_hangs(management_server: ManagementServer) -> None:
    process_id = management_server.process_id
    descriptor = os.pidfd_open(process_id)
    os.kill(process_id, signal.SIGSTOP)

    assert management_server.server.terminate() == 0

    wait_for_end(process_id, descriptor)


def test_a_taken_default_port_is_a_warning(start_server: StartServer) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # If another program of this machine has it, it is taken as well.
        with suppress(OSError):
            other.bind(("127.0.0.1", 15672))
            other.listen()
        server = start_server(environment={"AMQP_SERVER_MANAGEMENT_PORT": ""})

    line = server.wait_for_message("management waits for its port")
    assert "127.0.0.1:15672" in line
    with connect(server.address) as client:
        client.open_channel()


def taken_port() -> socket.socket:
    """Return a socket that listens, as another process on this machine would."""
    return socket.create_server(("127.0.0.1", 0))


@pytest.mark.parametrize("purpose", ["management", "metrics"])
def test_a_taken_port_is_served_when_it_becomes_free(purpose: str, tmp_path: Path) -> None:
    other = taken_port()
    port = other.getsockname()[1]
    options = ("--management-port", "0", "--metrics-port", "0", f"--{purpose}-port", str(port))
    with other, RunningServer(tmp_path / "data", *options) as server:
        server.start()

        line = server.wait_for_message(f"{purpose} waits for its port")
        assert f"address='127.0.0.1:{port}' reason='Address already in use'" in line
        assert f"--{purpose}-port" in line
        with connect(server.address) as client:
            client.open_channel()
        found = ask(tmp_path / "data", "status")["management"]
        (waiting,) = found["waiting"]
        assert waiting["port"] == port
        assert waiting["reason"] == "Address already in use"
        assert (found["urls"], found["metrics_urls"], found["starts"]) == ([], [], 0)

        other.close()

        assert str(port) in server.wait_for_message("management server started starts=1")
        found = ask(tmp_path / "data", "status")["management"]
        assert found["waiting"] == []
        assert len(found["urls"] + found["metrics_urls"]) == 1
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert client.makefile("rb").readline().startswith(b"HTTP/1.1 ")


def test_a_server_that_serves_one_port_serves_another_when_it_becomes_free(tmp_path: Path) -> None:
    with taken_port() as other:
        port = other.getsockname()[1]
        options = ("--management-port", str(port), "--metrics-port", "-1")
        with RunningServer(tmp_path / "data", *options) as server:
            server.start()
            server.wait_for_message("management server started starts=1")

            other.close()

            line = server.wait_for_message("management server started starts=2")
            assert f"http://127.0.0.1:{port}" in line
            assert "/metrics" in line
            assert server.terminate() == 0


def test_a_server_stops_while_a_port_is_taken(tmp_path: Path) -> None:
    with taken_port() as other:
        port = str(other.getsockname()[1])
        with RunningServer(tmp_path / "data", "--management-port", port) as server:
            server.start()
            server.wait_for_message("management waits for its port")

            assert server.terminate() == 0


def test_the_command_status_names_a_taken_port(tmp_path: Path) -> None:
    with taken_port() as other:
        port = str(other.getsockname()[1])
        with RunningServer(tmp_path / "data", "--management-port", port) as server:
            server.start()
            server.wait_for_message("management waits for its port")

            done = CliRunner().invoke(status, ["--storage-path", str(tmp_path / "data")])

    assert f"management: waits for port {port} of 127.0.0.1: Address already in use" in done.output


def test_a_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "none.pem"
    options = ("--management-tls-certificate", str(path))
    with RunningServer(tmp_path / "data", *options) as server:
        server.begin()
        code = server.wait()

    assert code == 2
    reason = f"cannot read the TLS certificate {path}: No such file or directory"
    assert server.messages == [f"amqp-server: error: {reason} (for the management server)\n"]


def test_a_port_for_tls_without_a_certificate_stops_the_start(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "--management-tls-port", "15999") as server:
        server.begin()
        code = server.wait()

    assert code == 2
    (message,) = server.messages
    assert "port 15999 for management with TLS: there is no certificate" in message
    assert "--management-tls-certificate" in message


def test_a_port_for_tls_needs_no_plain_port(tmp_path: Path) -> None:
    pair = Authority(tmp_path).server_pair()
    options = ("--management-port", "0", "--management-tls-port", "-1")
    with RunningServer(tmp_path / "data", *pair.options, *options) as server:
        server.start()
        line = server.wait_for_message("management server started")

    assert "https://" in line
    assert "http://" not in line


def test_without_a_port_there_is_none(server: RunningServer) -> None:
    server.wait_for_message("page: none (--management-port 0)")
    assert not any("management server" in line for line in server.messages)


def test_it_serves_with_few_open_files(start_server: StartServer) -> None:
    """The limit of its process is below what all its clients need."""
    server = ManagementServer(start_server(*ManagementOptions, open_files=1024))
    assert server.get("/api/overview").status == 200
    assert server.ask("status")["management"]["starts"] == 1


def test_the_status_shows_where_it_is(management_server: ManagementServer) -> None:
    found = management_server.ask("status")["management"]

    assert found["urls"] == [management_server.url]
    assert found["metrics_urls"] == [management_server.metrics_url]
    assert found["is_serving"]
    assert found["starts"] == 1


def test_settings_and_passwords_are_not_in_its_environment_nor_on_its_command_line(
    management_server: ManagementServer,
) -> None:
    process = Path(f"/proc/{management_server.process_id}")

    assert b"AMQP_SERVER_" not in (process / "environ").read_bytes()
    arguments = (process / "cmdline").read_bytes().split(b"\0")[1:]
    assert arguments == [b"-P", b"-m", b"amqp_server.management", b""]


@pytest.mark.parametrize("has_own", [False, True])
def test_it_speaks_tls_with_the_certificate_of_the_broker_or_its_own(
    has_own: bool, start_management_server: StartManagementServer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pair = authority.server_pair()
    options = ["--management-tls-port", "-1"]
    if has_own:
        options += ["--management-tls-certificate", str(pair.certificate)]
        options += ["--management-tls-key", str(pair.key)]
    else:
        options += pair.options
    server = start_management_server(*options)
    line = server.server.wait_for_message("management server started")
    url = next(word for word in line.split() if word.startswith("https://"))
    port = int(url.rstrip("'").rpartition(":")[2])
    trust = ssl.create_default_context(cafile=str(authority.path))

    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trust.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.sendall(b"GET /api/version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        answer = client.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 200 OK")


def test_with_tls_only_there_is_no_plain_port(start_server: StartServer, tmp_path: Path) -> None:
    pair = Authority(tmp_path).server_pair()
    with RunningServer(
        tmp_path / "data",
        *pair.options,
        "--tls-only",
        "--management-port",
        "-1",
        "--management-tls-port",
        "-1",
    ) as server:
        server.begin()
        line = server.wait_for_message("management server started")

    assert "https://" in line
    assert "http://" not in line
