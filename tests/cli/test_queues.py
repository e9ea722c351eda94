"""`amqp-server queues` against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pamqp.commands import Basic

from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        yield connected


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(("queues", *arguments))
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def test_a_queue_is_paused_and_resumed(
    capsys: pytest.CaptureFixture[str], client: AmqpClient
) -> None:
    client.declare("q")
    assert run(capsys, "pause", "q") == "queue 'q' is paused\n"
    assert run(capsys, "pause", "q") == "queue 'q' was already paused\n"
    client.publish(b"x", "q")
    client.expect(Basic.Ack)
    assert client.get("q") is None
    assert run(capsys, "resume", "q") == "queue 'q' is running\n"
    assert client.get("q") is not None


def test_who_holds_messages_is_a_table_or_json(
    capsys: pytest.CaptureFixture[str], client: AmqpClient
) -> None:
    client.declare("q")
    for _ in range(3):
        client.publish(b"x", "q")
        client.expect(Basic.Ack)
    client.consume("q", prefetch=2)
    for _ in range(2):
        delivery = client.expect_delivery().method
    assert isinstance(delivery, Basic.Deliver)
    assert client.get("q", no_ack=False) is not None
    header, held, got = run(capsys, "unacked", "q").splitlines()
    assert header.split() == ["SECONDS", "MESSAGES", "FROM", "TO", "CHANNEL", "CONSUMER"]
    assert held.split()[1:4] == ["2", "0", "1"]
    assert held.endswith(f" (1)  {delivery.consumer_tag}")
    assert got.split()[1:4] == ["1", "2", "2"]
    assert got.endswith(" (1)  -")
    rows = [json.loads(line) for line in run(capsys, "unacked", "q", "--json").splitlines()]
    assert [row["count"] for row in rows] == [2, 1]


def test_dead_letters_are_returned(capsys: pytest.CaptureFixture[str], client: AmqpClient) -> None:
    client.declare("dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("origin", arguments=letters)
    for body in (b"1", b"2"):
        client.publish(body, "origin")
        client.expect(Basic.Ack)
        message = client.get("origin", no_ack=False)
        assert message is not None
        client.send(Basic.Reject(message.tag, requeue=False))
    client.publish(b"none", "dead")
    client.expect(Basic.Ack)
    while client.ready_count("dead") < 3:
        pass
    counted = run(capsys, "return-dead-letters", "dead", "--dry-run")
    assert counted.startswith("would return 2 messages, ")
    done = run(capsys, "return-dead-letters", "dead").splitlines()
    assert done[0].startswith("returned 2 messages, ")
    assert done[1:] == ["  2 to origin", "  1 stay: they have no death in their headers"]
    assert client.ready_count("origin") == 2


def test_messages_are_moved(capsys: pytest.CaptureFixture[str], client: AmqpClient) -> None:
    for name in ("full", "spare"):
        client.declare(name)
    for body in (b"1", b"2", b"3"):
        client.publish(body, "full")
        client.expect(Basic.Ack)
    counted = run(capsys, "move", "full", "--to", "spare", "--dry-run")
    assert counted.startswith("would move 3 messages, ")
    assert run(capsys, "move", "full", "--to", "spare", "--limit", "2").endswith(", to spare\n")
    assert client.ready_count("spare") == 2
    done = json.loads(run(capsys, "move", "full", "--to", "spare", "--from", "2", "--json"))
    assert (done["moved"], done["next"]) == (1, 3)
    assert main(("queues", "move", "none", "--to", "spare")) == 1
    assert capsys.readouterr().err == "amqp-server: error: no queue 'none' in vhost '/'\n"


@pytest.mark.parametrize("what", ["pause", "resume", "unacked", "return-dead-letters"])
def test_a_missing_queue_is_one_line(capsys: pytest.CaptureFixture[str], what: str) -> None:
    assert main(("queues", what, "none")) == 1
    assert capsys.readouterr().err == "amqp-server: error: no queue 'none' in vhost '/'\n"
