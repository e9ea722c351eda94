"""Clients that ask and do not read: they take bounded memory, and are cut off in the end."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from pamqp import frame

from amqp_server.control import listener
from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, AnyDeclare, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

SOME_QUEUES: Final = 2_000
EVERYTHING: Final[dict[str, Any]] = {
    "since": 0,
    "kinds": ["vhosts", "exchanges", "queues", "connections", "channels", "consumers"],
}


def declare_many(client: AmqpClient, count: int) -> None:
    """Declare queues that are not durable, all at once."""
    declares = (
        AnyDeclare(0, f"unread-{number}", False, False, False, False, True, None)
        for number in range(count)
    )
    client.socket.sendall(b"".join(frame.marshal(each, 1) for each in declares))
    client.declare("last", durable=False)


@contextmanager
def asked(storage_path: Path, command: str, **arguments: object) -> Iterator[socket.socket]:
    """Send a request; return the socket, from which nothing was read."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(HANG_SECONDS)
        client.connect(str(storage_path / "control.sock"))
        request = {"version": 1, "command": command, "arguments": arguments}
        client.sendall(orjson.dumps(request) + b"\n")
        yield client


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("management.changes", EVERYTHING),
        ("queues.stats", {"vhost": "", "queue": "", "after": "", "limit": 500}),
    ],
    ids=["reports", "one long reply"],
)
def test_who_does_not_read_is_cut_off(
    command: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "UNREAD_SECONDS_MAX", 0.3)
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel()
        declare_many(client, SOME_QUEUES)
        with asked(tmp_path / "data", command, **arguments) as slow:
            # The end of a connection that is cut off comes while there is more to read.
            ended = select.poll()
            ended.register(slow, select.POLLHUP)
            assert ended.poll(HANG_SECONDS * 1000)
            received = b"".join(iter(lambda: slow.recv(1 << 20), b""))

        assert b'{"ok":' not in received or not received.endswith(b"\n")
        assert ask(tmp_path / "data", "vhosts.list")
