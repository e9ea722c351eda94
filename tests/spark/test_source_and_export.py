"""The data source and the export read the same: row for row, damaged or not, settled or not."""

from pathlib import Path

import pytest

from appendlog.spark.decoding import log_batches
from appendlog.spark.exporting.files.file_task import FileTask, write_files
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.settlement import OffsetChoice, Settled
from appendlog.spark.schema.columns import EXPORT_ROWS
from appendlog.spark.source import batch_plan
from tests.spark.builders import (
    StoredQueue,
    all_kinds_of_messages,
    plain_message,
    plain_messages,
    store_queue,
)
from tests.spark.damage import flip_texts
from tests.spark.plain_reader import Row, written_rows
from tests.spark.source_reading import read_rows

COLUMNS = ",".join(EXPORT_ROWS.names)


@pytest.fixture
def queue(tmp_path: Path) -> StoredQueue:
    queue = store_queue(tmp_path / "data", segment_bytes=20_000)
    queue.append(all_kinds_of_messages(), step=7)
    queue.append(plain_messages(500))
    queue.skip(9)
    queue.append(plain_messages(100))
    queue.close()
    return queue


def exported(
    queue: StoredQueue,
    out: Path,
    start: int,
    end: int,
    choice: OffsetChoice | None = None,
    *,
    skips_damage: bool = False,
) -> list[Row]:
    with open_reader(queue.location) as reader:
        splits = tuple(reader.plan_splits(start, end, 5_000))
    task = FileTask(
        queue.location,
        splits,
        LocalStore(out),
        "files",
        ParquetFormat(),
        choice=choice,
        skips_damage=skips_damage,
    )
    write_files(task)
    return written_rows(out)


@pytest.mark.parametrize("batch_records", [13, 8192])
def test_rows_are_those_of_an_export(
    queue: StoredQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_records: int
) -> None:
    monkeypatch.setattr(log_batches, "BATCH_RECORDS", batch_records)
    options = {"startingOffsets": "5", "endingOffsets": "600", "minPartitions": "7"}
    read = read_rows(queue.storage_path, columns=COLUMNS, **options)
    assert read == exported(queue, tmp_path / "out", 5, 600)
    assert len(read) == 595 - 9


def test_rows_beside_damage_are_those_of_an_export(queue: StoredQueue, tmp_path: Path) -> None:
    for segment in queue.segments():
        if plain_message(230) in segment.read_bytes():
            flip_texts(segment, plain_message(230))
    read = read_rows(queue.storage_path, columns=COLUMNS, mode="DROPMALFORMED")
    assert read == exported(queue, tmp_path / "out", 0, 645, skips_damage=True)
    assert len(read) == 636 - 50


@pytest.mark.parametrize("include", ["acked", "unacked"])
def test_rows_that_are_settled_or_not_are_those_of_an_export(
    queue: StoredQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, include: str
) -> None:
    settled = ((0, 40), (41, 42), (90, 300), (301, 302))
    monkeypatch.setattr(batch_plan, "read_settled", lambda *_: Settled(1, 1, 1, settled))
    others = ((40, 41), (42, 90), (300, 301), (302, 645))
    ranges = settled if include == "acked" else others
    options = {"include": include, "minPartitions": "9"}
    read = read_rows(queue.storage_path, columns=COLUMNS, **options)
    assert read == exported(queue, tmp_path / "out", 0, 645, OffsetChoice(ranges))
    wanted = {offset for start, end in ranges for offset in range(start, end)}
    assert {row["offset"] for row in read} == wanted - set(range(536, 545))
    # The offset is needed to choose, also where nobody asks for it.
    bodies = read_rows(queue.storage_path, columns="value", **options)
    assert bodies == [{"value": row["value"]} for row in read]
