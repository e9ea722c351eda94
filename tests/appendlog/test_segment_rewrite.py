"""A damaged segment written anew, compacted or not, and interrupted at every operation."""

from contextlib import suppress
from pathlib import Path

import pytest

from appendlog import Append, FileSystem, encode_chunk
from appendlog.checking.log_check import check_log
from appendlog.checking.problem import Level
from appendlog.recovery.generations import newest_generations
from appendlog.repairing.segment_rewrite import RewrittenSegment, rewrite_segment, swap_in
from tests.appendlog.builders import (
    HEADER_BYTES,
    IDENTITY,
    SALT,
    a_log,
    append,
    cut,
    expected,
    flip,
    messages,
    open_log,
    read_all,
)
from tests.appendlog.test_compaction import compact_all
from tests.data_directories import chunk_positions
from tests.faults.faulty_filesystem import FaultyFileSystem

SEGMENT_BYTES = 700


def rewrite(directory: Path, at: int, filesystem: FileSystem | None = None) -> RewrittenSegment:
    """Write a segment anew and put it in the place of the old one."""
    names = newest_generations(directory, FileSystem())
    end_offset = names[at + 1].base_offset if at + 1 < len(names) else 0
    rewritten = rewrite_segment(
        directory,
        names[at],
        IDENTITY,
        filesystem or FileSystem(),
        end_offset=end_offset,
        previous_timestamp_ns=0,
    )
    swap_in(directory, names[at], rewritten, filesystem or FileSystem())
    return rewritten


def problems(directory: Path) -> list[str]:
    check = check_log(directory, IDENTITY, FileSystem(), is_live=False)
    harmless = {"index-missing", "old-generation"}
    return [each.kind for each in check.problems.kept if each.kind not in harmless]


def test_a_damaged_chunk_costs_its_messages_and_the_log_is_sound_again(tmp_path: Path) -> None:
    segments = a_log(tmp_path, 30, SEGMENT_BYTES)
    flip(segments[1], chunk_positions(segments[1])[1] + 95)
    assert problems(tmp_path) == ["damaged-chunk", "offsets-missing"]
    rewritten = rewrite(tmp_path, 1)
    ((start, end),) = rewritten.lost
    assert end - start == 3
    assert problems(tmp_path) == []
    log, report = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert report.damaged_chunks == 0
    left = {offset: each for offset, each in expected(0, 30).items() if not start <= offset < end}
    assert read_all(log) == left


def test_offsets_that_a_whole_chunk_passes_over_are_missing(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    log.append(
        Append([encode_chunk(messages(3, 6), 3, [1, 2, 5], 1_003, None, SALT)], 9, sync=True)
    )
    log.close()
    assert problems(tmp_path) == ["offsets-missing", "offsets-missing"]
    check = check_log(tmp_path, IDENTITY, FileSystem(), is_live=False)
    assert [each.offsets for each in check.problems.kept if each.offsets] == [(3, 4), (6, 8)]


@pytest.mark.parametrize("keep", [0, 1, HEADER_BYTES - 1])
def test_a_header_that_a_crash_cut_short_is_harmless(tmp_path: Path, keep: int) -> None:
    *_, last = a_log(tmp_path, 30, SEGMENT_BYTES)
    cut(last, keep)
    (tmp_path / "end").unlink()
    kept = check_log(tmp_path, IDENTITY, FileSystem(), is_live=False).problems.kept
    (problem,) = [each for each in kept if each.path == last]
    assert (problem.kind, problem.level) == ("torn-tail", Level.HARMLESS)


def test_what_compaction_removed_is_no_loss(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    append(log, 0, 60)
    settled = [(offset, offset + 1) for offset in range(1, 50, 2)]
    assert compact_all(log, 0, settled) > 0
    log.close()
    kept = {offset: each for offset, each in expected(0, 60).items() if offset % 2 == 0}
    kept |= {offset: each for offset, each in expected(0, 60).items() if offset >= 50}
    names = newest_generations(tmp_path, FileSystem())
    at = next(number for number, name in enumerate(names) if name.generation)
    path = tmp_path / names[at].file_name
    flip(path, chunk_positions(path)[0] + 95)
    assert "damaged-chunk" in problems(tmp_path)
    rewritten = rewrite(tmp_path, at)
    assert rewritten.lost
    assert all(start % 2 == 0 for start, _ in rewritten.lost)
    assert problems(tmp_path) == []
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    lost = {offset for start, end in rewritten.lost for offset in range(start, end)}
    assert read_all(log) == {offset: each for offset, each in kept.items() if offset not in lost}


def test_a_sound_compacted_segment_loses_nothing_when_it_is_written_anew(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    append(log, 0, 60)
    compact_all(log, 0, [(offset, offset + 2) for offset in range(1, 50, 3)])
    before = read_all(log)
    log.close()
    for at in range(len(newest_generations(tmp_path, FileSystem())) - 1):
        rewritten = rewrite(tmp_path, at)
        assert rewritten.lost == []
    assert problems(tmp_path) == []
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert read_all(log) == before


@pytest.mark.parametrize("fail_at", range(12))
def test_interrupted_anywhere_the_log_is_as_it_was_or_as_it_is_to_be(
    tmp_path: Path, fail_at: int
) -> None:
    segments = a_log(tmp_path, 30, SEGMENT_BYTES)
    flip(segments[1], chunk_positions(segments[1])[1] + 95)
    with suppress(OSError):
        rewrite(tmp_path, 1, FaultyFileSystem(tmp_path, fail_at=fail_at))
    assert problems(tmp_path) in (["damaged-chunk", "offsets-missing"], [])
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert len(read_all(log)) == 27
