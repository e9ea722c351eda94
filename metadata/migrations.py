"""Converts documents of earlier schemas, step by step, each from one schema to the next.

The member `schema` says how a document's fields are to be understood. A change of the fields adds a
step at the end. Old files are read through the steps for ever, and get the new schema when they are
written next. A document with a schema above the last step comes from a newer program and is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from metadata.errors import DocumentFormatError

Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes all fields of a document of one schema and returns those of the next one.

`schema` itself is not among them. May raise KeyError, TypeError or ValueError for a malformed
document.
"""

OLDEST_SCHEMA: Final = 1


def _add_checksum(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields unchanged: schema 2 only adds the checksum, which is not among them."""
    return fields


MIGRATIONS: Final[Sequence[Migration]] = (_add_checksum,)
"""The first step converts `OLDEST_SCHEMA` to the next schema, and so on."""


def newest_schema(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the schema that is written."""
    return OLDEST_SCHEMA + len(migrations)


def check_schema(fields: dict[str, Any], migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the schema of a document.

    Raises:
        DocumentFormatError: The schema is missing, unknown or newer.
    """
    schema = fields.get("schema")
    newest = newest_schema(migrations)
    if type(schema) is not int or schema < OLDEST_SCHEMA:
        raise DocumentFormatError(f"schema is {schema!r}, expected {newest}")
    if schema > newest:
        raise DocumentFormatError(
            f"schema {schema} is of a newer program; this one reads {OLDEST_SCHEMA} to {newest}"
        )
    return schema


def migrate(fields: dict[str, Any], migrations: Sequence[Migration] = MIGRATIONS) -> dict[str, Any]:
    """Return the fields of a document, without `schema`, converted to the newest schema.

    Args:
        fields: Members of the file.
        migrations: Steps from the oldest schema on.

    Raises:
        DocumentFormatError: The schema is missing, unknown or newer, or a step fails.
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
