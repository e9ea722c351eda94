"""A server inside the test's process, asked over its control socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer


@pytest.fixture
def threaded_server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path / "data") as server:
        yield server


@pytest.fixture
def asking(threaded_server: ThreadedServer) -> Asking:
    """Return requests without an actor."""
    return Asking(threaded_server.server.config.storage_path)
