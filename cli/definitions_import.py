"""Sends the entries of a definitions file to the running server, for all commands that import."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from amqp_server.control.client import follow
from amqp_server.definitions_file.entries_file import write_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from amqp_server.definitions_file.entry import Entry


def import_entries(
    storage_path: Path,
    entries: Sequence[Entry],
    *,
    rabbit_version: str,
    is_dry_run: bool,
    vhost: str = "",
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Import entries, all or none; blocks. Return the report of the server (docs/control.md).

    Args:
        storage_path: The server's data directory.
        entries: The entries, in the order of their sections, with hashes for passwords.
        rabbit_version: Version of RabbitMQ that wrote them; empty if unknown.
        is_dry_run: Whether only to check them.
        vhost: Virtual host that gets them, if they name none.
        on_progress: Called with each progress report.

    Raises:
        OSError: The entries cannot be written into the data directory.
        UnreachableError: No server runs there.
        ControlError: The server refuses them; `details` has its `mistakes`.
    """
    name = write_entries(storage_path, entries)
    try:
        arguments = {
            "file": name,
            "vhost": vhost,
            "rabbit_version": rabbit_version,
            "dry_run": is_dry_run,
        }
        report = follow(storage_path, "definitions.import", arguments, on_progress)
    finally:
        with suppress(OSError):
            (storage_path / name).unlink(missing_ok=True)
    assert isinstance(report, dict), "an object, by docs/control.md"
    return report
