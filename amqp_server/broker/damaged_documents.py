"""Documents that cannot be read, are not valid or are missing, and what each of them means.

The safe meaning of a document that is not known is one table: no kind may make the broker lose
messages or give a user more rights. docs/guarantees.md has the same table for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from metadata.name_list import NAMES_NAME
from metadata.names import encode_name

if TYPE_CHECKING:
    from pathlib import Path

    from metadata.loading import UnreadableDocument

_NO_POLICY: Final = (
    "no policy applies to any queue or exchange of its virtual host, and what a policy might keep "
    "is kept"
)
EFFECTS: Final = {
    "vhosts": "the virtual host exists, with everything in it",
    "exchanges": "its name is reserved, and what is routed through it is refused",
    "queues": "its name is reserved, its log stays, and what is routed to it is refused",
    "bindings": "the exchange that it leaves refuses publishes",
    "policies": _NO_POLICY,
    "operator_policies": _NO_POLICY,
    "users": "nobody logs in as this user",
    "permissions": "the user has no rights in the virtual host",
    "topic_permissions": "no topic exchange of the virtual host allows the user a routing key",
    "access": "no first user is created, and nobody gets rights in new virtual hosts by itself",
    "parameters": "the parameter has no effect: its shovel does not run, and moves nothing",
    "global_parameters": "the parameter has no value",
    "vhost_limits": "the virtual host has no limits of its own; those of the server hold",
    "vhost_metadata": "the virtual host has no description",
}
"""Consequence of a damaged or missing document, by kind. None of them loses a message."""
SINGULARS: Final = {
    "vhosts": "virtual host",
    "exchanges": "exchange",
    "queues": "queue",
    "bindings": "binding",
    "policies": "policy",
    "operator_policies": "operator policy",
    "users": "user",
    "permissions": "permissions",
    "topic_permissions": "topic permissions",
    "access": "first user",
    "parameters": "parameter",
    "global_parameters": "global parameter",
    "vhost_limits": "limits",
    "vhost_metadata": "description",
}
"""Name of one document of a kind."""
LISTED_KINDS: Final = frozenset(EFFECTS) - {"queues", "exchanges", "bindings"}
"""Kinds whose names are listed (`metadata.name_list`), so that the loss of a document is noticed.

A list of all queues and bindings would cost each declare another write.
"""
_OF_NAMES: Final = "losses of definitions before this start may go unnoticed; the list is new"
_OF_ALL_KINDS: Final = "all definitions below it count as damaged"
_OF_A_LOG: Final = "the files stay, and belong to no queue"


class DamagedDocument(NamedTuple):
    """A document that is not known.

    Attributes:
        path: Path of its file, or of a directory of documents that cannot be read.
        kind: Its kind; empty for a directory of all kinds.
        encoded_vhost: `encode_name` of its virtual host; empty for a directory of all of them.
        encoded_name: `encode_name` of its name; empty for a directory of all names.
        reason: What is wrong with it.
    """

    path: Path
    kind: str
    encoded_vhost: str
    encoded_name: str
    reason: str

    @property
    def effect(self) -> str:
        """Effect of the damage until the document is mended or accepted as lost."""
        return effect_of(self.kind)


def effect_of(kind: str) -> str:
    """Return what follows from a damaged document of a kind."""
    if kind == "logs":
        return _OF_A_LOG
    if kind == NAMES_NAME:
        return _OF_NAMES
    return EFFECTS.get(kind, _OF_ALL_KINDS if not kind else "it has no effect")


class DamagedDocuments:
    """The damaged documents of a data directory that are not replaced or removed yet."""

    def __init__(self) -> None:
        self._by_path: dict[Path, DamagedDocument] = {}

    def add(self, document: DamagedDocument) -> None:
        """Record a document that is not known."""
        self._by_path[document.path] = document

    def add_unreadable(self, found: UnreadableDocument) -> None:
        """Record what the start could not read."""
        self.add(
            DamagedDocument(
                found.path, found.kind, found.encoded_vhost, found.encoded_name, found.reason
            )
        )

    def has(self, kind: str, vhost: str) -> bool:
        """Return whether a document of a kind is damaged in a virtual host."""
        place = (kind, encode_name(vhost))
        return any((each.kind, each.encoded_vhost) == place for each in self._by_path.values())

    def discard(self, path: Path) -> None:
        """Forget a document that was replaced or removed on the disk."""
        if self._by_path:
            self._by_path.pop(path, None)

    def forget_vhost(self, encoded_vhost: str) -> None:
        """Forget the documents of a deleted virtual host."""
        for each in [*self._by_path.values()]:
            if each.encoded_vhost == encoded_vhost:
                del self._by_path[each.path]

    def of_kinds(self, kinds: frozenset[str]) -> list[DamagedDocument]:
        """Return the documents of some kinds, by path."""
        return [each for path, each in sorted(self._by_path.items()) if each.kind in kinds]

    def all(self) -> list[DamagedDocument]:
        """Return all of them, by path."""
        return [each for _, each in sorted(self._by_path.items())]
