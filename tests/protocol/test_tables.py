"""Field tables on the wire."""

import contextlib
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import AmqpError, FieldSyntaxError
from amqp_server.protocol.field_values import PythonValue
from amqp_server.protocol.tables import (
    TABLE_DEPTH_MAX,
    VOID,
    DecimalValue,
    FieldValue,
    Table,
    decode_table,
    decode_table_body,
    encode_table,
    field_value,
    has_more_values,
    table_of,
)
from tests.protocol.strategies import tables

# Kind and octets as they stand in a table, and what they mean.
VALUES = [
    (b"t\x00", FieldValue(b"t", False)),
    (b"t\x01", FieldValue(b"t", True)),
    (b"b\x80", FieldValue(b"b", -128)),
    (b"B\xff", FieldValue(b"B", 255)),
    (b"s\x80\x00", FieldValue(b"s", -32768)),
    (b"u\xff\xff", FieldValue(b"u", 65535)),
    (b"I\x80\x00\x00\x00", FieldValue(b"I", -(2**31))),
    (b"i\xff\xff\xff\xff", FieldValue(b"i", 2**32 - 1)),
    (b"l\x80\x00\x00\x00\x00\x00\x00\x00", FieldValue(b"l", -(2**63))),
    (b"L\xff\xff\xff\xff\xff\xff\xff\xff", FieldValue(b"L", -1)),
    (b"f\x3f\xc0\x00\x00", FieldValue(b"f", 1.5)),
    (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", FieldValue(b"d", 1.5)),
    (b"d\x7f\xf0\x00\x00\x00\x00\x00\x00", FieldValue(b"d", math.inf)),
    (b"D\x02\x00\x00\x01\x3a", FieldValue(b"D", DecimalValue(2, 314))),
    (b"D\xff\xff\xff\xff\xff", FieldValue(b"D", DecimalValue(255, -1))),
    (b"S\x00\x00\x00\x02\xff\x00", FieldValue(b"S", b"\xff\x00")),
    (b"x\x00\x00\x00\x01a", FieldValue(b"x", b"a")),
    (b"T\xff\xff\xff\xff\xff\xff\xff\xff", FieldValue(b"T", 2**64 - 1)),
    (b"V", VOID),
    (b"A\x00\x00\x00\x00", FieldValue(b"A", [])),
    (b"A\x00\x00\x00\x03t\x01V", FieldValue(b"A", [FieldValue(b"t", True), VOID])),
    (b"F\x00\x00\x00\x00", FieldValue(b"F", {})),
    (b"F\x00\x00\x00\x04\x01kb\x07", FieldValue(b"F", {"k": FieldValue(b"b", 7)})),
]
FLOATS_TO_KEEP = [
    b"f\x7f\xc0\x00\x00",  # the usual quiet NaN
    b"f\xff\xc0\x00\x01",  # negative, with a payload
    b"f\x7f\x80\x00\x01",  # signalling
    b"f\xff\xbf\xff\xff",  # signalling, negative, full payload
    b"f\x80\x00\x00\x00",  # -0.0
    b"f\x00\x00\x00\x01",  # least subnormal
    b"f\x7f\x80\x00\x00",  # infinity
    b"d\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"d\xff\xf8\x00\x00\x00\x00\x00\x01",
    b"d\x7f\xf0\x00\x00\x00\x00\x00\x01",
    b"d\x80\x00\x00\x00\x00\x00\x00\x00",
    b"d\x00\x00\x00\x00\x00\x00\x00\x01",
]
MALFORMED_BODIES = [
    b"\x01kZ\x00",  # unknown kind
    b"\x01k",  # no kind
    b"\x01kF\x00\x00\x00\x03\x01kb\x07",  # inner table ends inside its own entry
    b"\x01kA\x00\x00\x00\x01b\x07",  # array ends inside its item
    b"\x01kA\x00\x00\x00\x09b\x07",  # array longer than the data
    b"\x01kS\xff\xff\xff\xff",  # string longer than the data
    b"\x09k",  # key longer than the data
]
UNFIT_VALUES = [
    FieldValue(b"b", 128),
    FieldValue(b"B", -1),
    FieldValue(b"T", 2**64),
    FieldValue(b"I", 2**31),
    FieldValue(b"D", DecimalValue(256, 0)),
    FieldValue(b"f", 1e300),
    FieldValue(b"S", "text"),  # type: ignore[arg-type]
    FieldValue(b"V", 0),
    FieldValue(b"Z", 0),
]


def table_bytes(value: bytes) -> bytes:
    """Return a table whose only entry has the key `k`."""
    return struct.pack(">I", 2 + len(value)) + b"\x01k" + value


def nested(kind: bytes, levels: int) -> bytes:
    """Return a table with levels of tables or arrays inside it."""
    key = b"\x01k" if kind == b"F" else b""
    inner = b""
    for _ in range(levels):
        inner = kind + struct.pack(">I", len(inner)) + inner
        inner = key + inner
    return struct.pack(">I", len(inner)) + inner if key else table_bytes(inner)


@pytest.mark.parametrize(("octets", "value"), VALUES, ids=lambda row: repr(row)[:24])
def test_each_kind_has_its_octets(octets: bytes, value: FieldValue) -> None:
    data = table_bytes(octets)
    assert decode_table(data) == ({"k": value}, len(data))
    assert encode_table({"k": value}) == data


@pytest.mark.parametrize("octets", FLOATS_TO_KEEP)
def test_every_bit_of_a_float_survives(octets: bytes) -> None:
    data = table_bytes(octets)
    assert encode_table(decode_table(data)[0]) == data


def test_a_nan_whose_payload_a_short_float_cannot_hold_stays_a_nan() -> None:
    nan = struct.unpack(">d", b"\x7f\xf0\x00\x00\x00\x00\x00\x01")[0]
    assert encode_table({"k": FieldValue(b"f", nan)}) == table_bytes(b"f\x7f\xc0\x00\x00")


def test_of_a_key_sent_twice_the_last_value_counts() -> None:
    assert decode_table_body(b"\x01kb\x01\x01jb\x02\x01kb\x03") == {
        "k": FieldValue(b"b", 3),
        "j": FieldValue(b"b", 2),
    }


def test_a_boolean_above_one_is_true() -> None:
    assert decode_table_body(b"\x01kt\x02") == {"k": FieldValue(b"t", True)}


def test_a_table_is_read_where_it_begins_and_up_to_its_end() -> None:
    data = b"before" + table_bytes(b"b\x07") + b"after"
    assert decode_table(data, 6) == ({"k": FieldValue(b"b", 7)}, len(data) - 5)


@given(tables)
def test_any_table_survives_bit_for_bit(table: Table) -> None:
    data = encode_table(table)
    decoded, position = decode_table(data)
    assert position == len(data)
    assert list(decoded) == list(table)
    assert encode_table(decoded) == data
    assert decode_table_body(data[4:]).keys() == table.keys()


@given(tables)
def test_a_table_cut_anywhere_is_refused(table: Table) -> None:
    data = encode_table(table)
    for end in range(len(data)):
        with pytest.raises(FieldSyntaxError):
            decode_table(data[:end])


@pytest.mark.parametrize("octets", [octets for octets, _ in VALUES])
def test_a_body_cut_inside_a_value_is_refused(octets: bytes) -> None:
    body = b"\x01k" + octets
    for end in range(1, len(body)):
        with pytest.raises(FieldSyntaxError):
            decode_table_body(body[:end])


@pytest.mark.parametrize("body", MALFORMED_BODIES)
def test_a_malformed_table_is_refused(body: bytes) -> None:
    with pytest.raises(FieldSyntaxError) as caught:
        decode_table_body(body)
    assert caught.value.reply_code == 502
    with pytest.raises(FieldSyntaxError):
        decode_table(struct.pack(">I", len(body)) + body)


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_amqp_errors(data: bytes) -> None:
    with contextlib.suppress(AmqpError):
        decode_table(data)
    with contextlib.suppress(AmqpError):
        decode_table_body(data)


@given(tables, st.data())
def test_a_flipped_byte_raises_nothing_but_amqp_errors(table: Table, data: st.DataObject) -> None:
    octets = bytearray(encode_table(table))
    position = data.draw(st.integers(0, len(octets) - 1))
    octets[position] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(AmqpError):
        encode_table(decode_table(bytes(octets))[0])


@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_the_deepest_table_allowed_survives(kind: bytes) -> None:
    data = nested(kind, TABLE_DEPTH_MAX - 1)
    assert encode_table(decode_table(data)[0]) == data


@pytest.mark.parametrize("kind", [b"F", b"A"])
@pytest.mark.parametrize("levels", [TABLE_DEPTH_MAX, 1_000, 20_000])
def test_a_table_too_deep_is_a_syntax_error(kind: bytes, levels: int) -> None:
    with pytest.raises(FieldSyntaxError, match="64 levels"):
        decode_table(nested(kind, levels))


@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_a_table_too_deep_is_not_encoded(kind: bytes) -> None:
    value = FieldValue(kind, {} if kind == b"F" else [])
    for _ in range(1_000):
        value = FieldValue(kind, {"k": value} if kind == b"F" else [value])
    with pytest.raises(FieldSyntaxError, match="64 levels"):
        encode_table({"k": value})


@pytest.mark.parametrize("value", UNFIT_VALUES)
def test_a_value_that_does_not_fit_its_kind_is_not_encoded(value: FieldValue) -> None:
    with pytest.raises(FieldSyntaxError):
        encode_table({"k": value})


def test_a_key_longer_than_a_short_string_is_not_encoded() -> None:
    with pytest.raises(FieldSyntaxError):
        encode_table({"k" * 256: VOID})


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        (None, VOID),
        (True, FieldValue(b"t", True)),
        (2**31 - 1, FieldValue(b"I", 2**31 - 1)),
        (-(2**31) - 1, FieldValue(b"l", -(2**31) - 1)),
        (1.5, FieldValue(b"d", 1.5)),
        ("€", FieldValue(b"S", b"\xe2\x82\xac")),
        (b"\xff", FieldValue(b"S", b"\xff")),
        (FieldValue(b"T", 1), FieldValue(b"T", 1)),
        ([1, "a"], FieldValue(b"A", [FieldValue(b"I", 1), FieldValue(b"S", b"a")])),
        ({"a": {}}, FieldValue(b"F", {"a": FieldValue(b"F", {})})),
    ],
)
def test_plain_values_get_the_kinds_that_clients_send(
    plain: PythonValue, value: FieldValue
) -> None:
    assert field_value(plain) == value
    assert table_of({"k": plain}) == {"k": value}


def values_of(value: FieldValue) -> int:
    """Return how many values one has: itself, and those in it."""
    match value.value:
        case list(items):
            return 1 + sum(map(values_of, items))
        case dict(table):
            return 1 + sum(map(values_of, table.values()))
        case _:
            return 1


@given(tables)
def test_the_values_of_a_table_are_counted_in_all_levels(table: Table) -> None:
    count = sum(map(values_of, table.values()))
    octets = b"before" + encode_table(table) + b"after"

    assert not has_more_values(octets, 6, count)
    assert count == 0 or has_more_values(octets, 6, count - 1)


@given(st.binary(max_size=100), st.integers(0, 10))
def test_a_malformed_table_can_be_counted(octets: bytes, count_max: int) -> None:
    assert has_more_values(struct.pack(">I", len(octets)) + octets, 0, count_max) in (False, True)
