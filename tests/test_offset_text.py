"""Offsets as users write them in options and arguments."""

import pytest

from amqp_server.admin.offset_text import parse_offset_text
from amqp_server.broker.subscriptions.start_position import (
    START_FIRST,
    START_LAST,
    START_NEXT,
    StartKind,
    StartPosition,
)

SECOND_NS = 10**9
NOW_NS = 1_700_000_000 * SECOND_NS
MOMENT = StartPosition(StartKind.TIME, 1_785_585_600 * SECOND_NS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first", START_FIRST),
        ("last", START_LAST),
        ("next", START_NEXT),
        ("earliest", START_FIRST),
        ("latest", START_NEXT),
        ("0", StartPosition(StartKind.OFFSET)),
        ("120", StartPosition(StartKind.OFFSET, 120)),
        ("-20", StartPosition(StartKind.TAIL, 20)),
        ("1h", StartPosition(StartKind.TIME, NOW_NS - 3600 * SECOND_NS)),
        ("2026-08-01T12:00", MOMENT),
        ("2026-08-01 12:00:00", MOMENT),
        ("2026-08-01T12:00Z", MOMENT),
        ("2026-08-01T14:00+02:00", MOMENT),
        ("2026-08-01", StartPosition(StartKind.TIME, 1_785_542_400 * SECOND_NS)),
        ("1960-01-01", StartPosition(StartKind.TIME, 0)),
        ("2026-08-01T12:00:00.000001", StartPosition(StartKind.TIME, MOMENT.number + 1000)),
    ],
)
def test_an_offset_text_is_a_name_a_number_an_age_or_a_time(
    text: str, expected: StartPosition
) -> None:
    assert parse_offset_text(text, NOW_NS) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "1.5", "--1", "1w", "0h", "9" * 30, "12:00", "٣"]
)
def test_another_text_is_refused_with_the_possible_forms(text: str) -> None:
    with pytest.raises(ValueError, match="write an offset"):
        parse_offset_text(text, NOW_NS)
