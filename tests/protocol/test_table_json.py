"""Field tables in metadata files."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given

from amqp_server.protocol.tables import (
    VOID,
    DecimalValue,
    FieldValue,
    Table,
    decode_table,
    encode_table,
    table_from_json,
    table_to_json,
)
from tests.protocol.strategies import tables

DOCUMENTS: list[tuple[Table, dict[str, Any]]] = [
    ({}, {}),
    ({"x-max-length": FieldValue(b"I", 5)}, {"x-max-length": 5}),
    ({"x-overflow": FieldValue(b"S", b"drop-head")}, {"x-overflow": "drop-head"}),
    ({"k": FieldValue(b"t", True)}, {"k": True}),
    ({"k": FieldValue(b"d", 10.0)}, {"k": 10.0}),
    ({"k": VOID}, {"k": None}),
    ({"k": FieldValue(b"A", [FieldValue(b"I", 1), VOID])}, {"k": [1, None]}),
    ({"k": FieldValue(b"l", 5)}, {"k": {"kind": "l", "value": 5}}),
    ({"k": FieldValue(b"T", 2**64 - 1)}, {"k": {"kind": "T", "value": 2**64 - 1}}),
    ({"k": FieldValue(b"f", 1.5)}, {"k": {"kind": "f", "value": 1.5}}),
    ({"k": FieldValue(b"S", b"\xff")}, {"k": {"kind": "S", "base64": "/w=="}}),
    ({"k": FieldValue(b"x", b"a")}, {"k": {"kind": "x", "base64": "YQ=="}}),
    (
        {"k": FieldValue(b"D", DecimalValue(2, 314))},
        {"k": {"kind": "D", "scale": 2, "unscaled": 314}},
    ),
    (
        {"k": FieldValue(b"F", {"kind": FieldValue(b"S", b"F")})},
        {"k": {"kind": "F", "value": {"kind": "F"}}},
    ),
    (
        {"k": FieldValue(b"d", float("-inf"))},
        {"k": {"kind": "d", "bits": "fff0000000000000"}},
    ),
    ({"\udcff": VOID}, {"base64:/w==": None}),
    ({"base64:": VOID}, {"base64:YmFzZTY0Og==": None}),
]
NOT_DOCUMENTS: list[Any] = [
    [],
    {"k": 2**31},
    {"k": {}},
    {"k": {"kind": "Z", "value": 1}},
    {"k": {"kind": "b", "value": 128}},
    {"k": {"kind": "f", "value": "1.5"}},
    {"k": {"kind": "D", "scale": 256, "unscaled": 1}},
    {"k": {"kind": "S", "base64": "*"}},
    {"k": {"kind": "d", "bits": "00"}},
    {"k": {"kind": "d", "bits": "zz"}},
    {"k": "\ud800"},
    {"\ud800": None},
    {"base64:*": None},
    {"k": b"bytes"},
]


@pytest.mark.parametrize(("table", "document"), DOCUMENTS)
def test_each_value_has_its_json_form(table: Table, document: dict[str, Any]) -> None:
    assert table_to_json(table) == document
    assert table_from_json(document) == table


@given(tables)
def test_any_table_survives_json_bit_for_bit(table: Table) -> None:
    data = encode_table(table)
    document = table_to_json(table)
    for text in (json.dumps(document), orjson.dumps(document)):
        assert encode_table(table_from_json(json.loads(text))) == data
        assert encode_table(table_from_json(orjson.loads(text))) == data


@pytest.mark.parametrize("document", NOT_DOCUMENTS, ids=repr)
def test_a_document_that_no_table_has_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a field table"):
        table_from_json(document)


def test_a_document_too_deep_is_refused() -> None:
    for wrap in (lambda inner: [inner], lambda inner: {"kind": "F", "value": {"k": inner}}):
        document: Any = None
        for _ in range(400):
            document = wrap(document)
        with pytest.raises(ValueError, match="64 levels"):
            table_from_json({"k": document})


def test_a_file_written_today_is_read_by_hand() -> None:
    octets = b"\x00\x00\x00\x11\x0dx-message-ttlu\xea\x60"
    document = table_to_json(decode_table(octets)[0])
    assert document == {"x-message-ttl": {"kind": "u", "value": 60000}}
