"""The JSON form of a document."""

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import document as module
from metadata.document import Document, decode_document, encode_document
from metadata.errors import DocumentFormatError, UnstorableDocumentError

wire_text = st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | wire_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(wire_text, inner, max_size=4),
    max_leaves=12,
)

VALID = {"schema": 1, "kind": "queues", "vhost": "/", "name": "q", "body": {}}


@given(wire_text, wire_text, st.dictionaries(wire_text, json_values, max_size=4))
def test_a_document_round_trips_whatever_bytes_its_names_had(
    vhost: str, name: str, body: dict[str, Any]
) -> None:
    document = Document("queues", vhost, name, body)
    content = encode_document(document)
    assert content.endswith(b"}\n")
    decoded = decode_document(content)
    assert decoded == document
    assert repr(decoded) == repr(document)


def test_a_document_is_indented_json_with_its_identity_inside() -> None:
    content = encode_document(Document("queues", "/", "Größe", {"durable": True}))
    assert content.decode() == (
        '{\n  "schema": 1,\n  "kind": "queues",\n  "vhost": "/",\n  "name": "Größe",\n'
        '  "body": {\n    "durable": true\n  }\n}\n'
    )


@pytest.mark.parametrize(
    "body",
    [
        {"x": math.nan},
        {"x": math.inf},
        {"\udcff": math.nan},
        {"x": b"bytes"},
        {"x": (1, 2)},
        {"x": object},
        {"x": 2**64},
        {"x": {1: "a"}},
        {"x": "\ud800", 1: 2},
    ],
    ids=repr,
)
def test_what_json_cannot_hold_exactly_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UnstorableDocumentError) as refused:
        encode_document(Document("queues", "/", "q", body))
    assert (refused.value.kind, refused.value.name) == ("queues", "q")
    assert refused.value.reason


def test_a_body_too_deep_for_json_is_refused() -> None:
    body: dict[str, Any] = {}
    for _ in range(100_000):
        body = {"x": body}
    with pytest.raises(UnstorableDocumentError):
        encode_document(Document("queues", "/", "q", body))
    while body:
        body = body.pop("x")


def test_a_body_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DOCUMENT_BYTES_MAX", 200)
    encode_document(Document("queues", "/", "q", {"x": "y" * 50}))
    with pytest.raises(UnstorableDocumentError, match="at most 200"):
        encode_document(Document("queues", "/", "q", {"x": "y" * 200}))


@pytest.mark.parametrize("kind", ["", "../x", "a/b", "Queues", ".", "a" * 65, "1", "queues\n"])
def test_a_kind_that_is_not_a_plain_word_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="kind"):
        Document(kind, "/", "q", {})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"\0" * 100, "not JSON"),
        (b"\xff{}", "not JSON"),
        (b'{"body": NaN}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "schema is None"),
        (orjson.dumps(VALID | {"more": 1}), "not an object"),
        (orjson.dumps(VALID | {"schema": 2}), "schema 2 is of a newer program"),
        (orjson.dumps(VALID | {"schema": True}), "schema is True"),
        (orjson.dumps(VALID | {"schema": 0}), "schema is 0"),
        (orjson.dumps(VALID | {"kind": 1}), "must be text"),
        (orjson.dumps(VALID | {"vhost": None}), "must be text"),
        (orjson.dumps(VALID | {"name": []}), "must be text"),
        (orjson.dumps(VALID | {"body": []}), "must be an object"),
        (orjson.dumps(VALID | {"kind": "../x"}), "lower-case word"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_content_that_is_no_document_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(DocumentFormatError, match=reason):
        decode_document(content)


def test_every_cut_of_a_document_but_the_last_newline_is_refused() -> None:
    content = encode_document(Document("queues", "/", "q\udcff", {"durable": True}))
    for end in range(len(content) - 1):
        with pytest.raises(DocumentFormatError):
            decode_document(content[:end])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_refused(content: bytes) -> None:
    with pytest.raises(DocumentFormatError):
        decode_document(content)
