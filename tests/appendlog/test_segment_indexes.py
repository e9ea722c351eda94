"""Lookups by offset and by time agree with a scan, whatever is in the index files."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import Append, Log, LogReader, encode_chunk
from tests.appendlog.builders import (
    SALT,
    a_log,
    append,
    chunk,
    expected,
    flip,
    message,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem

SEGMENT_BYTES = 3_000

Damage = Callable[[Path, random.Random], None]


def _remove(path: Path, _chance: random.Random) -> None:
    path.unlink()


def _truncate(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def _leave_out_the_last(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: 16 * chance.randint(1, len(data) // 16)])


def _flip_bits(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _shuffle(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    entries = [data[at : at + 16] for at in range(16, len(data), 16)]
    chance.shuffle(entries)
    path.write_bytes(data[:16] + b"".join(entries))


def _add_entries(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(16 * chance.randint(1, 3)))


def _zeros(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    start = chance.randrange(len(data))
    path.write_bytes(data[:start] + bytes(len(data) - start))


def _of_another_segment(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.choice(sorted(path.parent.glob("*.index"))).read_bytes())


def _leave(_path: Path, _chance: random.Random) -> None:
    pass


DAMAGES = [
    _leave,
    _remove,
    _truncate,
    _leave_out_the_last,
    _flip_bits,
    _shuffle,
    _add_entries,
    _zeros,
    _of_another_segment,
]


def _random_log(directory: Path, chance: random.Random) -> tuple[Log, dict[int, int]]:
    """Return an open log of several segments, and the append time of each offset.

    Times step back now and then, which begins a segment.
    """
    log, _ = open_log(directory, segment_bytes=SEGMENT_BYTES)
    times: dict[int, int] = {}
    offset, time_ns, steps = 0, 1_000, chance.random() < 0.3
    for _ in range(chance.randint(1, 60)):
        if steps and chance.random() < 0.05:
            time_ns = chance.randint(0, time_ns)
        count = chance.choice([1, 1, 3, 12])
        stamps = [time_ns := time_ns + chance.choice([0, 0, 1, 50]) for _ in range(count)]
        times.update(zip(range(offset, offset + count), stamps, strict=True))
        messages = [message(number) for number in range(offset, offset + count)]
        deltas = [stamp - stamps[0] for stamp in stamps]
        log.append(
            Append(
                [encode_chunk(messages, offset, None, stamps[0], deltas, SALT)],
                offset + count,
                sync=False,
            )
        )
        offset += count
    return log, times


@given(st.randoms(use_true_random=False), st.sampled_from(DAMAGES))
def test_lookups_agree_with_a_scan_whatever_happened_to_the_indexes(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, damage: Damage
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log, times = _random_log(directory, chance)
    log.append(Append([], log.log_end_offset, sync=True))
    written = {path: path.read_bytes() for path in directory.glob("*.index")}
    if chance.random() < 0.5:
        # Half of the time the log has the files mapped already.
        _check(log, times)
    for path in written:
        if chance.random() < 0.7:
            damage(path, chance)
    with LogReader(directory) as reader:
        assert read_all_of(reader) == expected(0, len(times))
        for wanted in _moments(times):
            assert reader.first_offset_at(wanted) == _first_at(times, wanted)
    _check(log, times)
    log.close()


def _check(log: Log, times: dict[int, int]) -> None:
    for offset in times:
        assert log.read(offset, 1, 1).offsets == [offset]
    for wanted in _moments(times):
        assert log.first_offset_at(wanted) == _first_at(times, wanted)


def _moments(times: dict[int, int]) -> list[int]:
    return sorted({stamp + step for stamp in times.values() for step in (0, 1)} | {0})


def _first_at(times: dict[int, int], wanted: int) -> int:
    return next((offset for offset, stamp in times.items() if stamp >= wanted), len(times))


def read_all_of(reader: LogReader) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for batch in reader.read():
        found.update(zip(batch.offsets, batch.messages, strict=True))
    return found


@pytest.mark.parametrize(
    "damage", [_remove, _truncate, _leave_out_the_last, _shuffle, _add_entries]
)
def test_an_index_that_is_not_right_is_stored_again_as_it_was_written(
    tmp_path: Path, damage: Damage
) -> None:
    a_log(tmp_path, 300, segment_bytes=SEGMENT_BYTES)
    *sealed, _ = sorted(tmp_path.glob("*.index"))
    written = [path.read_bytes() for path in sealed]
    for path, data in zip(sealed, written, strict=True):
        while path.exists() and path.read_bytes() == data:
            damage(path, random.Random(1))
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert log.index_statistics().rebuilt == 0
    assert all(log.read(offset, 1, 1).offsets == [offset] for offset in range(300))
    assert [path.read_bytes() for path in sealed] == written
    assert log.index_statistics().rebuilt == len(sealed)
    assert all(log.read(offset, 1, 1).offsets == [offset] for offset in range(300))
    assert log.index_statistics().rebuilt == len(sealed)


def test_a_reader_in_another_process_changes_no_index(tmp_path: Path) -> None:
    a_log(tmp_path, 300)
    (path,) = tmp_path.glob("*.index")
    path.unlink()
    with LogReader(tmp_path) as reader:
        assert len(reader.plan_splits(split_bytes=5_000)) == 3
        assert reader.first_offset_at(1_150) == 150
    assert list(tmp_path.glob("*.index*")) == []


def test_an_entry_that_leads_to_another_chunk_is_caught(tmp_path: Path) -> None:
    segment, *_ = a_log(tmp_path, 300, segment_bytes=SEGMENT_BYTES)
    index = segment.with_suffix(".index")
    data = bytearray(index.read_bytes())
    written = bytes(data)
    # The second entry says an offset that is one too low: its chunk begins behind it.
    data[32] -= 1
    index.write_bytes(data)
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    wanted = data[32]
    assert log.read(wanted, 1, 1).offsets == [wanted]
    assert index.read_bytes() == written


def test_times_in_the_index_are_not_believed(tmp_path: Path) -> None:
    segment, *_ = a_log(tmp_path, 300, segment_bytes=SEGMENT_BYTES)
    index = segment.with_suffix(".index")
    data = index.read_bytes()
    early = b"".join(data[at : at + 8] + bytes(8) for at in range(16, len(data), 16))
    index.write_bytes(data[:16] + early)
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert [log.first_offset_at(1_000 + number) for number in range(0, 300, 3)] == list(
        range(0, 300, 3)
    )


def test_damage_in_the_log_is_skipped_by_an_index_that_is_built_anew(tmp_path: Path) -> None:
    first, second, *_ = a_log(tmp_path, 300, segment_bytes=SEGMENT_BYTES)
    flip(first, 1_000)
    for path in tmp_path.glob("*.index"):
        path.unlink()
    log, _ = open_log(tmp_path, segment_bytes=SEGMENT_BYTES)
    found = read_all(log)
    lost = sorted(set(range(300)) - set(found))
    assert len(lost) == 3
    assert found == {number: message(number) for number in range(300) if number not in lost}
    assert log.first_offset_at(1_000 + lost[0]) == lost[-1] + 1
    assert log.read(int(second.stem), 1, 1).offsets == [int(second.stem)]


def test_what_is_stored_of_the_active_index_is_not_in_memory(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 600)
    (index,) = tmp_path.glob("*.index")
    stored = index.stat().st_size // 16 - 1
    statistics = log.index_statistics()
    assert 0 < stored < statistics.entries
    assert (statistics.size_bytes, statistics.interval_bytes) == (16 * stored + 16, 256)
    assert [log.read(offset, 1, 1).offsets for offset in range(600)] == [[n] for n in range(600)]
    index.unlink()
    assert [log.read(offset, 1, 1).offsets for offset in range(600)] == [[n] for n in range(600)]
    append(log, 600, 900)
    assert [log.read(offset, 1, 1).offsets for offset in range(900)] == [[n] for n in range(900)]


def test_indexes_that_are_stored_built_anew_and_read_leave_no_file_open(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path, filesystem, segment_bytes=SEGMENT_BYTES)
    append(log, 0, 900)
    for path in tmp_path.glob("*.index"):
        path.unlink()
    assert read_all(log) == expected(0, 900)
    append(log, 900, 1_800)
    assert log.first_offset_at(1_000 + 1_200) == 1_200
    log.close()
    assert filesystem.open_count == 0


def test_first_at_a_time_looks_into_the_segment_that_is_written(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    assert log.first_offset_at(0) == 0
    log.append(Append([chunk(0, 3)], 3, sync=False))
    assert [log.first_offset_at(1_000 + step) for step in range(2)] == [0, 3]
