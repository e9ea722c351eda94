"""`--load-definitions`: what a start imports before it listens."""

import json
from pathlib import Path
from typing import Any

import pytest

from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, connect
from tests.cli.test_definitions import DEFINITIONS, as_guest, as_shop, written
from tests.conftest import StartServer
from tests.servers import RunningServer


def vhosts(server: RunningServer) -> list[str]:
    return [each["name"] for each in ask(server.storage_path, "vhosts.list")]


def loading(tmp_path: Path, definitions: dict[str, Any]) -> RunningServer:
    path = written(tmp_path, definitions)
    return RunningServer(tmp_path / "data", "--load-definitions", str(path))


def test_a_new_directory_has_only_what_the_file_says(
    tmp_path: Path, start_server: StartServer
) -> None:
    definitions = {**DEFINITIONS, "vhosts": [{"name": "shop"}]}
    path = written(tmp_path, definitions)
    server = start_server("--load-definitions", str(path))
    for _ in range(2):
        assert vhosts(server) == ["shop"]
        with AmqpClient(server.address) as client:
            client.start(user="guest", password="guest")
            client.expect_connection_close(403)
        with as_shop(server) as client:
            client.declare("of the client")
        server.kill()
        # Nor does a later start add what is missing, with the option or without.
        server.options = ()
        server.restart()
    server.terminate()


def test_a_directory_with_data_gets_the_definitions_besides(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data").start() as server:
        with as_guest(server) as client:
            client.declare("old", durable=True)
        server.terminate()
        server.options = ("--load-definitions", str(written(tmp_path, DEFINITIONS)))
        server.restart()
        with as_guest(server) as client:
            assert client.ready_count("old") == 0
        as_shop(server).close()
        server.terminate()
        # What is there already is found equal, and what a client added stays.
        server.restart()
        as_shop(server).close()
        assert vhosts(server) == ["/", "shop"]


def test_a_directory_of_files_is_loaded(tmp_path: Path) -> None:
    files = tmp_path / "definitions"
    files.mkdir()
    written(files, {"vhosts": [{"name": "v"}]}, "1.json")
    written(files, {"queues": [{"name": "q", "vhost": "v"}]}, "2.json")
    with RunningServer(tmp_path / "data", "--load-definitions", str(files)).start() as server:
        assert ask(server.storage_path, "vhosts.list")[0]["queues"] == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ('{"queues": [{"name": "q", "vhost": "x"}], "vhosts": []}', "queues[0]: no vhost 'x'"),
        ('{"queues": [{"name": "q"}]}', "definitions of one vhost"),
        (None, "No such file"),
    ],
)
def test_a_mistake_stops_the_start_and_leaves_the_directory_new(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    with RunningServer(tmp_path / "data", "--load-definitions", str(path)) as server:
        server.begin()
        assert server.wait() == 2
        errors = [line for line in server.messages if "error: " in line]
        assert len(errors) == 1
        assert reason in errors[0]
        assert str(path) in errors[0]
        # The next start without the option makes a directory as if there had been none.
        server.options = ()
        server.restart()
        connect(server.address).close()
        assert vhosts(server) == ["/"]


def test_a_file_that_a_client_left_is_removed(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data").start() as server:
        server.terminate()
        left = server.storage_path / f"definitions-{'0' * 32}.lines"
        left.write_text(json.dumps([]))
        server.restart()
        assert not left.exists()
