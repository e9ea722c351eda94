from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from appendlog.spark.exporting.partition_runs import Partition, partition_runs


def runs(batches: list[pa.RecordBatch], *columns: str) -> list[tuple[Partition, list[int]]]:
    return [
        (partition, [n for batch in part for n in batch.column("n").to_pylist()])
        for partition, part in partition_runs(iter(batches), columns)
    ]


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_a_run_goes_on_in_the_next_batch() -> None:
    first = batch(n=[1, 2, 3], a=["x", "x", "y"], b=[1, 2, 2])
    second = batch(n=[4, 5], a=["y", "z"], b=[2, 2])
    assert runs([first, first.slice(0, 0), second], "a", "b") == [
        ({"a": "x", "b": "1"}, [1]),
        ({"a": "x", "b": "2"}, [2]),
        ({"a": "y", "b": "2"}, [3, 4]),
        ({"a": "z", "b": "2"}, [5]),
    ]
    assert runs([first, second], "a") == [
        ({"a": "x"}, [1, 2]),
        ({"a": "y"}, [3, 4]),
        ({"a": "z"}, [5]),
    ]
    assert runs([first, second]) == [({}, [1, 2, 3, 4, 5])]
    assert runs([]) == runs([first.slice(0, 0)], "a") == []


def test_null_is_a_partition_and_an_empty_text_is_null() -> None:
    """As the protocol has it: no text tells the two apart."""
    rows = batch(n=[1, 2, 3, 4, 5], a=[None, None, "", "b", "b"])
    assert runs([rows], "a") == [({"a": None}, [1, 2, 3]), ({"a": "b"}, [4, 5])]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a/=%", "a/=%"),
        (-5, "-5"),
        (True, "true"),
        (False, "false"),
        (date(2026, 1, 2), "2026-01-02"),
        (date(1, 1, 2), "0001-01-02"),
        (Decimal("-1.20"), "-1.20"),
        (Decimal("0.0000001"), "0.0000001"),
    ],
)
def test_values_have_the_texts_of_the_protocol(value: object, text: str) -> None:
    assert runs([batch(n=[1], a=[value])], "a") == [({"a": text}, [1])]
