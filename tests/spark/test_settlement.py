"""What is settled, as the checkpoint has it, and rows chosen by it."""

import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.files.filesystem import FileSystem
from appendlog.spark.errors import SettlementError
from appendlog.spark.planning.queues import QUEUES
from appendlog.spark.planning.settlement import Include, OffsetChoice, Settled, read_settled
from metadata.document import decode_document, encode_document
from metadata.paths import document_path
from offsets import CheckpointStore, QueueCheckpoint
from tests.spark.builders import store_queue

ENDS = st.integers(0, 60)


def batch(offsets: Sequence[int]) -> pa.RecordBatch:
    columns = {"offset": pa.array(offsets, pa.int64()), "key": [str(offset) for offset in offsets]}
    return pa.RecordBatch.from_pydict(columns)


def choice(offsets: set[int]) -> OffsetChoice:
    starts = sorted(offset for offset in offsets if offset - 1 not in offsets)
    ends = sorted(offset + 1 for offset in offsets if offset + 1 not in offsets)
    return OffsetChoice(tuple(zip(starts, ends, strict=True)))


@given(st.sets(ENDS), st.sets(ENDS), ENDS, ENDS)
def test_a_choice_is_the_offsets_that_are_in_its_ranges(
    wanted: set[int], there: set[int], start: int, end: int
) -> None:
    chosen = choice(wanted)
    rows = chosen.rows(batch(sorted(there)))
    assert rows.column("offset").to_pylist() == sorted(wanted & there)
    assert rows.column("key").to_pylist() == [str(offset) for offset in sorted(wanted & there)]
    assert chosen.count(start, end) == len(wanted & set(range(start, end)))
    inside = [n for low, high in chosen.clip(start, end).ranges for n in range(low, high)]
    assert inside == sorted(wanted & set(range(start, end)))
    parts = chosen.among([(0, start), (start, 70)])
    assert [n for low, high in parts for n in range(low, high)] == sorted(wanted)


@given(st.sets(ENDS), ENDS)
def test_acked_and_unacked_are_all_and_nothing_twice(settled: set[int], end: int) -> None:
    state = Settled(1, 1, 1, choice(settled).ranges)
    acked, unacked = (state.choose(each, end) for each in (Include.ACKED, Include.UNACKED))
    assert acked is not None
    assert unacked is not None
    assert acked.count(0, 100) == len(settled & set(range(end)))
    assert acked.count(0, 100) + unacked.count(0, 100) == end
    assert choice(settled).clip(0, end) == acked
    assert unacked.among(acked.ranges) == []
    assert state.choose(Include.ALL, end) is None


def test_a_run_of_rows_is_not_copied() -> None:
    rows = batch(range(100))
    part = choice(set(range(10, 40))).rows(rows)
    assert part.column("offset").buffers()[1].address == rows.column("offset").buffers()[1].address


def write_checkpoint(storage_path: Path, checkpoint: QueueCheckpoint) -> None:
    store, _, _ = CheckpointStore.open(storage_path / "offsets", FileSystem())
    store.write_round([checkpoint])
    store.close()


def test_what_the_checkpoint_says_is_read_with_its_generation(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    queue.close()
    incarnation = queue.location.incarnation
    write_checkpoint(tmp_path, QueueCheckpoint(uuid.uuid4(), 99))
    write_checkpoint(tmp_path, QueueCheckpoint(incarnation, 5, [(7, 9), (20, 21)]))
    settled = read_settled(tmp_path, queue.location)
    assert settled.ranges == ((0, 5), (7, 9), (20, 21))
    assert (settled.generation, settled.rounds) == (2, 1)
    path = tmp_path / "offsets" / f"checkpoint-{2:020}.log"
    assert settled.written_at_ns == path.stat().st_mtime_ns
    unacked = settled.choose(Include.UNACKED, 25)
    assert unacked == OffsetChoice(((5, 7), (9, 20), (21, 25)))
    assert pickle.loads(pickle.dumps(unacked)) == unacked


def test_without_a_checkpoint_nothing_is_settled(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    queue.close()
    assert read_settled(tmp_path, queue.location) == Settled(0, 0, 0, ())
    write_checkpoint(tmp_path, QueueCheckpoint(uuid.uuid4(), 99))
    settled = read_settled(tmp_path, queue.location)
    assert settled.generation == 1
    assert settled.choose(Include.UNACKED, 3) == OffsetChoice(((0, 3),))
    assert settled.choose(Include.ACKED, 3) == OffsetChoice(())


def test_a_stream_is_refused(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    queue.close()
    path = document_path(tmp_path / "metadata", QUEUES, "/", "orders")
    document = decode_document(path.read_bytes())
    document.body["arguments"]["x-queue-type"] = "stream"
    path.write_bytes(encode_document(document))
    with pytest.raises(SettlementError, match="is a stream"):
        read_settled(tmp_path, queue.location)


def test_a_checkpoint_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    queue.close()
    (tmp_path / "offsets").write_text("")
    with pytest.raises(SettlementError, match="checkpoint"):
        read_settled(tmp_path, queue.location)
