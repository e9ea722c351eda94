"""What `x-stream-offset` may be, and what it means."""

import pytest

from amqp_server.broker.age_text import AGE_NS_MAX, age_ns
from amqp_server.broker.subscriptions.start_position import (
    START_FIRST,
    START_LAST,
    START_NEXT,
    TIME_NS_MAX,
    StartKind,
    StartPosition,
    parse_start,
)
from amqp_server.protocol.field_values import FieldData, FieldValue
from appendlog.layout.format import OFFSET_MAX

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
NOW_NS = 1_700_000_000 * SECOND_NS


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        (b"1s", SECOND_NS),
        (b"030s", 30 * SECOND_NS),
        (b"2m", 120 * SECOND_NS),
        (b"1h", 3600 * SECOND_NS),
        (b"7D", 7 * DAY_NS),
        (b"1M", 30 * DAY_NS),
        (b"1Y", 365 * DAY_NS),
        (b"999Y", AGE_NS_MAX),
        (b"9" * 100 + b"s", AGE_NS_MAX),
    ],
)
def test_an_age_is_a_number_and_a_unit(text: bytes, expected_ns: int) -> None:
    assert age_ns(text) == expected_ns


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1",
        b"h",
        b"0s",
        b"000D",
        b"1H",
        b"1d",
        b"-1h",
        b"1.5h",
        b"1 h",
        b" 1h",
        b"1h\n",
        b"1h30m",
        "\u0661h".encode(),
        b"9" * 5000 + b"s",
    ],
)
def test_anything_else_is_no_age(text: bytes) -> None:
    assert age_ns(text) is None


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (b"S", b"first", START_FIRST),
        (b"S", b"last", START_LAST),
        (b"S", b"next", START_NEXT),
        (b"b", 0, StartPosition(StartKind.OFFSET)),
        (b"l", 7, StartPosition(StartKind.OFFSET, 7)),
        (b"l", 2**63 - 1, StartPosition(StartKind.OFFSET, OFFSET_MAX)),
        (b"b", -1, START_LAST),
        (b"l", -(2**63), StartPosition(StartKind.TAIL, 2**63)),
        (b"T", 1, StartPosition(StartKind.TIME, SECOND_NS)),
        (b"T", 2**63, StartPosition(StartKind.TIME, TIME_NS_MAX)),
        (b"S", b"ts:0", StartPosition(StartKind.TIME)),
        (b"S", b"ts:1700000000123456789", StartPosition(StartKind.TIME, 1_700_000_000_123_456_789)),
        (b"S", b"ts:9999999999999999999", StartPosition(StartKind.TIME, TIME_NS_MAX)),
        (b"S", b"1h", StartPosition(StartKind.TIME, NOW_NS - 3600 * SECOND_NS)),
        (b"S", b"99Y", StartPosition(StartKind.TIME, 0)),
    ],
)
def test_a_position_is_a_name_an_offset_a_time_or_an_age(
    kind: bytes, data: FieldData, expected: StartPosition
) -> None:
    assert parse_start(FieldValue(kind, data), NOW_NS) == expected


@pytest.mark.parametrize("kind", [b"b", b"B", b"s", b"u", b"I", b"i", b"l", b"L"])
def test_an_offset_may_be_an_integer_of_any_width(kind: bytes) -> None:
    assert parse_start(FieldValue(kind, 5), NOW_NS) == StartPosition(StartKind.OFFSET, 5)


def test_without_an_argument_a_consumer_begins_with_what_comes_next() -> None:
    assert parse_start(None, NOW_NS) == START_NEXT


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (b"S", b""),
        (b"S", b"First"),
        (b"S", b"5"),
        (b"S", b"ts:"),
        (b"S", b"ts:-1"),
        (b"S", b"ts:1x"),
        (b"x", b"first"),
        (b"t", True),
        (b"d", 5.0),
        (b"V", None),
        (b"A", []),
        (b"F", {}),
    ],
)
def test_anything_else_is_no_position(kind: bytes, data: FieldData) -> None:
    assert parse_start(FieldValue(kind, data), NOW_NS) is None
