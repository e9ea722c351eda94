"""Takes over the definitions of the source, and compares them with what this server has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.client import ControlError
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.file_content import (
    hash_passwords,
    parse_definitions,
    read_definitions,
)
from cli.definitions_import import import_entries
from cli.migrate.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.definitions_file.entry import Entry
    from cli.migrate.choice import Choice
    from cli.migrate.source_api import SourceApi

ROUNDS_MAX: Final = 100
"""Requests for the mistakes in the rest; the server names 100 mistakes each time."""
_MISTAKE: Final = re.compile(r"(?P<section>\w+)\[(?P<index>[0-9]+)\]: (?P<reason>.*)", re.DOTALL)


@dataclass(slots=True)
class Definitions:
    """Definitions that this server takes over.

    Attributes:
        entries: Entries that this server takes, in the order of their import.
        rabbit_version: Version of the source; empty if it does not say.
        refused: Entries that this server cannot take, a line each.
        shovels: Names of the shovels, which are not taken over.
    """

    entries: list[Entry]
    rabbit_version: str
    refused: list[str] = field(default_factory=list)
    shovels: list[str] = field(default_factory=list)


def read_source(api: SourceApi | None, file: Path | None, choice: Choice) -> Definitions:
    """Return the chosen definitions, from a file if there is one, otherwise from the API. Blocks.

    Raises:
        SourceError: They cannot be read, or are no definitions of a whole broker.
    """
    try:
        if file is not None:
            found = read_definitions(file)
        else:
            assert api is not None, "the command asks for one of them"
            found = parse_definitions(api.definitions(), f"{api.shown}/api/definitions")
        if found.is_single_vhost:
            raise SourceError("the definitions are those of one virtual host: export all of them")
        entries = choice.entries(hash_passwords(found.entries))
    except DefinitionsError as error:
        raise SourceError(str(error)) from error
    shovels = [
        str(each.fields.get("name"))
        for each in found.entries
        if each.section == "parameters" and each.fields.get("component") == "shovel"
    ]
    return Definitions(entries, found.rabbit_version, shovels=shovels)


def leave_out_refused(storage_path: Path, definitions: Definitions) -> dict[str, Any]:
    """Take out the entries that this server refuses; return the report of the rest. Blocks.

    One policy that only another version knows must not keep 10,000 queues from coming.

    Args:
        storage_path: Data directory of this server.
        definitions: Loses the refused entries, and gets a line for each.

    Raises:
        SourceError: There is no end of refusals.
        ControlError: The server fails.
        UnreachableError: No server runs there.
        OSError: The data directory cannot be written.
    """
    for _ in range(ROUNDS_MAX):
        try:
            return import_entries(
                storage_path,
                definitions.entries,
                rabbit_version=definitions.rabbit_version,
                is_dry_run=True,
            )
        except ControlError as error:
            mistakes = error.details.get("mistakes") or [error.reason]
            found = [match for each in mistakes if (match := _MISTAKE.search(str(each)))]
            places = {(match["section"], int(match["index"])) for match in found}
            kept = [
                each for each in definitions.entries if (each.section, each.index) not in places
            ]
            if len(kept) == len(definitions.entries):
                raise
            definitions.refused += [_line(definitions.entries, match) for match in found]
            definitions.entries = kept
    raise SourceError(f"more than {ROUNDS_MAX} times this server refused definitions")


def _line(entries: list[Entry], mistake: re.Match[str]) -> str:
    """Return what a mistake is about, by name: a place says little to an operator."""
    section, index = mistake["section"], int(mistake["index"])
    entry = next(each for each in entries if (each.section, each.index) == (section, index))
    return f"{described(entry)}: {mistake['reason']}"


def described(entry: Entry) -> str:
    """Return what an entry defines, for people: `queue 'orders' in vhost '/'`."""
    fields = entry.fields
    where = f" in vhost '{fields['vhost']}'" if "vhost" in fields else ""
    match entry.section:
        case "bindings":
            ends = f"'{fields.get('source')}' to '{fields.get('destination')}'"
            return f"binding from {ends} by '{fields.get('routing_key')}'{where}"
        case "permissions" | "topic_permissions":
            kind = entry.section.removesuffix("s").replace("_", " ")
            return f"{kind}s of user '{fields.get('user')}'{where}"
        case "policies":
            return f"policy '{fields.get('name')}'{where}"
        case "parameters":
            return f"{fields.get('component')} '{fields.get('name')}'{where}"
    kind = entry.section.removesuffix("s").replace("_", " ")
    return f"{kind} '{fields.get('name')}'{where}"
