"""Equality of arguments and headers, and how texts name values."""

from struct import pack, unpack

import pytest

from amqp_server.protocol.tables import (
    VOID,
    DecimalValue,
    FieldValue,
    describe,
    describe_difference,
    same_value,
)


def nan(payload: int = 0) -> FieldValue:
    """Return a quiet NaN, each time another object."""
    (number,) = unpack(">d", pack(">Q", 0x7FF8 << 48 | payload))
    return FieldValue(b"d", number)


ONE = [FieldValue(kind, 1) for kind in (b"b", b"B", b"s", b"u", b"I", b"i", b"l", b"L")]
TEXTS = [
    (None, "none"),
    (FieldValue(b"l", 1), "the value '1' of type 'long'"),
    (FieldValue(b"I", -1), "the value '-1' of type 'signedint'"),
    (FieldValue(b"S", b"classic"), "the value 'classic' of type 'longstr'"),
    (FieldValue(b"S", "€".encode()), "the value '€' of type 'longstr'"),
    (FieldValue(b"t", True), "the value 'true' of type 'bool'"),
    (FieldValue(b"t", False), "the value 'false' of type 'bool'"),
    (FieldValue(b"d", 10.0), "the value '10.0' of type 'double'"),
    (FieldValue(b"d", 1e22), "the value '1.0e22' of type 'double'"),
    (FieldValue(b"d", 1.5e-7), "the value '1.5e-7' of type 'double'"),
    (FieldValue(b"D", DecimalValue(2, 314)), "the value '{2,314}' of type 'decimal'"),
    (FieldValue(b"T", 7), "the value '7' of type 'timestamp'"),
    (VOID, "the value 'undefined' of type 'void'"),
    (
        FieldValue(b"A", [FieldValue(b"I", 1), FieldValue(b"S", b'a"')]),
        "the value '[{signedint,1},{longstr,<<\"a\\\"\">>}]' of type 'array'",
    ),
    (
        FieldValue(b"F", {"k": FieldValue(b"x", b"\xff\x01"), "": FieldValue(b"S", b"")}),
        "the value '[{<<\"k\">>,binary,<<255,1>>},{<<>>,longstr,<<>>}]' of type 'table'",
    ),
]


@pytest.mark.parametrize("other", ONE)
@pytest.mark.parametrize("one", ONE)
def test_integers_of_any_width_are_equal_by_value(one: FieldValue, other: FieldValue) -> None:
    assert same_value(one, other)
    assert not same_value(one, FieldValue(other.kind, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FieldValue(b"f", 1.5), FieldValue(b"d", 1.5)),
        (FieldValue(b"S", b"a"), FieldValue(b"S", b"a")),
        (FieldValue(b"S", b"a"), FieldValue(b"x", b"a")),
        (FieldValue(b"A", [FieldValue(b"I", 1)]), FieldValue(b"A", [FieldValue(b"I", 1)])),
        (VOID, FieldValue(b"V", None)),
        (nan(), nan()),
        (FieldValue(b"f", nan().value), nan()),
        (FieldValue(b"A", [nan()]), FieldValue(b"A", [nan()])),
        (FieldValue(b"F", {"k": nan()}), FieldValue(b"F", {"k": nan()})),
        (FieldValue(b"d", 0.0), FieldValue(b"d", -0.0)),
    ],
)
def test_equal_values_are_equal(one: FieldValue, other: FieldValue) -> None:
    assert same_value(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FieldValue(b"I", 10), FieldValue(b"d", 10.0)),
        (FieldValue(b"I", 1), FieldValue(b"t", True)),
        (FieldValue(b"I", 7), FieldValue(b"T", 7)),
        (FieldValue(b"S", b"a"), FieldValue(b"S", b"A")),
        (FieldValue(b"S", b"a"), FieldValue(b"x", b"A")),
        (FieldValue(b"S", b"1"), FieldValue(b"I", 1)),
        (VOID, FieldValue(b"t", False)),
        (FieldValue(b"A", [FieldValue(b"I", 1)]), FieldValue(b"A", [FieldValue(b"l", 1)])),
        (nan(), FieldValue(b"d", 0.0)),
        (nan(), nan(payload=1)),
        (FieldValue(b"F", {"k": nan()}), FieldValue(b"F", {"k": nan(payload=1)})),
        (FieldValue(b"F", {"k": nan()}), FieldValue(b"F", {"other": nan()})),
    ],
)
def test_values_of_other_types_differ(one: FieldValue, other: FieldValue) -> None:
    assert not same_value(one, other)
    assert not same_value(other, one)


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_texts_name_value_and_type_as_rabbitmq_does(value: FieldValue | None, text: str) -> None:
    assert describe(value) == text


def test_a_difference_names_types_only_when_one_side_is_absent() -> None:
    one, two = FieldValue(b"l", 1), FieldValue(b"S", b"two")
    assert describe_difference(None, one) == (
        "received none but current is the value '1' of type 'long'"
    )
    assert describe_difference(two, None) == (
        "received the value 'two' of type 'longstr' but current is none"
    )
    assert describe_difference(one, two) == "received '1' but current is 'two'"
