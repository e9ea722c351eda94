"""One server for the tests of a file, each with a stream of its own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.groups.streams import StreamClients
from tests.servers import RunningServer

_NUMBERS = count()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Start a real server that all tests of a file share."""
    path: Path = tmp_path_factory.mktemp("groups") / "data"
    with RunningServer(path, "--offset-checkpoint-interval", "0") as server:
        yield server.start()
        assert not server.faults, "".join(server.messages)


@pytest.fixture
def stream(shared_server: RunningServer) -> Iterator[StreamClients]:
    """Return clients of a stream that no other test uses."""
    with StreamClients(shared_server, f"stream-{next(_NUMBERS)}") as clients:
        yield clients
