import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from appendlog import (
    Append,
    CorruptRecordError,
    LogError,
    LogReader,
    OffsetOutOfRangeError,
    SplitReader,
    encode_chunk,
)
from appendlog.files.filesystem import FILE_MODE
from appendlog.segments.segment_reader import WINDOW_BYTES_MAX
from tests.appendlog.builders import IDENTITY, SALT, append, chunk, expected, message, open_log
from tests.faults.faulty_filesystem import FaultyFileSystem


def found(reader: LogReader, start: int | None = None, end: int | None = None) -> dict[int, bytes]:
    records: dict[int, bytes] = {}
    for batch in reader.read(start, end):
        assert not records.keys() & set(batch.offsets)
        records.update(zip(batch.offsets, batch.messages, strict=True))
    return records


def test_an_empty_or_missing_log_reads_as_empty(tmp_path: Path) -> None:
    reader = LogReader(tmp_path / "missing")
    assert (reader.identity, reader.log_start_offset, reader.log_end_offset) == (None, 0, 0)
    assert reader.plan_splits() == []
    assert reader.first_offset_at(0) == 0
    assert found(reader) == {}


@pytest.mark.parametrize("written", [0, 1, 20], ids=["nothing", "an octet", "half a header"])
def test_a_log_whose_first_segment_is_being_created_reads_as_empty(
    tmp_path: Path, written: int
) -> None:
    """An export that came in just then used to fail, as if a header were damaged."""
    first = tmp_path / "00000000000000000000.log"
    log, _ = open_log(tmp_path)
    append(log, 0, 5)
    whole = first.read_bytes()
    (tmp_path / "end").unlink()
    first.write_bytes(whole[:written])

    assert found(LogReader(tmp_path)) == {}


def test_an_unreadable_header_of_a_log_that_was_durable_is_an_error(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 5)
    (tmp_path / "00000000000000000000.log").write_bytes(b"")

    with pytest.raises(LogError, match="none with a readable header"):
        LogReader(tmp_path)


def test_a_reader_sees_what_is_durable_and_no_more(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=3_000)
    append(log, 0, 60)
    append(log, 60, 90, sync=False)
    durable = log.recovery_point
    reader = LogReader(tmp_path)
    assert reader.identity == IDENTITY
    assert reader.log_end_offset == durable < log.log_end_offset
    assert found(reader) == expected(0, durable)
    log.append(Append([], 90, sync=True))
    assert found(LogReader(tmp_path)) == expected(0, 90)


def test_without_the_end_file_a_reader_scans_to_the_last_whole_chunk(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=3_000)
    append(log, 0, 60)
    log.close()
    (tmp_path / "end").unlink()
    last = max(tmp_path.glob("*.log"))
    last.write_bytes(last.read_bytes() + chunk(60, 63)[:-1])
    reader = LogReader(tmp_path)
    assert reader.log_end_offset == 60
    assert found(reader) == expected(0, 60)


