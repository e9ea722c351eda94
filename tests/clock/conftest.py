"""A broker whose clock a test turns, for these tests and for those of `tests.conformance`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.testing.clock import TurnedClock
from bench.broker_url import BrokerUrl
from tests.conformance.broker import Broker
from tests.conformance.conftest import client, connect, dial, name, new_name
from tests.threaded_server import ThreadedServer

__all__ = ["client", "connect", "dial", "name", "new_name"]


@pytest.fixture
def clock() -> TurnedClock:
    """Return the clock of the server."""
    return TurnedClock()


@pytest.fixture
def server(tmp_path: Path, clock: TurnedClock) -> Iterator[ThreadedServer]:
    """Run a server that goes by the clock."""
    with ThreadedServer(tmp_path, clock=clock) as server:
        yield server


@pytest.fixture
def broker(server: ThreadedServer) -> Broker:
    """Return the server as the broker that the tests of conformance look at."""
    host, port = server.address
    return Broker(BrokerUrl(host, port, "guest", "guest", "/"))
