"""Damaged documents of users and permissions give nobody anything, and stop nothing else."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.access.passwords import PasswordHash
from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, ConnectionLostError, connect
from tests.threaded_server import ThreadedServer

KINDS = ("access", "permissions", "topic_permissions", "users")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with a second user, who may read only, and a message."""
    path = tmp_path_factory.mktemp("whole") / "data"
    stored = PasswordHash.quick(b"secret")
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"kept", "q")
        client.expect_confirmed()
        ask(
            path,
            "users.add",
            name="reader",
            password_hash=stored.text,
            hashing_algorithm=stored.algorithm,
            tags=[],
        )
        row = {"vhost": "/", "user": "reader"}
        ask(path, "permissions.set", **row, configure="^$", write="^$", read=".*")
        ask(path, "topic_permissions.set", **row, exchange="amq.topic", write="^$", read="^$")
    return path


def documents(path: Path) -> list[Path]:
    found = [each for kind in KINDS for each in sorted(path.glob(f"metadata/{kind}/*/*.json"))]
    assert len(found) == 6
    return found


def logged_in(server: ThreadedServer, user: str, password: str) -> AmqpClient | None:
    try:
        return connect(server.address, user=user, password=password)
    except (ConnectionLostError, AssertionError):
        return None


def expect_no_more_rights(server: ThreadedServer) -> None:
    client = logged_in(server, "reader", "secret")
    if client is None:
        return
    with client:
        client.open_channel()
        client.publish(b"forged", "q")
        client.expect_channel_close(403)
        client.open_channel()
        client.publish(b"forged", "k", "amq.topic")
        client.expect_channel_close(403)


def expect_messages_after_a_reset(server: ThreadedServer, path: Path) -> None:
    stored = PasswordHash.quick(b"again")
    ask(
        path,
        "users.reset",
        name="guest",
        password_hash=stored.text,
        hashing_algorithm=stored.algorithm,
    )
    with connect(server.address, password="again") as client:
        client.open_channel()
        assert client.ready_count("q") == 1


def damages(content: bytes) -> Iterator[bytes]:
    """Yield the content with damage: cut, empty, another one, and flipped at many places."""
    yield content[: len(content) // 2]
    yield b""
    yield b"{}"
    yield content + b"x"
    for at in range(0, len(content), max(len(content) // 12, 1)):
        yield content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_document_gives_nobody_more_rights(
    whole: Path, tmp_path: Path, number: int
) -> None:
    original = documents(whole)[number]
    for at, content in enumerate(damages(original.read_bytes())):
        path = tmp_path / str(at)
        shutil.copytree(whole, path, ignore=shutil.ignore_patterns("control.sock"))
        (path / original.relative_to(whole)).write_bytes(content)
        with ThreadedServer(path) as server:
            expect_no_more_rights(server)
            expect_messages_after_a_reset(server, path)


@pytest.mark.parametrize("number", range(6))
def test_a_document_that_was_edited_without_a_signature_counts_for_nothing(
    whole: Path, tmp_path: Path, number: int
) -> None:
    original = documents(whole)[number]
    path = tmp_path / "data"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("control.sock"))
    fields = json.loads(original.read_bytes())
    fields["body"] |= {"write": ".*", "configure": ".*", "tags": ["administrator"]}
    (path / original.relative_to(whole)).write_text(json.dumps(fields))
    with ThreadedServer(path) as server:
        expect_no_more_rights(server)
        expect_messages_after_a_reset(server, path)


@pytest.mark.parametrize("number", range(6))
def test_a_missing_document_gives_nobody_more_rights(
    whole: Path, tmp_path: Path, number: int
) -> None:
    path = tmp_path / "data"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("control.sock"))
    missing = path / documents(whole)[number].relative_to(whole)
    missing.unlink()
    with ThreadedServer(path) as server:
        if missing.parts[-3] != "topic_permissions":
            # Without a row for an exchange, all its keys are allowed, as in RabbitMQ: only the
            # permissions guard it then, and these allow no publish.
            expect_no_more_rights(server)
        expect_messages_after_a_reset(server, path)
