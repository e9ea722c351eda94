"""What a server tells the person who has started it: four lines behind `listening on`."""

import json
import socket
from pathlib import Path

import pytest

from amqp_server import __version__
from tests.servers import RunningServer


def greeting(server: RunningServer, login: str = "user guest, ") -> list[str]:
    """Start a server, and return the four lines as they stand in its log."""
    server.start()
    last = server.wait_for_message(f"log in: {login}")
    end = server.messages.index(last) + 1
    return [line.rstrip("\n") for line in server.messages[end - 4 : end]]


def test_a_first_start_tells_what_runs_where_the_data_is_the_page_and_how_to_log_in(
    tmp_path: Path,
) -> None:
    with RunningServer(tmp_path / "data", "--management-port", "-1") as server:
        server_line, data, page, login = greeting(server)

        assert server_line == f"amqp-server {__version__}: amqp://127.0.0.1:{server.port}"
        assert data == f"data: {tmp_path}/data (new)"
        assert page.startswith("page: http://127.0.0.1:")
        assert login == "log in: user guest, password guest, from this machine only"
        # Above them is the line that programs wait for.
        assert server.messages[0] == f"listening on 127.0.0.1:{server.port}\n"


def test_a_second_start_promises_no_password_that_may_have_been_changed(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        greeting(server)
        server.terminate()
        server.messages.clear()
        _, data, page, login = greeting(server)

        assert data == f"data: {tmp_path}/data (0 queues)"
        assert page == "page: none (--management-port 0)"
        expected = "user guest, password guest unless it was changed, from this machine only"
        assert login == f"log in: {expected}"


@pytest.mark.parametrize(
    ("names", "login"),
    [
        ([], "nobody can yet: amqp-server users add NAME --tags administrator"),
        (["eva"], "user eva"),
        (["eva\u202e\n"], "user eva\ufffd\ufffd"),
        (["eva", "tom"], "one of 2 users (amqp-server users list)"),
        (
            ["guest", "eva"],
            "user guest, password guest unless it was changed; or another of 2 users",
        ),
    ],
)
def test_who_may_log_in_is_told_as_it_is(tmp_path: Path, names: list[str], login: str) -> None:
    users = [{"name": name, "password_hash": "", "tags": []} for name in names]
    document = {
        "vhosts": [{"name": "/"}],
        "users": users,
        "queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {}}],
    }
    (tmp_path / "definitions.json").write_text(json.dumps(document))
    options = ("--load-definitions", str(tmp_path / "definitions.json"))
    with RunningServer(tmp_path / "data", *options, "--guest-from-anywhere") as server:
        lines = greeting(server, login)

        assert lines[3] == f"log in: {login}"
        assert lines[1].endswith("/data (new)")


def test_the_password_of_the_settings_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("very secret")
    options = ("--default-pass-file", str(tmp_path / "password"))
    with RunningServer(tmp_path / "data", *options) as server:
        *_, login = greeting(server)

        assert login == "log in: user guest, the password of the settings, from this machine only"
        assert "secret" not in "".join(server.messages)


def test_other_back_ends_decide_where_they_are_alone(tmp_path: Path) -> None:
    options = ["--auth-backends", "http"]
    for name in ("user", "vhost", "resource", "topic"):
        options += [f"--auth-http-{name}-path", f"http://127.0.0.1:9/{name}"]
    with RunningServer(tmp_path / "data", *options) as server:
        *_, login = greeting(server, "as ")

        assert login == "log in: as http decides (--auth-backends)"


def test_every_interface_is_an_address_that_a_client_can_use(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--management-port", "-1")
    with RunningServer(tmp_path / "data", *options) as server:
        first, _, page, _ = greeting(server)

        address = f"amqp://localhost:{server.port} (and this machine's other addresses)"
        assert first == f"amqp-server {__version__}: {address}"
        assert page.startswith("page: http://localhost:")


def test_a_page_whose_port_another_process_has_is_not_there_yet(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with RunningServer(tmp_path / "data", "--management-port", port) as server:
            _, _, page, _ = greeting(server)

            assert page == f"page: not yet, port {port}: Address already in use"


def test_who_wants_warnings_only_is_told_nothing_else(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "--log-level", "warning") as server:
        server.start()
        assert server.terminate() == 0

        assert server.messages == [f"listening on 127.0.0.1:{server.port}\n"]


def test_json_logs_have_it_as_one_event(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "--log-format", "json") as server:
        server.begin()
        line = server.wait_for_message('"event":"ready"')

        fields = json.loads(line)["fields"]
        assert fields["data"] == f"{tmp_path}/data (new)"
        assert fields["login"] == "user guest, password guest, from this machine only"
        assert set(fields) == {"server", "data", "page", "login"}
