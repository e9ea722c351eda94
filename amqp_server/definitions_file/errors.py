"""Why definitions are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class DefinitionsError(Exception):
    """Definitions were refused; nothing has changed. The text is one line."""


class InvalidDefinitionsError(DefinitionsError):
    """A definitions file has mistakes.

    Attributes:
        mistakes: One line each, with the place in the file; at least one.
        count: Number of mistakes; may be more than the lines.
    """

    def __init__(self, mistakes: Sequence[str], count: int) -> None:
        self.mistakes = list(mistakes)
        self.count = count
        more = f" (and {count - 1} more mistakes)" if count > 1 else ""
        super().__init__(f"{mistakes[0]}{more}")


class ImportFailedError(DefinitionsError):
    """A correct file could not be imported: the disk refused, or a client was in the way."""
