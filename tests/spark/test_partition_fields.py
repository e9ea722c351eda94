"""Fields that divide the files of an export: how users write them, and the folder of each row."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.spark.errors import PartitionFieldError
from appendlog.spark.exporting import partition_fields
from appendlog.spark.exporting.layout import (
    FOLDER_BYTES_MAX,
    NULL_FOLDER_TEXT,
    folder_value,
    hive_folder,
)
from appendlog.spark.exporting.partition_fields import (
    NO_PARTITIONS,
    PartitionField,
    Partitioning,
    divide_rows,
)
from appendlog.spark.exporting.time_partitions import PartitionBy

HEADERS = pa.map_(pa.string(), pa.string())


Headers = dict[str, str | None]


def rows_of(headers: list[Headers | None], bodies: list[bytes] | None = None) -> pa.Table:
    """Return rows with offsets from 0 on."""
    pairs = [None if each is None else list(each.items()) for each in headers]
    return pa.table(
        {
            "offset": pa.array(range(len(headers)), pa.int64()),
            "headers": pa.array(pairs, HEADERS),
            "value": pa.array(bodies or [b""] * len(headers), pa.binary()),
        }
    )


def folders(rows: pa.Table, *fields: str) -> dict[str, list[int]]:
    """Return the offsets of each folder."""
    divided = divide_rows(rows, [PartitionField.parse(field) for field in fields])
    assert [each.folder for each in divided] == sorted(each.folder for each in divided)
    return {each.folder: each.rows.column("offset").to_pylist() for each in divided}


@pytest.mark.parametrize(
    ("text", "columns", "sources"),
    [
        ("day", ("date",), {}),
        ("hour", ("date", "hour"), {}),
        ("header:region", ("region",), {"region": "header:region"}),
        ("header:x-shop.region", ("x_shop_region",), {"x_shop_region": "header:x-shop.region"}),
        ("json:customer.country", ("country",), {"country": "json:customer.country"}),
        ("land=json:customer.country", ("land",), {"land": "json:customer.country"}),
        ("k=header:a=b:c", ("k",), {"k": "header:a=b:c"}),
        (
            "header:region , day,json:Tier",
            ("date", "region", "Tier"),
            {"region": "header:region", "Tier": "json:Tier"},
        ),
    ],
)
def test_what_users_write_names_columns(
    text: str, columns: tuple[str, ...], sources: dict[str, str]
) -> None:
    found = Partitioning.parse(text)
    assert (found.columns, found.sources) == (columns, sources)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' divides no files: write day, hour, header:NAME"),
        ("week", "'week' divides no files"),
        ("day,", "'' divides no files"),
        ("header:", "'header:' divides no files"),
        ("day,hour", "write one of day and hour, once"),
        ("day,day", "write one of day and hour, once"),
        ("json:a..b", "a member between two dots has no name"),
        ("header:7th", "'7th' cannot be a column: write COLUMN=header:7th"),
        ("header:_land", "'_land' cannot be a column"),
        ("my-land=header:land", "'my-land' cannot be a column"),
        ("=header:land", "'' cannot be a column"),
        ("header:" + "x" * 65, "cannot be a column"),
        ("header:Topic", "'Topic' is a column of every export"),
        ("date=header:day", "'date' is a column of every export"),
        ("header:region,json:Region", "two fields make a column 'region'"),
        ("header:a,header:b,header:c,header:d", "4 fields, 3 are the most"),
    ],
)
def test_each_mistake_says_what_to_write(text: str, complaint: str) -> None:
    with pytest.raises(PartitionFieldError, match=re.escape(complaint)) as caught:
        Partitioning.parse(text)
    assert "\n" not in str(caught.value)


def test_rows_of_a_header_keep_their_order() -> None:
    regions = ["eu", "us", "eu", None, "us", "EU", "eu"]
    rows = rows_of([{"other": "x", "region": region} for region in regions])
    assert folders(rows, "header:region") == {
        "region=EU/": [5],
        "region=__HIVE_DEFAULT_PARTITION__/": [3],
        "region=eu/": [0, 2, 6],
        "region=us/": [1, 4],
    }


def test_messages_without_headers_or_with_others_have_no_value() -> None:
    rows = rows_of([None, {}, {"other": "eu"}, {"region": "eu"}, {"region": ""}])
    assert folders(rows, "header:region") == {
        f"region={NULL_FOLDER_TEXT}/": [0, 1, 2, 4],
        "region=eu/": [3],
    }


@pytest.mark.parametrize("is_there", [True, False])
def test_members_of_json_bodies_are_texts_of_plain_values(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        monkeypatch.setattr(partition_fields, "orjson", None)
    values = ["eu", 7, 2.5, True, None, [1], {"x": 1}, "", 0, 10**30, "a/b=c"]
    bodies = [json.dumps({"a": {"b": value}}).encode() for value in values]
    broken = [b"", b"{", b"[]", b'{"a":1}', b'{"b":1}', b"\xff", b'"a"', b'{"a":{"b":"\\ud800"}}']
    broken += [b'{"a":{"b":NaN}}', b'{"a":{"b":1e999}}', b"[" * 100_000, b"9" * 5000]
    rows = rows_of([None] * len(values + broken), bodies + broken)
    assert folders(rows, "json:a.b") == {
        "b=0/": [8],
        f"b={10**30}/": [9],
        "b=2.5/": [2],
        "b=7/": [1],
        f"b={NULL_FOLDER_TEXT}/": [4, 5, 6, 7, *range(len(values), len(values + broken))],
        "b=a%2Fb%3Dc/": [10],
        "b=eu/": [0],
        "b=true/": [3],
    }


def test_several_fields_are_folders_in_their_order() -> None:
    rows = rows_of(
        [{"r": "eu"}, {"r": "us"}, {"r": "eu"}, None],
        [b'{"t":1}', b'{"t":1}', b'{"t":2}', b'{"t":1}'],
    )
    assert folders(rows, "json:t", "header:r") == {
        f"t=1/r={NULL_FOLDER_TEXT}/": [3],
        "t=1/r=eu/": [0],
        "t=1/r=us/": [1],
        "t=2/r=eu/": [2],
    }
    assert folders(rows) == {"": [0, 1, 2, 3]}


def test_a_slice_of_rows_has_its_own_headers() -> None:
    rows = rows_of([{"r": str(number % 3)} for number in range(30)]).slice(7, 5)
    assert folders(rows, "header:r") == {"r=0/": [9], "r=1/": [7, 10], "r=2/": [8, 11]}


def test_columns_are_kept_for_tables_that_find_them_in_files() -> None:
    rows = rows_of([{"r": "eu"}, None])
    divided = divide_rows(rows, [PartitionField.parse("header:r")], keeps_columns=True)
    assert [each.rows.column("r").to_pylist() for each in divided] == [[None], ["eu"]]


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(
    PLAIN, lambda inner: st.dictionaries(st.sampled_from("abc"), inner) | st.lists(inner)
)


@given(JSON | st.binary(), st.booleans())
def test_both_parsers_find_the_same(value: object, is_ascii: bool) -> None:
    text = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=is_ascii)
    body = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    found = folders(rows_of([None], [body]), "json:a.b")
    with pytest.MonkeyPatch.context() as without:
        without.setattr(partition_fields, "orjson", None)
        assert folders(rows_of([None], [body]), "json:a.b") == found


@given(st.text(max_size=300))
def test_a_folder_has_the_value_or_none(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    ((folder, _),) = folders(rows_of([{"r": text}]), "header:r").items()
    column, value = folder_value(folder.removesuffix("/"))
    assert column == "r"
    assert "/" not in folder.removesuffix("/")
    assert len(folder.encode()) <= FOLDER_BYTES_MAX + 1
    fits = len(hive_folder("r", text).encode()) <= FOLDER_BYTES_MAX
    assert value == (text if text and fits and text != NULL_FOLDER_TEXT else None)


def test_without_partitions_there_are_no_columns() -> None:
    assert (NO_PARTITIONS.columns, NO_PARTITIONS.sources, NO_PARTITIONS.unit) == ((), {}, None)
    assert Partitioning(PartitionBy.HOUR).columns == ("date", "hour")
