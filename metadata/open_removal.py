"""A deletion whose parts become known one after another, such as the bindings of a queue."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from metadata.change import Change
from metadata.document import Document, encode_document
from metadata.names import encode_name
from metadata.paths import document_path
from metadata.removal import RemovedEntity
from metadata.write_rounds import WriteRounds


class Dependent(NamedTuple):
    """A document that goes because one to which it refers does.

    Attributes:
        kind: Kind of the document.
        name: Name of the document.
        refers_to: Kind and name of each document that it refers to. Those of them that are deleted
            too are removed after it.
    """

    kind: str
    name: str
    refers_to: Sequence[tuple[str, str]]


class OpenRemoval:
    """The deletion of definitions of one virtual host; see `Removal` for the order.

    The caller adds entities, removes what refers to them in parts, and calls `finish` once. Until
    an entity is released no other deletion of it may begin, nor may it be written again.

    Args:
        root: The `metadata` directory.
        rounds: Writes the changes.
        vhost: Name of the virtual host.
    """

    def __init__(self, root: Path, rounds: WriteRounds, vhost: str) -> None:
        self._root = root
        self._rounds = rounds
        self._vhost = vhost
        # By kind and name of each entity that is not released yet.
        self._announced: dict[tuple[str, str], list[Change]] = {}
        self._first_announced: list[Change] | None = None
        self._held: dict[tuple[str, str], Change] = {}
        self._outcomes: list[Awaitable[None]] = []

    def add(self, entity: RemovedEntity) -> None:
        """Begin to record that a definition is deleted; its document is removed at the end.

        Every other entity goes because the first one does: its deletion is recorded after that of
        the first one, or not at all.
        """
        path = self._path_of(entity.kind, entity.name)
        cause = self._first_announced or []
        announced: list[Change] = []
        if entity.marks:
            announced.append(self._rounds.submit_marks(path, entity.marks, after=cause))
        if entity.note is not None:
            content = encode_document(Document(entity.kind, self._vhost, entity.name, entity.note))
            note = self._rounds.submit(
                path, content, after=[*cause, *announced], is_note=True, marks=entity.marks
            )
            announced.append(note)
        marks = entity.marks if entity.note is None else ()
        needed = [*cause, *announced]
        held = self._rounds.submit(path, None, after=needed, is_held=True, marks=marks)
        if self._first_announced is None:
            self._first_announced = announced
        self._outcomes.append(held.outcome())
        self._announced[entity.kind, entity.name] = announced
        self._held[entity.kind, entity.name] = held

    def remove_dependents(self, dependents: Iterable[Dependent]) -> list[Change]:
        """Remove documents once the deletion of what they refer to is recorded on the disk."""
        paths: dict[tuple[str, str], Path] = {}
        changes: list[Change] = []
        for kind, name, ends in dependents:
            for end in ends:
                if end not in paths:
                    paths[end] = self._path_of(*end)
            changes.append(
                self._rounds.submit(
                    self._path_of(kind, name),
                    None,
                    after=[change for end in ends for change in self._announced.get(end, ())],
                    is_dependent=True,
                    is_bulk=bool(self._held),
                    refers_to=[paths[end] for end in ends],
                )
            )
        return changes

    def release(self, kind: str, name: str) -> None:
        """Remove the document of an entity after all documents that refer to it.

        Everything that refers to it was removed with `remove_dependents`. From now on the entity
        may be written or deleted again.
        """
        held = self._held.pop((kind, name))
        announced = self._announced.pop((kind, name))
        for path in self._rounds.left(encode_name(self._vhost)):
            self._rounds.submit(
                path, None, after=announced, is_dependent=True, refers_to=[held.path]
            )
        self._rounds.release(held)

    def finish(self) -> list[Awaitable[None]]:
        """Release all entities that are left.

        Returns:
            Awaitables. When all of them have ended, no part of the definitions can return.

        Raises:
            DocumentWriteError: When awaited: the disk refused something. A definition whose
                document could not be changed is unchanged, except for documents that referred to
                it.
        """
        for kind, name in tuple(self._held):
            self.release(kind, name)
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _path_of(self, kind: str, name: str) -> Path:
        return document_path(self._root, kind, self._vhost, name)
