"""What a reader tells of the damage that it skips: which bytes, why, and what they cost."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appendlog import LogReader, SplitReader
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.format import CHUNK_HEADER_BYTES
from appendlog.segments.damaged_range import DamagedRange
from appendlog.split_reader import Split, skip_damage
from tests.appendlog.builders import append, expected, open_log

COUNT = 90
CHUNK_RECORDS = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a log of one segment, three records to a chunk."""
    path = tmp_path_factory.mktemp("whole")
    log, _ = open_log(path, segment_bytes=1 << 20)
    append(log, 0, COUNT)
    log.close()
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    for path in whole.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def chunk_positions(directory: Path) -> list[int]:
    """Return where each chunk starts, and where the last one ends."""
    with LogReader(directory) as reader:
        positions = [reader.plan_splits()[0].first_position]
    (segment,) = directory.glob("*.log")
    data = segment.read_bytes()
    for _ in range(0, COUNT, CHUNK_RECORDS):
        at = positions[-1]
        header = decode_chunk_header(data[at : at + CHUNK_HEADER_BYTES])
        assert header.base_offset == (len(positions) - 1) * CHUNK_RECORDS
        positions.append(at + header.chunk_bytes)
    return positions


def spoil(directory: Path, *places: int) -> None:
    (segment,) = directory.glob("*.log")
    data = bytearray(segment.read_bytes())
    for place in places:
        data[place] ^= 1
    segment.write_bytes(data)


def damage_of(directory: Path, splits: Sequence[Split]) -> list[DamagedRange]:
    """Return what reads of the splits tell, each of which checks what it can."""
    told: list[DamagedRange] = []
    for split in splits:
        reader = SplitReader(directory, on_damage=skip_damage)
        batches = list(reader.read(split, 7, 300))
        reader.close()
        here = [each for batch in batches for each in batch.damaged]
        lost = [each for batch in batches for each in batch.lost]
        assert [
            (each.start_offset, each.end_offset)
            for each in here
            if each.start_offset < each.end_offset
        ] == lost
        told += here
    return told


def test_a_flipped_bit_costs_its_chunk_and_is_told_exactly(damaged: Path) -> None:
    positions = chunk_positions(damaged)
    spoil(damaged, positions[4] + CHUNK_HEADER_BYTES + 5)
    with LogReader(damaged) as reader:
        splits = reader.plan_splits()
    (told,) = damage_of(damaged, splits)
    (segment,) = damaged.glob("*.log")
    assert told == DamagedRange(
        segment.name, positions[4], positions[5], "a chunk whose checksum is wrong", 12, 15
    )
    assert str(told).startswith(
        f"{segment.name}: bytes [{positions[4]}, {positions[5]}), offsets [12, 15)"
    )
    assert pickle.loads(pickle.dumps(told)) == told
    with_bytes = SplitReader(damaged, on_damage=skip_damage)
    assert with_bytes.damaged_bytes(told, 1 << 20) == segment.read_bytes()[slice(*positions[4:6])]
    assert len(with_bytes.damaged_bytes(told, 10)) == 10
    with_bytes.close()


def test_what_is_no_chunk_at_all_is_told_so(damaged: Path) -> None:
    positions = chunk_positions(damaged)
    spoil(damaged, positions[4])
    with LogReader(damaged) as reader:
        (told,) = damage_of(damaged, reader.plan_splits())
    assert (told.reason, told.start_position) == ("no chunk begins here", positions[4])


def test_a_segment_that_became_shorter_is_told_so(damaged: Path) -> None:
    positions = chunk_positions(damaged)
    (segment,) = damaged.glob("*.log")
    segment.write_bytes(segment.read_bytes()[: positions[-2] + 20])
    with LogReader(damaged) as reader:
        (told,) = damage_of(damaged, reader.plan_splits())
    assert (told.start_position, told.start_offset, told.end_offset) == (positions[-2], 87, 90)


def test_the_chunk_around_each_record_is_told_exactly(damaged: Path) -> None:
    positions = chunk_positions(damaged)
    (segment,) = damaged.glob("*.log")
    with LogReader(damaged) as reader:
        splits = reader.plan_splits(split_bytes=500)
    assert len(splits) > 1
    split_reader = SplitReader(damaged)
    for split in splits:
        for offset in range(split.start_offset, split.end_offset):
            at = offset // CHUNK_RECORDS
            assert split_reader.around_record(split, offset, "no message") == DamagedRange(
                segment.name, positions[at], positions[at + 1], "no message", offset, offset + 1
            )
    split_reader.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    chunks=st.sets(st.integers(0, COUNT // CHUNK_RECORDS - 1), max_size=6),
    at=st.sampled_from([0, 9, CHUNK_HEADER_BYTES + 5]),
    split_bytes=st.integers(1, 2_000),
    start=st.integers(0, COUNT),
    end=st.integers(0, COUNT),
)
def test_splits_tell_disjoint_pieces_that_make_up_all_damage(
    whole: Path,
    tmp_path_factory: pytest.TempPathFactory,
    chunks: set[int],
    at: int,
    split_bytes: int,
    start: int,
    end: int,
) -> None:
    start, end = min(start, end), max(start, end)
    directory = tmp_path_factory.mktemp("damaged")
    for path in whole.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    positions = chunk_positions(directory)
    spoil(directory, *(positions[chunk] + at for chunk in chunks))
    with LogReader(directory) as reader:
        splits = reader.plan_splits(start, end, split_bytes)
    told = damage_of(directory, splits)
    bad = {
        offset
        for chunk in chunks
        for offset in range(chunk * CHUNK_RECORDS, (chunk + 1) * CHUNK_RECORDS)
    } & set(range(start, end))
    assert [offset for each in told for offset in range(each.start_offset, each.end_offset)] == (
        sorted(bad)
    )
    covered = [byte for each in told for byte in range(each.start_position, each.end_position)]
    assert len(covered) == len(set(covered))
    for offset in bad:
        chunk = offset // CHUNK_RECORDS
        assert set(range(positions[chunk], positions[chunk + 1])) <= set(covered)
    with LogReader(directory, skip_damage=True) as reader:
        found = {
            offset: message
            for batch in reader.read(start, end)
            for offset, message in zip(batch.offsets, batch.messages, strict=True)
        }
    kept = expected(start, end)
    assert found == {offset: kept[offset] for offset in kept if offset not in bad}