def test_a_batch_of_a_split_holds_one_window_however_much_it_may(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1 << 23)
    large = [message(number, body_bytes=WINDOW_BYTES_MAX // 4) for number in range(12)]
    for offset, each in enumerate(large):
        log.append(
            Append([encode_chunk([each], offset, None, 1_000, None, SALT)], offset + 1, sync=True)
        )
    (split,) = LogReader(tmp_path).plan_splits(split_bytes=1 << 24)
    batches = list(SplitReader(tmp_path).read(split, batch_bytes=1 << 24))
    assert [len(batch.parts) for batch in batches] == [1] * len(batches)
    assert [each for batch in batches for each in batch.messages] == large


def test_a_chunk_longer_than_a_window_is_read_and_nothing_behind_it(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1 << 25)
    large = message(0, body_bytes=3 * WINDOW_BYTES_MAX)
    for offset in range(4):
        log.append(
            Append([encode_chunk([large], offset, None, 1_000, None, SALT)], offset + 1, sync=False)
        )
    result = log.read(1, 1, 1)
    assert (result.offsets, result.messages) == ([1], [large])
    assert result.read_bytes <= WINDOW_BYTES_MAX + len(large) + 1_000


@pytest.mark.parametrize("split_bytes", [1, 500, 2_000, 1 << 30])
@pytest.mark.parametrize("is_indexed", [True, False])
def test_splits_tile_any_range_exactly(tmp_path: Path, split_bytes: int, is_indexed: bool) -> None:
    log, _ = open_log(tmp_path, segment_bytes=3_000)
    append(log, 0, 100)
    log.close()
    if not is_indexed:
        for path in tmp_path.glob("*.index"):
            path.unlink()
    reader = LogReader(tmp_path)
    for start, end in [(0, 100), (0, 1), (7, 8), (31, 77), (99, 100), (50, 50), (100, 100)]:
        splits = reader.plan_splits(start, end, split_bytes)
        edges = [start] + [split.end_offset for split in splits]
        assert [split.start_offset for split in splits] == edges[:-1]
        assert edges[-1] == end
        for split in splits:
            copy = pickle.loads(pickle.dumps(split))
            records: dict[int, bytes] = {}
            for batch in LogReader(tmp_path).read_split(copy, batch_records=4):
                assert 0 < len(batch.offsets) <= 4
                records.update(zip(batch.offsets, batch.messages, strict=True))
            assert records == expected(split.start_offset, split.end_offset)
    assert len(reader.plan_splits(split_bytes=1)) > len(reader.plan_splits()) or not is_indexed
    reader.close()


class OpenCountingFileSystem(FaultyFileSystem):
    """Notes which files are opened, and counts what is read of them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: set[str] = set()

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        self.opened.add(path.name)
        return super().open(path, flags, mode)


def test_a_small_range_reads_an_index_and_little_more(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=30_000)
    append(log, 0, 6_000, sync=False, step=20)
    log.close()
    segments = sorted(path.name for path in tmp_path.glob("*.log"))
    assert len(segments) > 5
    filesystem = OpenCountingFileSystem(tmp_path)
    reader = LogReader(tmp_path, filesystem)
    (split,) = reader.plan_splits(3_010, 3_020)
    reader.close()
    here = max(name for name in segments if name <= f"{3_010:020d}.log")
    assert filesystem.opened <= {"end", here, here.replace(".log", ".index"), segments[-1]}
    filesystem = OpenCountingFileSystem(tmp_path)
    batches = list(SplitReader(tmp_path, filesystem).read(split))
    assert [offset for batch in batches for offset in batch.offsets] == list(range(3_010, 3_020))
    assert filesystem.opened == {here}
    assert filesystem.read_bytes < 3 * len(chunk(0, 20))


def test_segments_that_retention_removed_meanwhile_are_out_of_range(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=700)
    append(log, 0, 30)
    with LogReader(tmp_path) as reader:
        log.remove_settled(10)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            reader.plan_splits(0, 30)
        assert caught.value.log_start_offset <= log.log_start_offset


def test_a_range_outside_the_log_is_refused(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=700)
    append(log, 0, 30)
    old = LogReader(tmp_path)
    (split, *_) = old.plan_splits()
    log.remove_settled(10)
    reader = LogReader(tmp_path)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        reader.plan_splits(0, 30)
    assert caught.value.log_start_offset == log.log_start_offset
    with pytest.raises(OffsetOutOfRangeError):
        reader.plan_splits(20, 31)
    with pytest.raises(OffsetOutOfRangeError):
        list(reader.read_split(split))


def test_the_first_record_at_or_after_a_time_is_found(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=3_000)
    append(log, 0, 90)  # the chunk of offset n has the timestamp 1000 + n
    reader = LogReader(tmp_path)
    for timestamp_ns in range(990, 1_090):
        wanted = max(0, -(-(timestamp_ns - 1_000) // 3) * 3)
        assert reader.first_offset_at(timestamp_ns) == min(wanted, 90)


def test_a_search_for_a_time_that_meets_damage_names_the_offset(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=3_000)
    append(log, 0, 90)
    log.close()
    *_, segment, _ = sorted(tmp_path.glob("*.log"))
    base = int(segment.stem)
    data = bytearray(segment.read_bytes())
    data[bytes(data).index(message(base)[-20:])] ^= 1
    segment.write_bytes(data)
    with LogReader(tmp_path) as reader, pytest.raises(CorruptRecordError) as caught:
        reader.first_offset_at(1_000 + base)
    assert (caught.value.path, caught.value.offset) == (segment, base)


def test_damage_is_an_error_or_skipped_and_told(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1 << 20)
    append(log, 0, 30)
    log.close()
    (segment,) = tmp_path.glob("*.log")
    data = bytearray(segment.read_bytes())
    at = bytes(data).index(message(13)[-20:])
    data[at] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptRecordError) as caught:
        found(LogReader(tmp_path))
    assert (caught.value.path, caught.value.offset) == (segment, 12)
    reader = LogReader(tmp_path, skip_damage=True)
    assert found(reader) == expected(0, 12) | expected(15, 30)
    assert [lost for batch in reader.read() for lost in batch.lost] == [(12, 15)]


def test_a_directory_without_one_readable_header_is_an_error(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(b"x" * 100)
    with pytest.raises(LogError):
        LogReader(tmp_path)


def test_a_bad_index_without_an_end_file_costs_a_longer_scan(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 60)
    log.close()
    (tmp_path / "end").unlink()
    (index,) = tmp_path.glob("*.index")
    data = bytearray(index.read_bytes())
    data[-12] ^= 1  # the last entry's position
    index.write_bytes(data)
    with LogReader(tmp_path) as reader:
        assert found(reader) == expected(0, 60)
        assert len(reader.summaries()) == 1


def test_a_reader_sees_nothing_of_a_log_of_which_nothing_is_durable_yet(tmp_path: Path) -> None:
    """It used to take what it found for durable: a power cut would have given the offsets away."""
    log, _ = open_log(tmp_path)
    append(log, 0, 5, sync=False)
    reader = LogReader(tmp_path)
    assert (reader.log_end_offset, found(reader)) == (0, {})
    log.append(Append([], 5, sync=True))
    assert found(LogReader(tmp_path)) == expected(0, 5)


def test_a_log_that_ended_before_anything_was_durable_is_recovered_whole(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 5, sync=False)
    again, report = open_log(tmp_path)
    assert report.is_clean
    assert again.recovery_point == 5
    assert found(LogReader(tmp_path)) == expected(0, 5)


def test_a_log_whose_first_segment_is_beginning_reads_as_empty_beside_its_end_file(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 5, sync=False)
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    assert found(LogReader(tmp_path)) == {}


def cut_at_a_chunk(path: Path) -> None:
    """Take the last chunks of a segment and its footer off."""
    data = path.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(b"AQLC", at)]
    path.write_bytes(data[: starts[2]])


SHORTENINGS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "within the header": lambda path: path.write_bytes(path.read_bytes()[:30]),
    "behind the header": lambda path: path.write_bytes(path.read_bytes()[: header_bytes(path)]),
    "between two chunks": cut_at_a_chunk,
}


def header_bytes(path: Path) -> int:
    return path.read_bytes().index(b"AQLC")


@pytest.mark.parametrize("place", ["middle", "last"])
@pytest.mark.parametrize("how", SHORTENINGS)
def test_a_segment_that_is_gone_or_cut_off_is_damage(tmp_path: Path, how: str, place: str) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1_500)
    append(log, 0, 100, step=5)
    log.close()
    segments = sorted(tmp_path.glob("*.log"))
    assert len(segments) > 4
    victim = segments[2] if place == "middle" else segments[-1]
    with LogReader(tmp_path) as reader:
        whole = found(reader)
    SHORTENINGS[how](victim)
    for path in tmp_path.glob("*.index"):
        path.unlink()
    with LogReader(tmp_path) as reader, pytest.raises(CorruptRecordError):
        found(reader)
    with LogReader(tmp_path, skip_damage=True) as reader:
        results = list(reader.read())
    there = {offset for result in results for offset in result.offsets}
    lost = {
        offset for result in results for low, high in result.lost for offset in range(low, high)
    }
    assert there | lost == set(whole)
    assert not there & lost
    assert lost
    told = [damage for result in results for damage in result.damaged]
    assert sum(damage.end_offset - damage.start_offset for damage in told) == len(lost)
