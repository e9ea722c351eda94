"""One definition (a queue, an exchange, a user, ...) and its JSON form.

What JSON itself cannot hold exactly (NaN, bytes, tuples, keys that are not text) is
refused before anything is written: each document is read back from its bytes and compared.

The last member, `crc32c`, is a checksum of all others, so that a flipped bit is never taken for
another definition. It is of what they say, not of the file's bytes: a person may indent and order
the file as they like. Whoever changes a value has it signed by
`amqp-server repair --accept-definition`. Drawn in docs/metadata-format.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from appendlog.layout.crc import crc32c
from metadata.errors import DocumentFormatError, UnstorableDocumentError
from metadata.json_octets import canonical, dump, load
from metadata.migrations import MIGRATIONS, Migration, check_schema, migrate, newest_schema

SCHEMA: Final = newest_schema()
"""Value of `schema` in every document written."""

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Longest document, as JSON, that is written or read."""

CHECKSUM: Final = "crc32c"
"""Name of the member with the checksum."""
SIGNED_SCHEMA_MIN: Final = 2
"""Documents of this schema and of later ones have a checksum."""

_KIND: Final = re.compile(r"[a-z][a-z_-]{0,63}")
_FIELDS: Final = {"kind", "vhost", "name", "body"}


def is_kind(name: str) -> bool:
    """Return whether documents may be of a kind with this name."""
    return _KIND.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Document:
    """One named entity of the broker, as plain data.

    Attributes:
        kind: What it is, in plural (`queues`, `users`): lower-case letters, `-`, `_`; at most 64.
            It is a directory's name, so it is the program's choice, never a client's.
        vhost: Virtual host it belongs to, any text; empty for what belongs to none.
        name: Its name, any text; unique within kind and vhost.
        body: Its properties: only what JSON holds exactly (None, bool, int of 64 bits, finite
            float, str, list, dict with str keys). Not copied; do not change it afterwards.
    """

    kind: str
    vhost: str
    name: str
    body: dict[str, Any]

    def __post_init__(self) -> None:
        """Check that the kind is a plain word, because it becomes a path."""
        if not is_kind(self.kind):
            raise ValueError(f"document kind must be a lower-case word, found {self.kind!r}")


def encode_document(document: Document) -> bytes:
    """Return the document's file content: indented JSON, one final newline.

    Raises:
        UnstorableDocumentError: It would not read back equal, or is longer than
            `DOCUMENT_BYTES_MAX`.
    """
    try:
        content = _dump(document)
        decoded = decode_document(content)
        # Equal is not enough: a large integer comes back as an equal float.
        is_exact = decoded == document and _dump(decoded) == content
    except (TypeError, ValueError, RecursionError, DocumentFormatError) as cause:
        raise UnstorableDocumentError(document.kind, document.name, str(cause)) from cause
    if not is_exact:
        reason = "it does not read back equal"
        raise UnstorableDocumentError(document.kind, document.name, reason)
    return content


def decode_document(
    content: bytes,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    accepts_unsigned: bool = False,
) -> Document:
    """Read a document's file content, as `decode_with_schema` does."""
    return decode_with_schema(content, migrations, accepts_unsigned=accepts_unsigned)[0]


def decode_with_schema(
    content: bytes,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    accepts_unsigned: bool = False,
) -> tuple[Document, int]:
    """Read a document's file content, and the schema that it is stored in.

    Args:
        content: Of the file.
        migrations: How earlier schemas are read.
        accepts_unsigned: Take documents of schemas that had no checksum; elsewhere than in a data
            directory of an earlier format they are damage.

    Raises:
        DocumentFormatError: It is not JSON, too long, of another schema, lacks a field, or its
            checksum is missing or does not fit.
    """
    fields = read_fields(content)
    schema = check_schema(fields, migrations)
    if schema >= SIGNED_SCHEMA_MIN:
        _check_checksum(fields)
    elif not accepts_unsigned:
        raise DocumentFormatError(f"no checksum: schema {schema} has none, and is damage here")
    return _document(migrate(fields, migrations)), schema


def sign_document(content: bytes) -> Document:
    """Read a document that a person has edited, whatever its checksum says.

    Args:
        content: Of the file: of this schema or an earlier one, with a checksum or without.

    Raises:
        DocumentFormatError: It is not JSON, too long, of another schema, or lacks a field.
    """
    fields = read_fields(content)
    check_schema(fields)
    fields.pop(CHECKSUM, None)
    return _document(migrate(fields))


def read_fields(content: bytes) -> dict[str, Any]:
    """Return the members of a document's JSON object, none of them checked.

    Raises:
        DocumentFormatError: It is too long, or not a JSON object.
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

    CRC-32C (Castagnoli) of their canonical JSON.

    Args:
        fields: All members but the checksum itself.
    """
    return f"{crc32c(canonical(fields)):08x}"


def _check_checksum(fields: dict[str, Any]) -> None:
    stored = fields.pop(CHECKSUM, None)
    if stored is None:
        raise DocumentFormatError("no checksum: the member 'crc32c' is missing")
    try:
        computed = checksum(fields)
    except (ValueError, RecursionError) as cause:
        raise DocumentFormatError(f"no checksum can be made of it: {cause}") from cause
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
