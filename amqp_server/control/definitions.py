"""The commands `definitions.export`, `definitions.upload` and `definitions.import`."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.requesting_user import owner_of_request
from amqp_server.definitions_file.entries_file import append_lines, read_entries, take_content
from amqp_server.definitions_file.errors import DefinitionsError, InvalidDefinitionsError
from amqp_server.definitions_file.export_form import CLUSTER_NAME, head_of_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.control.registry import ReportProgress
    from amqp_server.definitions_file.definitions_import import DefinitionsImport
    from amqp_server.definitions_file.parts.part import Part

logger = logging.getLogger("amqp_server.control.definitions")

ENTRIES_AT_ONCE: Final = 128
"""Entries in one progress report of an export."""
PROGRESS_SECONDS: Final = 0.5
"""Seconds between two progress reports of an import."""


async def export(
    broker: Broker,
    parts: Mapping[str, Part],
    report: ReportProgress,
    vhost: str,
    with_head: bool = False,
) -> dict[str, int]:
    """Send all entries in progress reports, section by section; return their numbers.

    Args:
        broker: Virtual hosts, exchanges and queues.
        parts: Parts by section.
        report: Sends the client some entries.
        vhost: Virtual host that is exported; empty: all.
        with_head: Whether the first report is `head`: what a file says of itself.

    Raises:
        ControlError: There is no such virtual host.
    """
    if vhost and vhost not in broker.vhosts:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    if with_head:
        name = broker.global_parameters.get(CLUSTER_NAME, "amqp-server")
        await report({"head": head_of_file(vhost or None, name)})
    counts: dict[str, int] = {}
    for section, part in parts.items():
        entries: list[dict[str, Any]] = []
        counts[section] = 0
        for entry in part.export(vhost or None):
            entries.append(entry)
            counts[section] += 1
            if len(entries) == ENTRIES_AT_ONCE:
                await report({"section": section, "entries": entries})
                # A client that reads fast keeps the socket open for more.
                await asyncio.sleep(0)
                entries = []
        if entries:
            await report({"section": section, "entries": entries})
    return counts


async def upload(storage_path: Path, file: str, lines: str) -> str:
    """Write entries into a file for `definitions.import`; return its name.

    Args:
        storage_path: The data directory.
        file: Name of the file; empty for the first part.
        lines: A part of the lines.

    Raises:
        ControlError: The file cannot be written.
    """
    try:
        return await asyncio.to_thread(append_lines, storage_path, file, lines)
    except DefinitionsError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error


async def import_file(
    definitions: DefinitionsImport,
    storage_path: Path,
    access: AccessControl,
    report: ReportProgress,
    file: str,
    vhost: str,
    rabbit_version: str,
    dry_run: bool,
) -> dict[str, Any]:
    """Import the entries that the client has written to a file; return the report.

    Args:
        definitions: Carries out imports.
        storage_path: The data directory.
        access: Users. An import by a user who is no administrator has this user's rights.
        report: Sends the client the number of entries that are done.
        file: Name of the file in the data directory.
        vhost: Virtual host of entries that name none; empty: each entry names its own.
        rabbit_version: Version of RabbitMQ that wrote the definitions; empty if it is not known.
        dry_run: Whether to check and plan only.

    Raises:
        ControlError: The entries have mistakes, or the import failed; nothing has changed.
    """
    done = 0
    importer = owner_of_request(access)

    def on_done(count: int) -> None:
        nonlocal done
        done = count

    try:
        content = await asyncio.to_thread(take_content, storage_path, file)
        task = asyncio.ensure_future(
            definitions.run(
                read_entries(content),
                vhost=vhost or None,
                rabbit_version=rabbit_version,
                importer=importer,
                is_dry_run=dry_run,
                on_done=on_done,
            )
        )
        while not (await asyncio.wait([task], timeout=PROGRESS_SECONDS))[0]:
            await report({"entries": done})
        return task.result().as_json
    except InvalidDefinitionsError as error:
        details = {"mistakes": error.mistakes, "count": error.count}
        raise ControlError(ErrorKind.INVALID_ARGUMENT, str(error), details) from error
    except DefinitionsError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def definitions_commands(
    broker: Broker, definitions: DefinitionsImport, storage_path: Path, access: AccessControl
) -> tuple[Command, ...]:
    """Return the commands `definitions.*` of a server with these parts."""
    return (
        Command(
            "definitions.export",
            partial(export, broker, definitions.parts),
            {"vhost": str},
            {"with_head": bool},
            reports=True,
            audited=Audited("definitions.exported", details=("vhost",)),
        ),
        Command("definitions.upload", partial(upload, storage_path), {"file": str, "lines": str}),
        Command(
            "definitions.import",
            partial(import_file, definitions, storage_path, access),
            {"file": str, "vhost": str, "rabbit_version": str, "dry_run": bool},
            reports=True,
            audited=Audited("definitions.imported", details=("vhost", "dry_run")),
        ),
    )
