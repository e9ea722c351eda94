"""Splits of logs, put together to the work of tasks."""

from itertools import pairwise
from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from appendlog import LogReader, encode_message
from appendlog.spark.planning.packing import LogPiece, pack, plan_partitions
from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import Split
from tests.spark.builders import store_queue

LOG = QueueLog("/", "q", UUID(int=7), Path("nowhere"))


def piece(size_bytes: int) -> LogPiece:
    return LogPiece(LOG, Split(0, 0, 100, 100 + size_bytes, 0, 1, 100, 1 << 30, 1, 7))


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_every_piece_is_in_one_partition_in_order_and_none_is_too_large(
    sizes: list[int], partition_bytes: int
) -> None:
    pieces = [piece(size) for size in sizes]
    partitions = pack(pieces, partition_bytes)
    assert [each for partition in partitions for each in partition] == pieces
    for partition in partitions:
        size = sum(each.size_bytes for each in partition)
        assert partition
        assert size <= partition_bytes or len(partition) == 1
    for before, after in pairwise(partitions):
        together = sum(each.size_bytes for each in before) + after[0].size_bytes
        assert together > partition_bytes


def test_a_large_segment_is_cut_and_small_ones_are_put_together(tmp_path: Path) -> None:
    stored = store_queue(tmp_path, segment_bytes=4 << 20)
    stored.append([encode_message(1, b"", b"k", b"\0\0", b"x" * 500)] * 4_000)
    stored.close()
    reader = LogReader(stored.location.directory)

    def cut(split_bytes: int) -> list[LogPiece]:
        splits = reader.plan_splits(split_bytes=split_bytes)
        return [LogPiece(stored.location, split) for split in splits]

    assert len(plan_partitions(cut)) == 1
    assert len(plan_partitions(cut, partition_bytes=1 << 20)) >= 2
    many = plan_partitions(cut, min_partitions=8)
    assert 8 <= len(many) <= 10
    assert many == plan_partitions(cut, min_partitions=8)
    edges = [(each.split.start_offset, each.split.end_offset) for p in many for each in p]
    assert [edges[0][0], edges[-1][1]] == [0, 4_000]
    assert all(a[1] == b[0] for a, b in pairwise(edges))
    reader.close()


def test_nothing_to_read_is_no_partition() -> None:
    assert plan_partitions(lambda _: [], min_partitions=4) == []
