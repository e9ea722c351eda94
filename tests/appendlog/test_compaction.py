"""Compaction: what is live stays as it was, what is settled goes, whatever happens meanwhile."""

import random
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from appendlog import Append, FileSystem, Log, LogFailedError, LogOptions, LogReader, encode_chunk
from appendlog.checking.log_check import check_log
from appendlog.checking.problem import Level
from appendlog.files.descriptors import Descriptors
from appendlog.layout.format import REMOVED_RANGES_MAX
from appendlog.layout.message import (
    HAS_EXPIRATION,
    HAS_PRIORITY,
    PERSISTENT,
    encode_message,
)
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.layout.summary import SegmentSummary
from appendlog.options import Compression
from appendlog.reclaim.compaction import CompactionAbandonedError
from appendlog.reclaim.removed_ranges import removed_ranges
from offsets.settlement import Settlement
from tests.appendlog.builders import (
    IDENTITY,
    OPENED,
    SALT,
    append,
    chunk,
    expected,
    flip,
    message,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem

SEGMENT_BYTES = 700
Records = dict[int, tuple[int, bytes]]


def compact_all(log: Log, floor: int, settled: Sequence[tuple[int, int]]) -> int:
    """Compact every segment that can be; return the bytes freed."""
    freed = 0
    settlement = Settlement(floor, settled)
    for segment in log.segments[:-1]:
        live = settlement.unsettled_ranges(segment.base_offset, segment.end_offset)
        freed += log.reclaim.compact(segment, live, segment.size_bytes)
    return freed


def records(log: Log) -> Records:
    """Return all that a log holds: append time and message by offset."""
    result = log.read(0, 1 << 30, 1 << 30)
    assert result.lost == []
    both = zip(result.timestamps_ns, result.messages, strict=True)
    return dict(zip(result.offsets, both, strict=True))


def a_random_log(directory: Path, seed: random.Random) -> tuple[Log, dict[int, bytes]]:
    """Write a log with gaps, expirations, priorities, and sometimes times that step back.

    Return the transactions of its records.
    """
    options = LogOptions(
        segment_bytes=seed.choice([600, 2_000, 8_000]),
        index_interval_bytes=256,
        descriptors=Descriptors(4),
        compression=seed.choice([Compression.NONE, Compression.ZSTD]),
        compression_bytes_min=0,
    )
    OPENED.append(options.descriptors)
    log, _ = Log.open(directory, IDENTITY, options)
    offset, now_ns, steps = seed.choice([0, 7]), 1_000, seed.random() < 0.3
    owners: dict[int, bytes] = {}
    for number in range(seed.randint(20, 60)):
        count = seed.randint(1, 12)
        has_gaps = seed.random() < 0.3
        deltas = sorted(seed.sample(range(count * 3), count)) if has_gaps else list(range(count))
        base = offset + deltas[0]
        deltas = [delta - deltas[0] for delta in deltas]
        times = [0, *sorted(seed.randint(0, 1 << 33) for _ in range(count - 1))]
        transaction = number.to_bytes(16, "big") if seed.random() < 0.2 else b""
        batch = [a_message(seed) for _ in range(count)]
        encoded = encode_chunk(batch, base, deltas, now_ns, times, SALT, transaction)
        owners.update(dict.fromkeys((base + delta for delta in deltas), transaction))
        offset = base + deltas[-1] + 1 + (seed.randint(1, 5) if seed.random() < 0.1 else 0)
        now_ns += times[-1]
        if steps and seed.random() < 0.05:
            now_ns = seed.randint(0, now_ns)
        log.append(Append([encoded], offset, sync=True))
    return log, owners


def a_message(seed: random.Random) -> bytes:
    kind = seed.choice([0, 0, HAS_EXPIRATION, HAS_PRIORITY])
    flags = kind | (PERSISTENT if seed.random() < 0.8 else 0)
    properties = b"\x10\x00\x02"
    if kind == HAS_EXPIRATION:
        properties = b"\x01\x00\x04%04d" % seed.randint(0, 9999)
    elif kind == HAS_PRIORITY:
        properties = b"\x08\x00" + bytes([seed.randint(0, 9)])
    return encode_message(flags, b"ex", b"key", properties, seed.randbytes(seed.randint(0, 80)))


def random_settlement(seed: random.Random, end: int) -> Settlement:
    settlement = Settlement()
    for _ in range(seed.randint(0, 40)):
        start = seed.randint(0, end)
        settlement.settle(start, min(end, start + seed.choice([1, 2, 10, 50])))
    return settlement


def sums(log: Log) -> list[SegmentSummary]:
    return [segment.summary for segment in log.segments]


@pytest.mark.parametrize("number", range(40))
def test_a_compacted_log_reads_exactly_what_is_not_settled(tmp_path: Path, number: int) -> None:
    seed = random.Random(number)
    log, owners = a_random_log(tmp_path / "q", seed)
    original, end, ends = records(log), log.log_end_offset, [s.end_offset for s in sums(log)]
    for _ in range(seed.randint(1, 3)):
        settlement = random_settlement(seed, end)
        last_base = log.segments[-1].base_offset
        kept = {
            offset: record
            for offset, record in original.items()
            if offset >= last_base or not settlement.is_settled(offset)
        }
        compact_all(log, settlement.ack_floor, settlement.ranges())
        assert records(log) == kept
        original = kept
    assert [summary.end_offset for summary in sums(log)] == ends
    counts = log.transaction_counts(0)
    for transaction in set(owners.values()) - {b""}:
        mine = [o for o in kept if owners[o] == transaction and kept[o][1][0] & PERSISTENT]
        assert counts[transaction] == len(mine)
    check_sums(log, kept)
    with LogReader(tmp_path / "q") as reader:
        found = [offset for batch in reader.read() for offset in batch.offsets]
    assert found == sorted(kept)
    known = sums(log)
    log.close()
    log, report = open_log(tmp_path / "q")
    assert report.is_clean
    assert records(log) == kept
    assert log.log_end_offset == end
    assert sums(log)[:-1] == known[:-1]
    log.close()
    assert problems(tmp_path / "q", is_dense=False) == []


def problems(directory: Path, *, is_dense: bool) -> list[object]:
    """Return what a deep check finds wrong with a log that nobody uses."""
    check = check_log(directory, IDENTITY, FileSystem(), is_live=False, is_dense=is_dense)
    return [problem for problem in check.problems.kept if problem.level is not Level.HARMLESS]


def check_sums(log: Log, kept: Records) -> None:
    """Compare the sums in the footers with the records that are there."""
    for segment in log.segments[:-1]:
        summary = segment.summary
        mine = {o: r for o, r in kept.items() if segment.base_offset <= o < segment.end_offset}
        assert summary.record_count == len(mine)
        assert summary.transient_count == sum(not m[0] & PERSISTENT for _, m in mine.values())
        assert summary.first_offset == min(mine, default=segment.end_offset)
        assert summary.first_timestamp_ns == (mine[min(mine)][0] if mine else 0)
        assert bool(summary.priority_bitmap) == any(m[0] & HAS_PRIORITY for _, m in mine.values())
        assert bool(summary.max_expiry_ns) == any(m[0] & HAS_EXPIRATION for _, m in mine.values())


def test_what_was_removed_is_known_after_a_restart(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    first = log.segments[0]
    compact_all(log, 1, [(2, 4), (5, 30)])
    log.close()
    log, report = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    assert report.is_clean
    assert log.reclaim.removed_ranges(0)[:3] == [(0, 1), (2, 4), (5, first.end_offset)]
    assert log.reclaim.removed_ranges(first.end_offset)[0][0] == first.end_offset


def test_time_is_found_and_the_log_start_stays_in_a_compacted_log(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 40)
    compact_all(log, 0, [(1, 20), (21, 33)])
    assert log.log_start_offset == 0
    assert log.first_offset_at(1_001) == 20
    assert log.last_timestamp_ns == 1_000 + 39


def test_a_compacted_segment_keeps_the_time_of_its_last_record_though_that_is_gone(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    for start in range(0, 40, 2):
        # The time is set back once: from there on every segment says so.
        now_ns = 1_000 if start < 20 else 500
        log.append(Append([chunk(start, start + 2, now_ns)], start + 2, sync=True))
    known = [(each.last_timestamp_ns, each.steps_back) for each in sums(log)]
    assert {steps_back for _, steps_back in known[:-1]} == {False, True}
    compact_all(log, 0, [(1, 40)])
    assert len(records(log)) < 20
    assert [(each.last_timestamp_ns, each.steps_back) for each in sums(log)] == known
    log.close()
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    assert [(each.last_timestamp_ns, each.steps_back) for each in sums(log)] == known


def test_the_last_segment_and_one_that_is_gone_are_left_alone(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    assert log.reclaim.compact(log.segments[-1], [], 1 << 20) == 0
    first = log.segments[0]
    log.remove_settled(first.end_offset)
    assert log.reclaim.compact(first, [], 1 << 20) == 0


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_damaged_segment_is_left_as_it_is(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    before = names(tmp_path / "q")
    flip(log.segments[0].path, log.segments[0].header_bytes + 100)
    with pytest.raises(CompactionAbandonedError, match="damaged at position"):
        log.reclaim.compact(log.segments[0], [(0, 1)], 1 << 20)
    assert names(tmp_path / "q") == before
    assert log.failed is None


@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_segment_with_a_wrong_header_is_left_as_it_is(tmp_path: Path, is_foreign: bool) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    path = log.segments[0].path
    if is_foreign:
        other = replace(IDENTITY, incarnation=uuid.uuid4())
        header = encode_segment_header(SegmentHeader(other, 0, 0))
        path.write_bytes(header + path.read_bytes()[len(header) :])
    else:
        flip(path, 10)
    before = names(tmp_path / "q")
    with pytest.raises(CompactionAbandonedError, match="damaged at position 0"):
        log.reclaim.compact(log.segments[0], [(0, 1)], 1 << 20)
    assert names(tmp_path / "q") == before
    assert log.failed is None


def test_a_segment_with_more_live_than_it_is_worth_is_left_as_it_is(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    before = names(tmp_path / "q")
    with pytest.raises(CompactionAbandonedError, match="bytes are live"):
        log.reclaim.compact(log.segments[0], [(0, 5)], 200)
    assert names(tmp_path / "q") == before
    assert read_all(log) == expected(0, 30)


class CompactsOnRead(FileSystem):
    """Compacts a log behind the back of the next read."""

    log: Log | None = None

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        if self.log is not None:
            log, self.log = self.log, None
            compact_all(log, 0, [(1, 24)])
            raise FileNotFoundError
        return super().pread(descriptor, size, position)


def test_a_segment_that_is_compacted_under_a_read_is_read_anew(tmp_path: Path) -> None:
    filesystem = CompactsOnRead()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    filesystem.log = log
    last = log.segments[-1].base_offset
    assert read_all(log) == expected(0, 1) | expected(last, 30)
    assert log.damaged == []


def test_a_reader_in_another_process_goes_on_in_the_next_generation(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 30)
    with LogReader(tmp_path / "q") as reader:
        splits = reader.plan_splits()
        compact_all(log, 0, [(1, 20)])
        found = [o for split in splits for batch in reader.read_split(split) for o in batch.offsets]
        assert found == [0, *range(20, 30)]
    with LogReader(tmp_path / "q") as reader:
        found = [o for split in splits for batch in reader.read_split(split) for o in batch.offsets]
        assert found == [0, *range(20, 30)]


def test_the_list_of_removed_ranges_is_bounded_and_covers_all_that_was() -> None:
    end = 4 * REMOVED_RANGES_MAX
    live = [(offset, offset + 1) for offset in range(100, end, 2)] + [(end, end + 50)]
    removed, are_joined = removed_ranges(live, 0, end + 60, REMOVED_RANGES_MAX)
    assert are_joined
    assert len(removed) == REMOVED_RANGES_MAX
    assert removed[0][0] == 0
    assert removed[-1] == (end + 50, end + 60)
    assert all(before[1] < after[0] for before, after in pairwise(removed))
    covered = {offset for start, stop in removed for offset in range(start, stop)}
    assert covered >= set(range(end + 60)) - {o for low, high in live for o in range(low, high)}


SETTLED = [(1, 10), (11, 15)]
LIVE = {0, 10, *range(15, 24)}


def check(root: Path) -> None:
    """Whatever of it was done: what is live is there, and nothing is called lost."""
    with LogReader(root / "q") as reader:
        # An `end` from before the power cut hides what is behind it.
        live = {offset for offset in LIVE if offset < reader.log_end_offset}
        found = [offset for batch in reader.read() for offset in batch.offsets]
        assert set(found) >= live
    for _ in range(2):
        log, report = open_log(root / "q", segment_bytes=SEGMENT_BYTES)
        assert report.lost == []
        assert report.damaged_chunks == 0
        found_here = read_all(log)
        assert found_here.items() <= expected(0, 24).items()
        assert found_here.keys() >= LIVE
        assert list((root / "q").glob("*.compacting")) == []
        assert len(list((root / "q").glob("*.log"))) == len(log.segments)
        assert {p.stem for p in (root / "q").glob("*.index")} <= {
            p.stem for p in (root / "q").glob("*.log")
        }
        log.close()
    log, _ = open_log(root / "q", segment_bytes=SEGMENT_BYTES)
    compact_all(log, 0, SETTLED)
    assert read_all(log).keys() - LIVE <= set(range(log.segments[-1].base_offset, 24))
    log.close()
    assert problems(root / "q", is_dense=True) == []


@pytest.mark.crash
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_crash_at_any_operation_of_a_compaction_loses_nothing(
    tmp_path: Path, seed: int | None
) -> None:
    number = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root)
        log, _ = open_log(root / "q", filesystem, SEGMENT_BYTES)
        append(log, 0, 24)
        filesystem.fail_at = len(filesystem.operations) + number
        with suppress(LogFailedError, CompactionAbandonedError, OSError):
            compact_all(log, 0, SETTLED)
        is_over = len(filesystem.operations) <= filesystem.fail_at
        if seed is not None:
            filesystem.power_cut(random.Random(f"{seed} {number}"))
        check(root)
        if is_over:
            break
        number += 1
    assert number > 20


@pytest.mark.crash
def test_one_operation_that_fails_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    class FailsOnce(FaultyFileSystem):
        def _operation(self, *arguments: object, **keywords: object) -> None:
            try:
                super()._operation(*arguments, **keywords)  # type: ignore[arg-type]
            except OSError:
                self.fail_at = None
                raise

    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FailsOnce(root)
        log, _ = open_log(root / "q", filesystem, SEGMENT_BYTES)
        append(log, 0, 24)
        filesystem.fail_at = len(filesystem.operations) + number
        with suppress(OSError):
            compact_all(log, 0, SETTLED)
        assert read_all(log).keys() >= LIVE
        append(log, 24, 27)
        compact_all(log, 0, SETTLED)
        assert read_all(log).keys() >= LIVE | {24, 25, 26}
        log.close()
        log, report = open_log(root / "q", segment_bytes=SEGMENT_BYTES)
        assert report.is_clean
        assert read_all(log).keys() >= LIVE | {24, 25, 26}


def test_a_start_after_a_crash_makes_the_new_name_durable_before_the_old_file_goes(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, SEGMENT_BYTES)
    append(log, 0, 24)
    old = {path: path.read_bytes() for path in (tmp_path / "q").glob("*.log")}
    compact_all(log, 0, SETTLED)
    for path, data in old.items():
        path.write_bytes(data)
    second = FaultyFileSystem(tmp_path)
    open_log(tmp_path / "q", second, SEGMENT_BYTES)
    assert "unlink" in second.operations
    assert second.operations.index("sync_directory") < second.operations.index("unlink")


def test_of_two_whole_generations_the_newer_counts(tmp_path: Path) -> None:
    """The older one has all that was settled: it would come again."""
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    append(log, 0, 24)
    old = {path: path.read_bytes() for path in (tmp_path / "q").glob("*.log")}
    compact_all(log, 0, SETTLED)
    kept = records(log)
    log.close()
    for path, data in old.items():
        path.write_bytes(data)
    with LogReader(tmp_path / "q") as reader:
        assert [offset for batch in reader.read() for offset in batch.offsets] == sorted(kept)
    log, _ = open_log(tmp_path / "q", segment_bytes=SEGMENT_BYTES)
    assert records(log) == kept


def test_messages_of_any_size_survive_side_by_side(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=5 << 20)
    sizes = [10, 3 << 20, 20, 2 << 20, 30, 3 << 20, 40]
    for number, size in enumerate(sizes):
        encoded = encode_chunk([message(number, size)], number, None, 1, None, SALT)
        log.append(Append([encoded], number + 1, sync=True))
    compact_all(log, 0, [(0, 1), (2, 3)])
    assert sorted(read_all(log, max_bytes=1)) == [1, 3, 4, 5, 6]
