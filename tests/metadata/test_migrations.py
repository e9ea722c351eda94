"""Documents of earlier and of later schemas."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from metadata.document import Document, checksum, decode_document, encode_document
from metadata.errors import DocumentFormatError
from metadata.migrations import MIGRATIONS, OLDEST_SCHEMA, newest_schema
from metadata.store import MetadataStore

# As it was written by the first version that had documents; never to be changed.
STORED_SCHEMA_1 = b"""{
  "schema": 1,
  "kind": "queues",
  "vhost": "/",
  "name": "orders",
  "body": {
    "incarnation": "0b5f3a52-7e5c-4f1e-9d34-6f0d7f9d7f11",
    "auto_delete": false,
    "arguments": {}
  }
}
"""


def signed(fields: dict[str, Any]) -> bytes:
    """Return the content of a document with a checksum."""
    return orjson.dumps(fields | {"crc32c": checksum(fields)})


def rename_kind(fields: dict[str, Any]) -> dict[str, Any]:
    """Turn schema 1 into a schema 2 that calls the kind `type` and has no body."""
    kind = fields.pop("kind")
    return {**fields, "type": kind}


def nest(fields: dict[str, Any]) -> dict[str, Any]:
    """Turn that schema 2 into a schema 3 like the first, with one more property."""
    kind = fields.pop("type")
    return {**fields, "kind": kind, "body": {**fields["body"], "is_new": False}}


def test_the_oldest_document_is_still_read() -> None:
    document = decode_document(STORED_SCHEMA_1, accepts_unsigned=True)
    assert (document.kind, document.vhost, document.name) == ("queues", "/", "orders")
    assert document.body["incarnation"] == "0b5f3a52-7e5c-4f1e-9d34-6f0d7f9d7f11"
    written = orjson.loads(encode_document(document))
    assert written["schema"] == newest_schema() == OLDEST_SCHEMA + len(MIGRATIONS)


def test_each_step_leads_from_one_schema_to_the_next() -> None:
    steps = (rename_kind, nest)
    old = decode_document(STORED_SCHEMA_1, steps, accepts_unsigned=True)
    unchanged = decode_document(STORED_SCHEMA_1, accepts_unsigned=True)
    assert old.body == {**unchanged.body, "is_new": False}
    between = {"schema": 2, "type": "queues", "vhost": "/", "name": "q", "body": {}}
    assert decode_document(signed(between), steps) == Document(
        "queues", "/", "q", {"is_new": False}
    )
    newest = {"schema": 3, "kind": "queues", "vhost": "/", "name": "q", "body": {}}
    assert decode_document(signed(newest), steps) == Document("queues", "/", "q", {})


def test_a_step_that_does_not_fit_is_told_and_no_traceback() -> None:
    with pytest.raises(DocumentFormatError, match="cannot be read as schema 3: KeyError"):
        decode_document(
            STORED_SCHEMA_1.replace(b"body", b"bodi"), (rename_kind, nest), accepts_unsigned=True
        )


async def test_a_newer_document_is_refused_by_name_and_the_rest_is_read(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    kept = Document("queues", "/", "kept", {})
    await store.put(kept)
    newer = tmp_path / "queues" / "%2f" / "newer.json"
    content = STORED_SCHEMA_1.replace(b'"schema": 1', b'"schema": 7').replace(b"orders", b"newer")
    newer.write_bytes(content)
    report = await MetadataStore(tmp_path).load()
    assert report.documents == [kept]
    [unreadable] = report.unreadable
    assert unreadable.path == newer
    assert unreadable.reason == "schema 7 is of a newer program; this one reads 1 to 2"
    assert newer.read_bytes() == content
