"""One definition (a queue, an exchange, a user, ...) and its JSON form.

Values that JSON cannot hold exactly (NaN, bytes, tuples, keys that are not text) are refused before
anything is written: each document is read back from its bytes and compared.

The last member, `crc32c`, is a checksum of all others, so that a flipped bit never turns one
definition into another. It covers the values, not the bytes of the file: a person may indent and
order the file freely. A changed value must be signed with `amqp-server repair --accept-definition`.
See docs/metadata-format.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from appendlog.layout.crc import crc32c
from metadata.errors import DocumentFormatError, UnstorableDocumentError
from metadata.json_octets import canonical, dump, load, orjson_canonical
from metadata.migrations import MIGRATIONS, Migration, check_schema, migrate, newest_schema

SCHEMA: Final = newest_schema()
"""Value of `schema` in every document that is written."""

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest document, in bytes of JSON, that is written or read."""

CHECKSUM: Final = "crc32c"
"""Name of the member that contains the checksum."""
SIGNED_SCHEMA_MIN: Final = 2
"""First schema whose documents have a checksum."""

_KIND: Final = re.compile(r"[a-z][a-z_-]{0,63}")
_FIELDS: Final = {"kind", "vhost", "name", "body"}


def is_kind(name: str) -> bool:
    """Return whether a kind of documents may have this name."""
    return _KIND.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Document:
    """One named definition of the broker, as plain data.

    Attributes:
        kind: Kind in plural (`queues`, `users`): lower-case letters, `-`, `_`; at most 64. The
            program chooses it, never a client, because it is the name of a directory.
        vhost: Name of its virtual host, any text; empty if it belongs to none.
        name: Its name, any text; unique within kind and virtual host.
        body: Its properties: only what JSON holds exactly (None, bool, int of 64 bits, finite
            float, str, list, dict with str keys). Not copied; must not be changed afterwards.
    """

    kind: str
    vhost: str
    name: str
    body: dict[str, Any]

    def __post_init__(self) -> None:
        """Check that the kind is a lower-case word, because it becomes part of a path."""
        if not is_kind(self.kind):
            raise ValueError(f"document kind must be a lower-case word, found {self.kind!r}")


def encode_document(document: Document) -> bytes:
    """Return the document's file content: indented JSON, one final newline.

    Raises:
        UnstorableDocumentError: It would change on its way through JSON, or exceeds
            `DOCUMENT_BYTES_MAX`.
    """
    try:
        content = _dump(document)
        decoded = decode_document(content)
        # Comparing values is not enough: a large integer returns as an equal float.
        is_exact = decoded == document and _dump(decoded) == content
    except (TypeError, ValueError, RecursionError, DocumentFormatError) as cause:
        raise UnstorableDocumentError(document.kind, document.name, str(cause)) from cause
    if not is_exact:
        reason = "reading it back gives another value"
        raise UnstorableDocumentError(document.kind, document.name, reason)
    return content


def decode_document(
    content: bytes,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    accepts_unsigned: bool = False,
) -> Document:
    """Parse a document's file content, as `decode_with_schema` does."""
    return decode_with_schema(content, migrations, accepts_unsigned=accepts_unsigned)[0]


def decode_with_schema(
    content: bytes,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    accepts_unsigned: bool = False,
) -> tuple[Document, int]:
    """Parse a document's file content; return also the schema in which it is stored.

    Args:
        content: Content of the file.
        migrations: Steps that convert earlier schemas.
        accepts_unsigned: Whether to accept documents of schemas without a checksum. They are valid
            only in a data directory of an earlier format; elsewhere they are damage.

    Raises:
        DocumentFormatError: The content is not JSON, is too long, has another schema, lacks a
            field, or its checksum is missing or wrong.
    """
    fields = read_fields(content)
    schema = check_schema(fields, migrations)
    if schema >= SIGNED_SCHEMA_MIN:
        _check_checksum(fields)
    elif not accepts_unsigned:
        raise DocumentFormatError(f"no checksum: schema {schema} has none, and is damage here")
    return _document(migrate(fields, migrations)), schema


def sign_document(content: bytes) -> Document:
    """Parse a document that a person has edited; ignores its checksum.

    Args:
        content: Content of the file, of this or an earlier schema, with or without a checksum.

    Raises:
        DocumentFormatError: The content is not JSON, is too long, has another schema, or lacks a
            field.
    """
    fields = read_fields(content)
    check_schema(fields)
    fields.pop(CHECKSUM, None)
    return _document(migrate(fields))


def read_fields(content: bytes) -> dict[str, Any]:
    """Return the members of a document's JSON object, unchecked.

    Raises:
        DocumentFormatError: The content is too long, or not a JSON object.
    """
    if len(content) > DOCUMENT_BYTES_MAX:
        raise DocumentFormatError(f"{len(content)} bytes, at most {DOCUMENT_BYTES_MAX} allowed")
    try:
        fields = load(content)
    except (ValueError, RecursionError) as cause:
        raise DocumentFormatError(f"not JSON: {cause}") from cause
    if not isinstance(fields, dict):
        raise DocumentFormatError("not an object")
    return fields


def checksum(fields: dict[str, Any]) -> str:
    """Return the checksum of a document's members: 8 hexadecimal digits.

    It is the CRC-32C (Castagnoli) of their canonical JSON.

    Args:
        fields: All members except the checksum itself.
    """
    return f"{crc32c(canonical(fields)):08x}"


def _check_checksum(fields: dict[str, Any]) -> None:
    stored = fields.pop(CHECKSUM, None)
    if stored is None:
        raise DocumentFormatError("no checksum: the member 'crc32c' is missing")
    if (octets := orjson_canonical(fields)) and stored == f"{crc32c(octets):08x}":
        return
    try:
        computed = checksum(fields)
    except (ValueError, RecursionError) as cause:
        raise DocumentFormatError(f"its checksum cannot be computed: {cause}") from cause
    if stored != computed:
        raise DocumentFormatError(
            f"checksum does not fit: 'crc32c' is {stored!r}, the content has {computed!r}"
        )


def _document(fields: dict[str, Any]) -> Document:
    if fields.keys() != _FIELDS:
        expected = sorted(_FIELDS | {"schema", CHECKSUM})
        raise DocumentFormatError(f"not an object of exactly {expected}")
    kind, vhost, name, body = (fields[key] for key in ("kind", "vhost", "name", "body"))
    if not (isinstance(kind, str) and isinstance(vhost, str) and isinstance(name, str)):
        raise DocumentFormatError("kind, vhost and name must be text")
    if not isinstance(body, dict):
        raise DocumentFormatError("body must be an object")
    try:
        return Document(kind, vhost, name, body)
    except ValueError as cause:
        raise DocumentFormatError(str(cause)) from cause


def _dump(document: Document) -> bytes:
    fields = {
        "schema": SCHEMA,
        "kind": document.kind,
        "vhost": document.vhost,
        "name": document.name,
        "body": document.body,
    }
    return dump({**fields, CHECKSUM: checksum(fields)})
