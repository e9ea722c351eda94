"""Start-up: imports the definitions that the settings name, before the server listens."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from amqp_server.access.user import first_user_record
from amqp_server.base.errors import StartupError
from amqp_server.broker.definitions import DEFAULT_VHOST, deleted_vhost_document
from amqp_server.definitions_file.entries_file import remove_leftovers
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.file_content import hash_passwords, read_definitions

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.definitions_file.entry import Entry
    from amqp_server.server import Server
    from metadata.document import Document

logger = logging.getLogger("amqp_server.definitions_start")


async def load_definitions(server: Server) -> None:
    """Import the definitions that the settings name, if they name any.

    A new data directory gets nothing else: no default user, and no virtual host `/`. Documents
    that say so are written together with the definitions.

    Args:
        server: A recovered server whose flusher runs.

    Raises:
        StartupError: The definitions have mistakes, or the disk refused; nothing was imported.
    """
    await asyncio.to_thread(remove_leftovers, server.config.storage_path)
    path = server.config.load_definitions
    if path is None:
        return
    try:
        entries, version = await asyncio.to_thread(_read, path)
        extra = _records_of_new_directory(server, entries)
        await server.definitions.run(entries, rabbit_version=version, extra=extra)
    except DefinitionsError as error:
        raise StartupError(f"--load-definitions {path}: {error}") from error
    if not server.access.users:
        logger.error("no users path=%s note=nobody can log in: the definitions have none", path)


def _read(path: Path) -> tuple[list[Entry], str]:
    found = read_definitions(path)
    if found.is_single_vhost:
        raise DefinitionsError(
            "the file has the definitions of one vhost: import it with "
            "`amqp-server definitions import --vhost NAME`"
        )
    return list(hash_passwords(found.entries)), found.rabbit_version


def _records_of_new_directory(server: Server, entries: list[Entry]) -> list[Document]:
    """Return what keeps the next start from adding the defaults to a directory that is new now."""
    if server.broker.vhosts or server.access.users:
        return []
    records = [first_user_record("")]
    vhosts = {each.fields.get("name") for each in entries if each.section == "vhosts"}
    if DEFAULT_VHOST not in vhosts:
        records.append(deleted_vhost_document(DEFAULT_VHOST))
    return records
