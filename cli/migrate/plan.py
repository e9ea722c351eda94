"""Plan of a migration: the queues to move, and those that stay, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli.display import shown, shown_bytes
from cli.migrate.queue_move import QueueMove
from cli.table import write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cli.migrate.definitions import Definitions
    from cli.migrate.source_api import SourceQueue

Key = tuple[str, str]
"""Virtual host and name of a queue."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The queues of a migration.

    Attributes:
        moves: Queues that are drained or copied.
        stays: Reasons why queues stay at the source, by queue.
        source_queues: Queues of the source, as it reports them; empty without its HTTP API.
    """

    moves: list[QueueMove]
    stays: dict[Key, str]
    source_queues: dict[Key, SourceQueue]

    @property
    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "queues": [
                {
                    "vhost": move.vhost,
                    "queue": move.name,
                    "type": move.kind,
                    "action": "copy" if move.is_stream else "move",
                    **self._counts((move.vhost, move.name)),
                }
                for move in self.moves
            ],
            "stays": [
                {"vhost": vhost, "queue": name, "reason": reason, **self._counts((vhost, name))}
                for (vhost, name), reason in sorted(self.stays.items())
            ],
        }

    def _counts(self, key: Key) -> dict[str, int]:
        found = self.source_queues.get(key)
        if found is None:
            return {}
        return {
            "messages": found.messages,
            "unacked": found.unacked,
            "bytes": found.message_bytes,
            "consumers": found.consumers,
        }

    def show(self) -> None:
        """Write the plan as a table."""
        rows = [
            [
                shown(move.vhost),
                move.kind,
                *self._cells((move.vhost, move.name)),
                "copy" if move.is_stream else "move",
                shown(move.name),
            ]
            for move in self.moves
        ]
        rows += [
            [shown(vhost), "", *self._cells((vhost, name)), f"stays: {reason}", shown(name)]
            for (vhost, name), reason in sorted(self.stays.items())
        ]
        header = ("VHOST", "TYPE", "MESSAGES", "BYTES", "CONSUMERS", "ACTION", "QUEUE")
        write_table(header, rows, right=("MESSAGES", "BYTES", "CONSUMERS"))

    def _cells(self, key: Key) -> list[str]:
        found = self.source_queues.get(key)
        if found is None:
            return ["?", "?", "?"]
        return [str(found.messages), shown_bytes(found.message_bytes), str(found.consumers)]


def make_plan(definitions: Definitions, queues: Iterable[SourceQueue]) -> Plan:
    """Return the plan for these definitions.

    Args:
        definitions: What is taken over.
        queues: Chosen queues of the source; empty without its HTTP API.
    """
    source_queues = {(each.vhost, each.name): each for each in queues}
    moves: list[QueueMove] = []
    stays: dict[Key, str] = {}
    defined: set[Key] = set()
    for entry in definitions.entries:
        if entry.section != "queues":
            continue
        vhost, name = str(entry.fields.get("vhost")), str(entry.fields.get("name"))
        if (vhost, name) in defined:
            continue
        defined.add((vhost, name))
        found = source_queues.get((vhost, name))
        kind = found.type if found is not None else _kind(entry.fields)
        if entry.fields.get("durable") is False:
            stays[vhost, name] = "not durable"
        elif entry.fields.get("auto_delete") is True:
            # It would end with this command's consumer, and its messages with it.
            stays[vhost, name] = "auto-delete"
        elif name.startswith("amq."):
            stays[vhost, name] = "named by the source"
        else:
            moves.append(QueueMove(vhost, name, entry.fields, kind))
    for key, found in source_queues.items():
        if key not in defined:
            stays[key] = "exclusive" if found.is_exclusive else "not taken over"
    return Plan(moves, stays, source_queues)


def _kind(entry: Mapping[str, Any]) -> str:
    arguments = entry.get("arguments")
    named = arguments.get("x-queue-type") if isinstance(arguments, dict) else None
    kind = named or entry.get("type")
    return kind if isinstance(kind, str) and kind not in ("default", "undefined") else "classic"
