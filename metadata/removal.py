"""Definitions that are deleted together, in an order that is safe if a crash interrupts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from metadata.change import DeletionMark


@dataclass(frozen=True, slots=True)
class RemovedEntity:
    """One definition that is deleted.

    Attributes:
        kind: Kind of its document.
        name: Name of its document.
        note: Body that replaces the document's while other documents still refer to it: it records
            the deletion. None if no note is needed.
        marks: Deletion marks of what belongs to it besides documents, such as a log. They are set
            before its document is changed, and removed if the document cannot be changed.
    """

    kind: str
    name: str
    note: dict[str, Any] | None = None
    marks: Sequence[DeletionMark] = ()


@dataclass(frozen=True, slots=True)
class Removal:
    """Definitions of one virtual host that are deleted together.

    Marks and notes are written first; when they are durable, so is the deletion. Then the documents
    that refer to the definitions are removed, and last the documents themselves. So if a document
    refers to a definition without a document, no deletion was the cause.

    Attributes:
        vhost: Name of the virtual host.
        entities: Definitions to delete.
        dependents: Kind and name of each document that refers to one of them.
    """

    vhost: str
    entities: Sequence[RemovedEntity] = field(default_factory=tuple)
    dependents: Sequence[tuple[str, str]] = field(default_factory=tuple)
