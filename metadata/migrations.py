"""How documents of earlier schemas are read: step by step, each from one schema to the next.

A document says in `schema` how its fields are to be understood. What changes them adds a step
here, at the end; old files are read through it for ever, and get the new schema when they are
written next. A schema that is newer than the last step is a later program's: it is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from metadata.errors import DocumentFormatError

Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes all fields of a document of one schema, and returns those of the next one.

`schema` itself is not among them. May raise KeyError, TypeError or ValueError for a document that
does not hold together.
"""

OLDEST_SCHEMA: Final = 1


def _add_checksum(fields: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 has a checksum of all members; the members are those of schema 1."""
    return fields


MIGRATIONS: Final[Sequence[Migration]] = (_add_checksum,)
"""The first leads from `OLDEST_SCHEMA` to the schema after it, and so on."""


def newest_schema(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the schema that is written."""
    return OLDEST_SCHEMA + len(migrations)


def check_schema(fields: dict[str, Any], migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the schema that a document says it has.

    Raises:
        DocumentFormatError: The schema is missing, unknown or newer.
    """
    schema, newest = fields.get("schema"), newest_schema(migrations)
    if type(schema) is not int or schema < OLDEST_SCHEMA:
        raise DocumentFormatError(f"schema is {schema!r}, expected {newest}")
    if schema > newest:
        raise DocumentFormatError(
            f"schema {schema} is of a newer program; this one reads {OLDEST_SCHEMA} to {newest}"
        )
    return schema


def migrate(fields: dict[str, Any], migrations: Sequence[Migration] = MIGRATIONS) -> dict[str, Any]:
    """Return the fields of a document, without its schema, as the newest schema has them.

    Args:
        fields: What the file says.
        migrations: From the oldest schema on.

    Raises:
        DocumentFormatError: The schema is missing, unknown or newer, or a step does not fit.
    """
    schema = check_schema(fields, migrations)
    rest = {name: value for name, value in fields.items() if name != "schema"}
    for number, step in enumerate(migrations[schema - OLDEST_SCHEMA :], schema):
        try:
            rest = step(rest)
        except (KeyError, TypeError, ValueError) as cause:
            reason = f"cannot be read as schema {number + 1}: {cause!r}"
            raise DocumentFormatError(reason) from cause
    return rest
