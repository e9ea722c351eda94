"""`amqp-server checkpoint` and SIGUSR1 against a real server."""

import json
import re
import signal
from pathlib import Path

import pytest

from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer


@pytest.fixture
def server(start_server: StartServer, clean_environment: pytest.MonkeyPatch) -> RunningServer:
    server = start_server("--offset-checkpoint-interval", "0")
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))
    return server


def settle(server: RunningServer, count: int) -> None:
    """Settle the first messages of a queue that holds one more."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(count + 1):
            client.publish(str(number).encode(), "q")
            client.expect_confirmed()
        for _ in range(count):
            assert client.get("q") is not None


def left(client: AmqpClient) -> list[bytes]:
    found = []
    while (message := client.get("q")) is not None:
        found.append(message.body)
    return found


def expect_settled(server: RunningServer, count: int) -> None:
    server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        assert left(client) == [str(count).encode()]


def test_what_was_settled_before_the_command_does_not_come_back(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    settle(server, 3)
    assert main(["checkpoint"]) == 0
    page = capsys.readouterr().out
    assert re.fullmatch(
        r"checkpoint of 1 queues, \d+ bytes, in generation \d+, after 0\.\d{3} s\n", page
    )
    expect_settled(server, 3)


def test_it_says_what_it_wrote_for_programs(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    settle(server, 1)
    assert main(["checkpoint", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["queues"], done["generation"]) == (1, 1)
    assert done["bytes"] > 48
    assert done["seconds"] > 0
    assert main(["checkpoint", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["queues"], again["bytes"], again["generation"]) == (0, 0, 1)


def test_without_a_server_it_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "--storage-path", str(tmp_path)]) == 2
    assert "no server is running" in capsys.readouterr().err


def test_a_signal_has_one_written(server: RunningServer) -> None:
    settle(server, 2)
    server.signal(signal.SIGUSR1)
    assert "queues=1 " in server.wait_for_message("checkpoint written")
    expect_settled(server, 2)
