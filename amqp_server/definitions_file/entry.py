"""One entry of a definitions file: its place, and its members with their types checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.json_arguments import table_from_plain

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

NAME_BYTES_MAX: Final = 255
"""Longest name, key or type in bytes: AMQP carries it as a short string."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a section.

    Attributes:
        section: Name of the section: `queues`.
        index: Place in the section, from 0.
        source: Name of the file; empty if there is only one.
        fields: The members, unchecked.
    """

    section: str
    index: int
    source: str
    fields: dict[str, Any]

    @property
    def place(self) -> str:
        """Where the entry is, for errors: `queues[17]`."""
        place = f"{self.section}[{self.index}]"
        return f"{self.source}: {place}" if self.source else place

    def error(self, reason: object) -> DefinitionsError:
        """Return the error of this entry."""
        return DefinitionsError(f"{self.place}: {reason}")

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; `default` if it is missing.

        Raises:
            DefinitionsError: It is missing without a default, or no text.
        """
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def short_text(self, name: str, default: str | None = None, *, may_be_empty: bool) -> str:
        """Return a name, key or type: a text that fits in a short string.

        Raises:
            DefinitionsError: It is missing, no text, too long, or empty where it must not be.
        """
        value = self.text(name, default)
        if not value and not may_be_empty:
            raise self.error(f"'{name}' is empty")
        if len(value) > NAME_BYTES_MAX or len(value.encode()) > NAME_BYTES_MAX:
            raise self.error(f"'{name}' is longer than {NAME_BYTES_MAX} bytes")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean, which may be written as a text as well.

        Raises:
            DefinitionsError: It is neither true nor false.
        """
        value = self.fields.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def object(self, name: str) -> dict[str, Any]:
        """Return an object; an empty one if it is missing, or the empty array of Erlang.

        Raises:
            DefinitionsError: It is something else.
        """
        value = self.fields.get(name)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def arguments(self) -> Table:
        """Return the member `arguments` as a field table.

        Raises:
            DefinitionsError: It is no object, or holds what no field table can.
        """
        try:
            return table_from_plain(self.object("arguments"))
        except ValueError as error:
            raise self.error(f"'arguments': {error}") from error

    def _wrong(self, name: str, expected: str) -> DefinitionsError:
        if name not in self.fields:
            return self.error(f"'{name}' is missing")
        return self.error(f"'{name}' is {self.fields[name]!r:.100}, expected {expected}")
