"""The short way to open a log: taken where it is whole, and never to another result."""

import os
import random
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import Append, Descriptors, FileSystem, Log, LogIdentity, LogOptions, encode_chunk
from appendlog.layout.chunk import encode_gap_marker
from appendlog.layout.format import GAP_LOST
from appendlog.layout.message import PERSISTENT
from appendlog.layout.segment_header import segment_header_bytes
from appendlog.recovery import log_images
from appendlog.recovery.known_sums import VERIFIED_BYTES
from appendlog.recovery.log_images import LogImage, read_images
from appendlog.recovery.log_recovery import RecoveredLog
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.recovery.segment_recovery import RecoveryContext
from appendlog.recovery.whole_log import recover_whole
from appendlog.segments.durable_end import DurableEndFile
from appendlog.segments.index import INDEX_GROUP_ENTRIES
from appendlog.segments.segment import SegmentName
from tests.appendlog.builders import (
    IDENTITY,
    SALT,
    append,
    chunk,
    cut,
    expected,
    flip,
    message,
    open_log,
    read_all,
)

INTERVAL_BYTES = 256
NOW_NS = 10**18


needs_images = pytest.mark.skipif(
    log_images._READ is None, reason="without a compiled kernel there are no images"
)


def image_of(directory: Path) -> LogImage | None:
    (image,) = read_images(FileSystem(), [directory])
    return image


def short_way(
    directory: Path,
    known_end: int = 0,
    identity: LogIdentity = IDENTITY,
    interval_bytes: int = INTERVAL_BYTES,
) -> RecoveredLog | None:
    """Return what the short way finds, which may be nothing; changes no file."""
    image = image_of(directory)
    if image is None:
        return None
    context = RecoveryContext(
        directory,
        identity,
        FileSystem(),
        Descriptors(1),
        interval_bytes,
        RecoveryReport(directory),
        0,
        known_end,
        NOW_NS,
    )
    return recover_whole(context, image)


def opened(directory: Path, image: LogImage | None) -> dict[str, object]:
    """Open a log, with an image or without; return all that can be seen of it, and its files."""
    options = LogOptions(
        segment_bytes=1 << 20,
        index_interval_bytes=INTERVAL_BYTES,
        descriptors=Descriptors(4),
        time_ns=lambda: NOW_NS,
    )
    log, report = Log.open(directory, IDENTITY, options, image=image)
    segments = [
        (
            each.name,
            each.data_bytes,
            each.size_bytes,
            each.summary,
            each.is_sealed,
            each.is_whole,
            # That of a sealed one is when it was opened.
            each.begun_ns == NOW_NS,
            None if each.index is None else (each.index.stored_count, list(each.index.tail)),
        )
        for each in log.segments
    ]
    seen: dict[str, object] = {
        "report": asdict(report) | {"directory": None, "seconds": None},
        "ends": (log.log_start_offset, log.log_end_offset, log.recovery_point),
        "segments": segments,
        "messages": read_all(log),
    }
    end = log.log_end_offset
    append(log, end, end + 3)
    seen["appended"] = read_all(log, end)
    log.close()
    seen["files"] = {each.name: each.read_bytes() for each in sorted(directory.iterdir())}
    return seen


def a_random_log(directory: Path, chance: random.Random) -> list[bytes]:
    """Write a log; return the contents that its `end` file had."""
    log, _ = open_log(directory)
    ends = []
    large = chance.random() < 0.3
    for _ in range(chance.randint(1, 12)):
        start = log.log_end_offset
        stop = start + chance.randint(1, 400 if large else 40)
        flags = chance.choice([0, PERSISTENT])
        body_bytes = chance.choice([0, 900, 900, 20_000])
        step = chance.choice([1, stop - start])
        for first in range(start, stop, step):
            messages = [message(number, body_bytes, flags) for number in range(first, first + step)]
            data = encode_chunk(messages, first, None, 1_000 + first, None, SALT)
            log.append(Append([data], first + step, sync=chance.random() < 0.5))
        if chance.random() < 0.2:
            log.append(Append([], log.log_end_offset + 7, sync=True))
        if chance.random() < 0.05:
            log.roll()
        ends.append((directory / "end").read_bytes())
    if chance.random() < 0.5:
        log.close()
    return ends


def change(directory: Path, chance: random.Random) -> None:
    """Change a file of a log, as a faulty disk or a person might."""
    path = chance.choice(sorted(directory.iterdir()))
    size = path.stat().st_size
    near_end = max(size - 200, 0)
    kind = chance.choice(["flip", "flip", "cut", "extend", "remove", "other", "old end"])
    if kind == "flip" and size:
        flip(path, chance.choice([chance.randrange(size), chance.randrange(near_end, size)]))
    elif kind == "cut":
        cut(path, chance.choice([chance.randint(0, size), chance.randint(near_end, size)]))
    elif kind == "extend":
        path.write_bytes(path.read_bytes() + bytes(chance.choice([1, 16, 100])))
    elif kind == "remove":
        path.unlink()
    elif kind == "other":
        name = chance.choice(["deleted", "notes.txt", f"{9:020d}.log", f"{9:020d}.index", ".x"])
        (directory / name).write_bytes(bytes(chance.choice([0, 50])))
    elif kind == "old end" and (directory / "end").exists():
        # As if the newest slot had not reached the disk.
        data = bytearray((directory / "end").read_bytes())
        data[512:] = bytes(len(data[512:]))
        (directory / "end").write_bytes(bytes(data))


