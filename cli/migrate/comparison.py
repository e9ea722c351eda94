"""Compares the definitions of the source with those of this server, at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.control.client import follow
from amqp_server.definitions_file.entry import Entry
from cli.migrate.definitions import described, leave_out_refused
from cli.migrate.differences import Difference, difference

if TYPE_CHECKING:
    from pathlib import Path

    from cli.migrate.definitions import Definitions


def compare(storage_path: Path, definitions: Definitions) -> list[Difference]:
    """Return what this server has not, or has otherwise; empty if all is equal. Blocks.

    Args:
        storage_path: Data directory of this server.
        definitions: What the source has now; loses what this server refuses.

    Raises:
        ControlError: The server fails.
        UnreachableError: No server runs there.
        OSError: The data directory cannot be written.
    """
    report = leave_out_refused(storage_path, definitions)
    here = _here(storage_path)
    skipped = set(report["skipped"])
    missing = [
        described(each)
        for each in definitions.entries
        if described(each) not in here
        and not any(line.startswith(f"{each.place}:") for line in skipped)
    ]
    found = [difference("missing", "missing here", missing)] if missing else []
    for section, counts in report["sections"].items():
        if counts["changed"]:
            text = f"{counts['changed']} {section.replace('_', ' ')} have other values here"
            found.append(Difference("changed", text, (), counts["changed"]))
    found += [Difference("different", line, (), 1) for line in report["different"]]
    found += [Difference("skipped", f"not taken over: {line}", (), 1) for line in skipped]
    found += [
        Difference("refused", f"not taken over: {line}", (), 1) for line in definitions.refused
    ]
    return found


def _here(storage_path: Path) -> set[str]:
    found: set[str] = set()

    def take(progress: dict[str, Any]) -> None:
        section = progress["section"]
        found.update(described(Entry(section, 0, "", each)) for each in progress["entries"])

    follow(storage_path, "definitions.export", {"vhost": ""}, take)
    return found
