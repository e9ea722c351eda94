"""One running server for many tests, because a start takes longer than most tests."""

from __future__ import annotations

from pathlib import Path

from amqp_server.control.client import ask
from tests.servers import RunningServer


class ServerKeeper:
    """Lends a server with the default options to one test after another.

    Each finds it empty: the virtual hosts are deleted with all that is in them, and the default
    one is made again. A server that a test stopped, or that is meant to fail, is lent no more.

    Args:
        directory: Where the data directories are made.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        self._pid = 0
        self._server: RunningServer | None = None

    def lend(self) -> RunningServer:
        """Return a server that listens, has nothing, and has logged nothing."""
        if self._server is None:
            self._count += 1
            self._server = RunningServer(self._directory / f"data-{self._count}").start()
            self._pid = self._server.pid
        else:
            self._server.messages.clear()
        return self._server

    def take_back(self) -> None:
        """Empty the server that was lent.

        Raises:
            AssertionError: It logged an error that it was not meant to.
        """
        server = self._server
        assert server is not None, "nothing was lent"
        faults = [] if server.may_fail else server.faults
        is_as_it_was = server.is_running and server.pid == self._pid and not server.may_fail
        if is_as_it_was and not faults:
            for vhost in ask(server.storage_path, "vhosts.list"):
                ask(server.storage_path, "vhosts.delete", name=vhost["name"])
            ask(server.storage_path, "vhosts.add", name="/")
        else:
            self.end()
        assert not faults, "".join(server.messages)

    def end(self) -> None:
        """Kill what still runs."""
        if self._server is not None:
            self._server.kill()
            self._server = None
