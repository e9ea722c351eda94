"""The JSON form of a document."""

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import document as module
from metadata.document import (
    SCHEMA,
    Document,
    checksum,
    decode_document,
    encode_document,
    sign_document,
)
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

UNSIGNED = {"schema": 1, "kind": "queues", "vhost": "/", "name": "q", "body": {}}


def signed(**changes: object) -> bytes:
    """Return the content of a document with these members changed, and the checksum of them."""
    fields = UNSIGNED | {"schema": SCHEMA} | changes
    return orjson.dumps(fields | {"crc32c": checksum(fields)})


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
        '{\n  "schema": 2,\n  "kind": "queues",\n  "vhost": "/",\n  "name": "Größe",\n'
        '  "body": {\n    "durable": true\n  },\n  "crc32c": "6688ad84"\n}\n'
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
        (signed(more=1), "not an object"),
        (signed(schema=3), "schema 3 is of a newer program"),
        (signed(schema=True), "schema is True"),
        (signed(schema=0), "schema is 0"),
        (signed(kind=1), "must be text"),
        (signed(vhost=None), "must be text"),
        (signed(name=[]), "must be text"),
        (signed(body=[]), "must be an object"),
        (signed(kind="../x"), "lower-case word"),
        (signed().replace(b'"q"', b'"r"'), "checksum does not fit"),
        (orjson.dumps(UNSIGNED), "no checksum: schema 1 has none, and is damage here"),
        (orjson.dumps(UNSIGNED | {"schema": 2}), "no checksum: the member 'crc32c' is missing"),
        (orjson.dumps(UNSIGNED | {"schema": 2, "crc32c": 1}), "checksum does not fit"),
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


def test_a_document_of_an_earlier_schema_is_read_where_such_documents_are_valid() -> None:
    content = orjson.dumps(UNSIGNED)
    assert decode_document(content, accepts_unsigned=True) == Document("queues", "/", "q", {})
    with pytest.raises(DocumentFormatError, match="no checksum"):
        decode_document(content)
    # Never one that has lost its checksum.
    with pytest.raises(DocumentFormatError, match="no checksum"):
        decode_document(orjson.dumps(UNSIGNED | {"schema": 2}), accepts_unsigned=True)


def test_every_flipped_bit_of_a_document_is_noticed_or_changes_nothing() -> None:
    document = Document(
        "queues", "/", "orders", {"incarnation": "0b5f3a52", "x": [1, 2.5, None, True, "ö\udcff"]}
    )
    content = encode_document(document)
    noticed = 0
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        for accepts_unsigned in (False, True):
            try:
                assert (
                    decode_document(bytes(flipped), accepts_unsigned=accepts_unsigned) == document
                )
            except DocumentFormatError:
                noticed += 1
    # Spaces between members are no part of what a document says.
    assert noticed > 2 * 7 * len(content)


def test_a_person_may_indent_and_order_a_document_as_they_like() -> None:
    document = Document("queues", "/", "orders", {"b": 1, "a": {"z": [], "y": 2}})
    fields = orjson.loads(encode_document(document))
    assert decode_document(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)) == document


def test_an_edited_document_is_signed_whatever_its_checksum_says() -> None:
    document = Document("queues", "/", "orders", {"a": 1})
    edited = encode_document(document).replace(b'"a": 1', b'"a": 2')
    with pytest.raises(DocumentFormatError, match="checksum does not fit"):
        decode_document(edited)
    signed_again = encode_document(sign_document(edited))
    assert decode_document(signed_again) == Document("queues", "/", "orders", {"a": 2})
    assert sign_document(orjson.dumps(UNSIGNED)) == Document("queues", "/", "q", {})
    with pytest.raises(DocumentFormatError, match="not JSON"):
        sign_document(edited[:-3])


def test_a_document_too_deep_for_a_checksum_is_refused() -> None:
    content = signed().replace(b'"body":{}', b'"body":{"x":' + b"[" * 990 + b"]" * 990 + b"}")
    with pytest.raises(DocumentFormatError):
        decode_document(content)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
def test_a_number_that_is_not_json_does_not_fit_the_checksum_of_null(number: bytes) -> None:
    content = encode_document(Document("queues", "/", "a", {"limit": None}))
    with pytest.raises(DocumentFormatError, match="checksum"):
        decode_document(content.replace(b"null", number))
