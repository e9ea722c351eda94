"""A batch that comes again is known by its content, whatever the order of its rows."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from appendlog.spark.exporting.batch_content import BatchContent, ContentSums

KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, -2, None, 3, 1]),
    (pa.int16(), [300, -2, None, 3, 1]),
    (pa.int32(), [1 << 30, -2, None, 3, 1]),
    (pa.int64(), [(1 << 63) - 1, -(1 << 63), None, 3, 1]),
    (pa.bool_(), [True, False, None, True, True]),
    (pa.decimal128(38, 2), [Decimal("1.20"), Decimal("-9e30"), None, Decimal(3), Decimal(0)]),
    (pa.string(), ["", "é", None, "abc", "z"]),
    (pa.large_string(), ["", "é", None, "abc", "z"]),
    (pa.binary(), [b"", b"\xff\x00", None, b"abc", b"z"]),
    (pa.large_binary(), [b"", b"\xff\x00", None, b"abc", b"z"]),
    (pa.date32(), [date(2026, 1, 1), date(1969, 1, 1), None, date(1, 1, 1), date(2000, 1, 1)]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 6)]),
    (pa.duration("us"), [timedelta(days) for days in range(5)]),
    (pa.list_(pa.int32()), [[], [1, 2], None, [3, None], [4]]),
    (pa.large_list(pa.string()), [[], ["a", "b"], None, ["c", None], ["d"]]),
    (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], None, [("b", 2), ("c", 3)], [("d", 4)]]),
    (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.binary()))]),
        [{"a": 1, "b": []}, {"a": 2, "b": [b"x"]}, None, {"a": None, "b": None}, {"a": 5, "b": []}],
    ),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "bb", None, "ccc", "d"]),
]


def content(*batches: pa.RecordBatch) -> BatchContent:
    parts = []
    for batch in batches:
        part = ContentSums()
        part.add(batch)
        parts.append(part)
    total = ContentSums()
    for part in parts:
        total.add_text(part.as_text())
    return total.content()


def batch_of(values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values], ["column"])


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda each: str(each)[:20])
def test_order_and_parts_do_not_count_and_every_value_does(
    kind: pa.DataType, values: list[Any]
) -> None:
    array = pa.array(values, kind)
    whole = content(batch_of(array))
    assert whole.rows == 5
    assert 0 <= whole.digest < 1 << 63
    assert content(batch_of(pa.array(values[::-1], kind))) == whole
    # A part of an array begins in the middle of its memory.
    assert content(batch_of(array[3:]), batch_of(array[:0]), batch_of(array[:3])) == whole
    assert content(batch_of(array.slice(3)), batch_of(array.slice(0, 3))) == whole
    for at in range(5):
        for other in values:
            if other != values[at]:
                changed = [*values[:at], other, *values[at + 1 :]]
                assert content(batch_of(pa.array(changed, kind))) != whole, (at, other)
    assert content(batch_of(array[:4])) != whole
    empty = content(batch_of(pa.array([], kind)))
    assert content(batch_of(array[:0])) == empty
    nulls = content(batch_of(pa.nulls(2, kind)))
    assert nulls.rows == 2
    assert nulls != content(batch_of(array[:2]))


def test_what_is_left_out() -> None:
    """A sum of fractions depends on the order in which Spark adds them up."""
    for kind in (pa.float32(), pa.float64()):
        one = content(batch_of(pa.array([0.1, None], kind)))
        assert content(batch_of(pa.array([None, 0.2], kind))) == one
        assert content(batch_of(pa.array([0.1, 0.2], kind))) != one
    nested = pa.map_(pa.string(), pa.struct([("n", pa.float64())]))
    one = content(batch_of(pa.array([[("a", {"n": 0.1})]], nested)))
    assert content(batch_of(pa.array([[("a", {"n": 0.2})]], nested))) == one
    assert content(batch_of(pa.array([[("b", {"n": 0.1})]], nested))) != one
    assert content(batch_of(pa.nulls(3))).rows == 3


def test_columns_are_not_added_up_together() -> None:
    def two(one: list[int], other: list[int]) -> BatchContent:
        return content(pa.RecordBatch.from_pydict({"a": one, "b": other}))

    assert two([1, 2], [3, 4]) != two([1, 3], [2, 4])
    assert two([1, 2], [3, 4]) != two([3, 4], [1, 2])
    # As many numbers with the same sum, but further apart.
    assert two([0, 4], [0, 0]) != two([1, 3], [0, 0])


def test_nothing_has_a_content() -> None:
    assert content() == ContentSums().content()
    assert ContentSums().content().rows == 0
