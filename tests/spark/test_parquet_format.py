"""What Parquet files are made of: the bytes that a column costs, and what a reader can skip by."""

import io
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from appendlog.spark.decoding.kernel_decoder import KernelDecoder
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.schema.columns import EXPORT_ROWS
from tests.spark.builders import all_kinds_of_messages, plain_messages, records_of

SKIPPABLE = ("key", "offset", "timestamp", "exchange", "type", "priority")
UNIQUE = ("value", "envelope", "message_id", "correlation_id", "headers.key_value.value")


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    messages = all_kinds_of_messages() + plain_messages(200)
    times_ns = [number * 1000 for number in range(len(messages))]
    records = records_of(messages, timestamps_ns=times_ns)
    batch = KernelDecoder("/", "orders", EXPORT_ROWS).build([records])
    return pa.Table.from_batches([batch])


def written(rows: pa.Table, *, groups: int = 1) -> bytes:
    file = io.BytesIO()
    writer = pickle.loads(pickle.dumps(ParquetFormat())).open(file, rows.schema)
    for _ in range(groups):
        before = file.tell()
        writer.write(rows)
        assert file.tell() > before
    writer.close({"whose": "ours"})
    return file.getvalue()


def test_rows_come_back_as_they_were_with_the_metadata(rows: pa.Table) -> None:
    file = pq.ParquetFile(io.BytesIO(written(rows)))
    assert file.read().equals(rows)
    assert file.metadata.metadata[b"whose"] == b"ours"


def test_each_group_of_rows_is_a_row_group(rows: pa.Table) -> None:
    metadata = pq.read_metadata(io.BytesIO(written(rows, groups=3)))
    assert [metadata.row_group(n).num_rows for n in range(3)] == [rows.num_rows] * 3


def test_the_same_rows_make_the_same_bytes(rows: pa.Table) -> None:
    assert written(rows) == written(rows)


def test_a_reader_can_skip_by_what_it_may_look_for_and_unique_values_cost_nothing_more(
    rows: pa.Table,
) -> None:
    group = pq.read_metadata(io.BytesIO(written(rows))).row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert all(columns[name].is_stats_set for name in SKIPPABLE)
    for name in UNIQUE:
        assert not columns[name].is_stats_set, name
        assert not columns[name].has_dictionary_page, name
    assert columns["key"].has_dictionary_page
    assert "DELTA_BINARY_PACKED" in columns["offset"].encodings
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_a_file_without_rows_has_the_columns(rows: pa.Table) -> None:
    file = io.BytesIO()
    ParquetFormat().open(file, rows.schema).close({})
    assert pq.read_schema(file).equals(rows.schema)
