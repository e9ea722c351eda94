"""What the clients talk to: one real server for all tests of a file, and pika's connections to it.

`AMQP_INTEROP_ADDRESS=host:port` lets the tests that need nothing but an address run against another
broker: RabbitMQ, when an expectation itself is in doubt.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

Address = tuple[str, int]
Connect = Callable[..., pika.BlockingConnection]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Start a server for all tests of the file, which must not log one error."""
    other = os.environ.get("AMQP_INTEROP_ADDRESS")
    if other:
        host, _, port = other.rpartition(":")
        yield host, int(port)
        return
    with RunningServer(tmp_path_factory.mktemp("interop") / "data") as server:
        yield server.start().address
        assert server.is_running, "".join(server.messages)
    assert not server.faults, "".join(server.messages)


@pytest.fixture
def url(address: Address) -> str:
    """Return the address with guest's credentials, as a URL."""
    host, port = address
    return f"amqp://guest:guest@{host}:{port}/%2F"


@pytest.fixture
def name(address: Address) -> str:
    """Return a name for a queue or an exchange that no other test uses."""
    return f"n-{uuid4().hex[:12]}"


@pytest.fixture
def connect(address: Address) -> Iterator[Connect]:
    """Return a function that opens pika connections; they are closed after the test."""
    host, port = address
    with ExitStack() as opened:

        def open_connection(**parameters: Any) -> pika.BlockingConnection:  # noqa: ANN401
            connection = pika.BlockingConnection(
                pika.ConnectionParameters(host, port, **parameters)
            )
            opened.callback(_close, connection)
            return connection

        yield open_connection


@pytest.fixture
def connection(connect: Connect) -> pika.BlockingConnection:
    """Open a pika connection."""
    return connect()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """Open a channel on a pika connection of its own."""
    return connection.channel()


def _close(connection: pika.BlockingConnection) -> None:
    """Close, but never wait for ever: pika would, after a test that waited in vain."""
    if connection.is_open:
        closing = Thread(target=connection.close, daemon=True)
        closing.start()
        closing.join(HANG_SECONDS)
