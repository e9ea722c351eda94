"""`amqp-server --ephemeral`: a broker for test suites in other languages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.server_process import Surroundings, run
from amqp_server.testing.parent_watch import end_of_parent
from amqp_server.testing.temporary_directory import TemporaryDirectory, memory_directory
from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from amqp_server.testing.urls import amqp_url

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig


def run_ephemeral(config: ServerConfig, parent: int) -> int:
    """Run a server whose files are removed at its end; return the process's exit code.

    It prints its URL as the first line of standard output, and ends with its parent process.

    Args:
        config: Settings; the data directory is replaced.
        parent: Process that started this one, noted when this one began.

    Raises:
        StartupError: The server cannot start.
    """
    watch = partial(end_of_parent, parent)
    directory = TemporaryDirectory(memory_directory())
    try:
        surroundings = Surroundings(UnsyncedFileSystem(), _print_url, watch)
        return run(replace(config, storage_path=directory.path / "data"), surroundings)
    finally:
        directory.remove()


def _print_url(host: str, port: int) -> None:
    print(amqp_url(host, port, "/"), flush=True)  # noqa: T201 - the line that the parent waits for
