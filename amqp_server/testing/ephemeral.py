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
    from pathlib import Path

    from amqp_server.base.config import ServerConfig


def run_ephemeral(config: ServerConfig, parent: int) -> int:
    """Run a server whose files are removed at its end; return the process's exit code.

    It prints two lines on standard output: its URL, and the data directory, by which commands such
    as `amqp-server stats` find it. It ends with its parent process.

    Args:
        config: Settings; the data directory is replaced.
        parent: Process that started this one, noted when this one began.

    Raises:
        StartupError: The server cannot start.
    """
    watch = partial(end_of_parent, parent)
    directory = TemporaryDirectory(memory_directory())
    try:
        storage_path = directory.path / "data"
        surroundings = Surroundings(
            UnsyncedFileSystem(), partial(_print_place, storage_path=storage_path), watch
        )
        return run(replace(config, storage_path=storage_path), surroundings)
    finally:
        directory.remove()


def _print_place(host: str, port: int, storage_path: Path) -> None:
    # In one write: a parent that closes the pipe after the first line breaks nothing.
    lines = f"{amqp_url(host, port, '/')}\n{storage_path}"
    print(lines, flush=True)  # noqa: T201 - the lines that the parent waits for
