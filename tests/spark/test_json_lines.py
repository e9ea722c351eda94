"""JSON lines: every value comes back from its line, whatever is in it."""

import base64
import gzip
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.files.json_lines_format import (
    Compression,
    JsonLinesFormat,
    json_ddl,
    json_lines,
)
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.schema.columns import EXPORT_ROWS
from tests.spark.builders import StoredQueue, all_kinds_of_messages, store_queue
from tests.spark.plain_reader import Row, expected_rows
from tests.spark.table_files import export

FEW = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("priority", pa.int16()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("envelope", pa.binary()),
    ]
)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data")
    yield queue
    queue.close()


def test_lines_say_what_a_plain_reader_finds(stored: StoredQueue, tmp_path: Path) -> None:
    stored.append(all_kinds_of_messages(), step=7)
    lake = tmp_path / "lake"
    destination = FilesDestination(LocalStore(lake), stored.location)
    end = stored.log.log_end_offset
    export(destination, stored.location, lake, [(0, end)], file_format=JsonLinesFormat())
    files = sorted((lake / "queue=orders").glob("part-*.jsonl"))
    rows = [row for file in files for row in parsed(file.read_bytes())]
    expected = expected_rows(stored.location)
    assert [list(row) for row in rows] == [
        [*EXPORT_ROWS.names[:2], "value_base64", *EXPORT_ROWS.names[2:]] for _ in expected
    ]
    assert [restored(row) for row in rows] == expected


@settings(max_examples=settings().max_examples * 3 // 5)
@given(
    st.lists(
        st.tuples(
            st.none() | st.text(),
            st.binary() | st.text().map(str.encode),
            st.integers(-(2**63), 2**63 - 1),
            st.none() | st.datetimes(timezones=st.just(UTC)),
            st.none() | st.integers(0, 255),
            st.none() | st.dictionaries(st.text(), st.none() | st.text(), max_size=3),
            st.binary(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_text_and_any_bytes_come_back(values: list[tuple[Any, ...]]) -> None:
    columns = zip(*values, strict=True)
    arrays = [
        pa.array([list(each.items()) if isinstance(each, dict) else each for each in column], kind)
        for column, kind in zip(columns, FEW.types, strict=True)
    ]
    # A part of a batch too: its buffers begin before it.
    batch = pa.RecordBatch.from_arrays(arrays, schema=FEW)
    for rows, wanted in (
        (batch, values),
        (batch.slice(len(values) // 2), values[len(values) // 2 :]),
    ):
        found = parsed(bytes(json_lines(rows)))
        for row, (key, value, offset, time, priority, headers, envelope) in zip(
            found, wanted, strict=True
        ):
            assert (row["key"], row["offset"], row["priority"]) == (key, offset, priority)
            assert (row["value"] is None) != (row["value_base64"] is None)
            assert body(row) == value
            assert row["headers"] == headers
            assert base64.b64decode(row["envelope"]) == envelope
            assert row["timestamp"] == (time and written_time(time))


def test_text_is_text_and_the_rest_is_base64_even_side_by_side() -> None:
    values = [b'{"a": "\\u00e9\n"}', b"\xff", b"", "\N{SNOWMAN}\x00\x1f\x7f".encode()]
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])
    found = parsed(bytes(json_lines(rows)))
    assert [row["value"] for row in found] == [values[0].decode(), None, "", values[3].decode()]
    assert [row["value_base64"] for row in found] == [None, "/w==", None, None]


@pytest.mark.parametrize("compression", ["", "gz", "zst"])
def test_groups_follow_each_other_and_are_the_same_each_time(compression: Compression) -> None:
    groups = [pa.table({"value": pa.array([b"%d" % number], pa.binary())}) for number in range(3)]
    written = []
    for _ in range(2):
        file = io.BytesIO()
        writer = JsonLinesFormat(compression).open(file, groups[0].schema)
        for group in groups:
            writer.write(group)
        writer.close({})
        written.append(file.getvalue())
    assert written[0] == written[1]
    text = written[0]
    if compression:
        text = gzip.decompress(text) if compression == "gz" else unpacked(text)
    assert [row["value"] for row in parsed(text)] == ["0", "1", "2"]
    assert JsonLinesFormat(compression).extension in ("jsonl", "jsonl.gz", "jsonl.zst")


def test_the_columns_for_spark_have_text_for_bytes() -> None:
    assert "`value` STRING, `value_base64` STRING, `topic` STRING" in json_ddl()
    assert json_ddl().endswith("`envelope` STRING, `message_timestamp_raw` BIGINT")


@pytest.mark.spark
@pytest.mark.parametrize("compression", ["", "gz"])
def test_spark_reads_lines_with_the_columns_that_we_name(
    stored: StoredQueue, tmp_path: Path, spark: SparkSession, compression: Compression
) -> None:
    stored.append(all_kinds_of_messages(), step=7)
    lake = tmp_path / "lake"
    destination = FilesDestination(LocalStore(lake), stored.location)
    end = stored.log.log_end_offset
    kind = JsonLinesFormat(compression)
    export(destination, stored.location, lake, [(0, end)], file_format=kind)
    frame = spark.read.schema(json_ddl()).json(str(lake)).drop("queue").orderBy("offset")
    texts = ("timestamp", "message_timestamp")
    micros = [f"unix_micros({name}) AS {name}" if name in texts else name for name in frame.columns]
    found = [row.asDict() for row in frame.selectExpr(*micros).collect()]
    assert [restored(row) for row in found] == expected_rows(stored.location)


def unpacked(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


def parsed(text: bytes) -> list[Row]:
    assert text.endswith(b"}\n")
    return [json.loads(line) for line in text.decode().split("\n")[:-1]]


def body(row: Row) -> bytes:
    text = row["value"]
    return text.encode() if text is not None else base64.b64decode(row["value_base64"])


def written_time(time: datetime) -> str:
    return f"{time.year:04}-{time:%m-%dT%H:%M:%S.%f}Z"


def restored(row: Row) -> Row:
    """Return a line's values as those of a row."""
    times = {
        name: int(np.datetime64(row[name].removesuffix("Z"), "us").astype(int))
        for name in ("timestamp", "message_timestamp")
        if isinstance(row[name], str)
    }
    binary = {"value": body(row), "envelope": base64.b64decode(row["envelope"])}
    return {name: each for name, each in (row | times | binary).items() if name != "value_base64"}