def cut_power(directory: Path, ends: Sequence[bytes], chance: random.Random) -> None:
    """Leave the log as a power cut does: with an old `end` and an old index, or without them."""
    end = directory / "end"
    kind = chance.choice(["old", "old", "old", "empty", "missing"])
    if kind == "old" and ends:
        end.write_bytes(chance.choice(ends))
    elif kind == "empty" and end.exists():
        cut(end, 0)
    else:
        end.unlink(missing_ok=True)
    for index in directory.glob("*.index"):
        if chance.random() < 0.2:
            index.unlink()
        elif chance.random() < 0.3:
            cut(index, 16 * chance.randint(0, index.stat().st_size // 16))


@given(st.randoms(use_true_random=False), st.integers(0, 2))
def test_both_ways_find_the_same_log_whatever_was_changed(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, changes: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    ends = a_random_log(directory / "short", chance)
    if chance.random() < 0.5:
        cut_power(directory / "short", ends, chance)
    for _ in range(changes):
        if any((directory / "short").iterdir()):
            change(directory / "short", chance)
    shutil.copytree(directory / "short", directory / "long")
    short = opened(directory / "short", image_of(directory / "short"))
    assert short == opened(directory / "long", None)


@needs_images
@pytest.mark.parametrize("size_bytes", [0, 5_000, VERIFIED_BYTES, 9 * VERIFIED_BYTES])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_log_that_is_as_its_end_says_is_opened_by_its_image_alone(
    tmp_path: Path, size_bytes: int, is_closed: bool
) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    while log.size_bytes < size_bytes:
        append(log, log.log_end_offset, log.log_end_offset + 3)
    if is_closed:
        log.close()
    found = short_way(tmp_path)
    assert found is not None
    assert found.end_offset == log.log_end_offset
    assert found.matches_end_file
    assert [each.summary for each in found.segments] == log.summaries()
    image = image_of(tmp_path)
    assert image is not None
    read_bytes = len(image.head) + len(image.foot) + len(image.index_part)
    assert read_bytes < 2 * VERIFIED_BYTES + (8 << 10)


@needs_images
@pytest.mark.parametrize("count", [10, 100, 2_000])
@pytest.mark.parametrize("kind", ["old end", "no end", "empty end", "an end that promises nothing"])
def test_a_log_with_whole_chunks_behind_its_end_is_opened_by_its_image_too(
    tmp_path: Path, count: int, kind: str
) -> None:
    directory = tmp_path / "log"
    log, _ = open_log(directory)
    append(log, 0, 3)
    append(log, 3, count - 3, step=100)
    end = (directory / "end").read_bytes()
    append(log, count - 3, count, step=1)
    log.close()
    if kind == "old end":
        (directory / "end").write_bytes(end)
    elif kind == "empty end":
        cut(directory / "end", 0)
    else:
        (directory / "end").unlink()
        if kind == "an end that promises nothing":
            nothing = DurableEndFile(directory, IDENTITY.incarnation, 0)
            nothing.write(FileSystem(), Descriptors(1), 0, SegmentName(0, 0), 0)
    found = short_way(directory)
    assert found is not None
    assert found.end_offset == found.lost_end_offset == count
    assert not found.matches_end_file
    log, report = open_log(directory)
    if kind == "old end":
        assert 0 < report.scanned_bytes < 3 * len(chunk(0, 3))
    assert log.recovery_point == count
    assert read_all(log) == expected(0, count)
    log.close()
    again = short_way(directory)
    assert again is not None
    assert again.matches_end_file


def large_chunks(directory: Path, count: int) -> Log:
    log, _ = open_log(directory, segment_bytes=64 << 20)
    for number in range(count):
        data = encode_chunk([message(number, body_bytes=150_000)], number, None, 1_000, None, SALT)
        log.append(Append([data], number + 1, sync=True))
    return log


@needs_images
@pytest.mark.parametrize("count", [2, INDEX_GROUP_ENTRIES - 1, INDEX_GROUP_ENTRIES, 51])
def test_of_large_chunks_only_headers_are_read_before_those_that_are_verified(
    tmp_path: Path, count: int
) -> None:
    large_chunks(tmp_path, count)
    found, image = short_way(tmp_path), image_of(tmp_path)
    assert found is not None
    assert image is not None
    assert found.end_offset == count
    (segment,) = found.segments
    assert segment.index is not None
    # The file has whole groups of entries, if any; the others are in memory.
    stored = count // INDEX_GROUP_ENTRIES * INDEX_GROUP_ENTRIES
    assert segment.index.stored_count == stored
    assert [entry.offset for entry in segment.index.tail] == list(range(stored, count))
    assert len(image.foot) < 150_000 + VERIFIED_BYTES


def _torn(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    segment.write_bytes(segment.read_bytes() + b"torn")


def _torn_behind(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    segment.write_bytes(segment.read_bytes() + chunk(30, 33) + chunk(33, 36)[:-1])


def _damaged_behind(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    data = chunk(30, 33)
    segment.write_bytes(segment.read_bytes() + data[:-1] + bytes([data[-1] ^ 1]) + chunk(33, 36))


def _noted_behind(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    note = encode_gap_marker(30, 33, GAP_LOST, 1_000, SALT)
    segment.write_bytes(segment.read_bytes() + note + chunk(33, 36))


def _other_order_behind(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    segment.write_bytes(segment.read_bytes() + chunk(33, 36) + chunk(30, 33))


def _much_behind(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    data = b"".join(chunk(number, number + 300) for number in range(30, 15_030, 300))
    segment.write_bytes(segment.read_bytes() + data)
    assert len(data) > 640 << 10


def _sealed(directory: Path) -> None:
    log, _ = open_log(directory)
    log.roll()
    log.close()
    (directory / f"{30:020d}.log").unlink()


def _two_segments(directory: Path) -> None:
    log, _ = open_log(directory)
    log.roll()
    log.close()


def _linked(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    segment.rename(directory.parent / "elsewhere")
    segment.symlink_to(directory.parent / "elsewhere")


def _piped(directory: Path) -> None:
    (directory / "end").unlink()
    os.mkfifo(directory / "end")


def _marked(directory: Path) -> None:
    (directory / "deleted").touch()


def _damaged(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    flip(segment, segment.stat().st_size - 20)


def _named_wrongly(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    segment.rename(directory / f"{3:020d}.log")


def _named_oddly(directory: Path) -> None:
    (segment,) = directory.glob("*.log")
    segment.rename(directory / f"{0:020d}-{0:010d}.log")


@needs_images
@pytest.mark.parametrize(
    "change",
    [
        _torn,
        _torn_behind,
        _damaged_behind,
        _noted_behind,
        _other_order_behind,
        _much_behind,
        _sealed,
        _two_segments,
        _linked,
        _piped,
        _marked,
        _damaged,
        _named_wrongly,
        _named_oddly,
    ],
)
def test_anything_else_is_left_to_the_long_way(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    directory = tmp_path / "log"
    log, _ = open_log(directory)
    append(log, 0, 30)
    log.close()
    assert short_way(directory) is not None
    change(directory)
    assert short_way(directory) is None


@needs_images
def test_a_log_of_another_queue_or_below_its_checkpoint_is_left_to_the_long_way(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 30)
    log.close()
    other = LogIdentity("/", "other", uuid.uuid4())
    renamed = LogIdentity("/", "renamed", IDENTITY.incarnation)
    assert short_way(tmp_path, identity=other) is None
    assert short_way(tmp_path, identity=renamed) is None
    assert short_way(tmp_path, known_end=30) is not None
    assert short_way(tmp_path, known_end=31) is None


@needs_images
def test_a_segment_without_index_is_short_if_it_cannot_have_had_a_group_of_entries(
    tmp_path: Path,
) -> None:
    for count, is_short in ((INDEX_GROUP_ENTRIES + 1, True), (3 * INDEX_GROUP_ENTRIES, False)):
        directory = tmp_path / str(count)
        large_chunks(directory, count).close()
        (index,) = directory.glob("*.index")
        index.unlink()
        assert (short_way(directory) is not None) == is_short


@needs_images
def test_small_chunks_are_all_verified_up_to_the_bytes_that_an_image_may_have(
    tmp_path: Path,
) -> None:
    options = LogOptions(descriptors=Descriptors(4), index_interval_bytes=1 << 20)
    log, _ = Log.open(tmp_path, IDENTITY, options)
    while log.size_bytes < 600_000:
        append(log, log.log_end_offset, log.log_end_offset + 300)
    found, image = short_way(tmp_path, interval_bytes=1 << 20), image_of(tmp_path)
    assert found is not None
    assert image is not None
    assert image.index_bytes < 0
    assert found.end_offset == log.log_end_offset
    (segment,) = tmp_path.glob("*.log")
    flip(segment, segment_header_bytes(IDENTITY) + 200)
    assert short_way(tmp_path, interval_bytes=1 << 20) is None
    flip(segment, segment_header_bytes(IDENTITY) + 200)
    while log.size_bytes < 700_000:
        append(log, log.log_end_offset, log.log_end_offset + 300)
    assert image_of(tmp_path) is None
    log.close()
