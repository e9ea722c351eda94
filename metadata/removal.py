"""What goes together when entities are deleted, in an order that a crash cannot confuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from metadata.change import DeletionMark


@dataclass(frozen=True, slots=True)
class RemovedEntity:
    """One entity that is deleted.

    Attributes:
        kind: Of its document.
        name: Of its document.
        note: Body that takes the place of the document's while other documents still speak of the
            entity: it says that it is deleted. None when nothing has to tell that.
        marks: Of what belongs to it beside the documents. They are set before its document is
            touched, and taken back if the document cannot be.
    """

    kind: str
    name: str
    note: dict[str, Any] | None = None
    marks: Sequence[DeletionMark] = ()


@dataclass(frozen=True, slots=True)
class Removal:
    """Entities of one virtual host that are deleted together.

    Marks and notes come first. When they are durable, so is the deletion: then go the documents
    that speak of the entities, at last those of the entities themselves. So a document that
    speaks of an entity without one is never what a deletion has left.

    Attributes:
        vhost: The virtual host.
        entities: Of which nothing is to be left.
        dependents: Kind and name of each document that speaks of one of them.
    """

    vhost: str
    entities: Sequence[RemovedEntity] = field(default_factory=tuple)
    dependents: Sequence[tuple[str, str]] = field(default_factory=tuple)
