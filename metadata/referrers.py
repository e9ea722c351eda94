"""Counts the changes of documents that refer to one document, which is removed after them."""

from __future__ import annotations

from pathlib import Path

from metadata.change import Change


class Referrers:
    """The unfinished changes of the documents that refer to one document.

    Args:
        path: Path of the document that they refer to.

    Attributes:
        path: Path of the document that they refer to.
        count: Number of the changes.
        removal: Change that removes the document itself, or None; it waits for all of them.
    """

    __slots__ = ("count", "path", "removal")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.removal: Change | None = None

    def note_done(self, change: Change) -> None:
        """Count a change as done; a removal that failed fails the removal of the document too.

        Otherwise the document that is left would refer to one that is missing.
        """
        self.count -= 1
        removal = self.removal
        if removal is not None and change.content is None and removal.error is None:
            removal.error = change.error
