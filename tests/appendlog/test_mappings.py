"""Mapped reads: the same records, bounded, gone with their last holder, errors and no signals."""

import gc
import mmap
import os
from pathlib import Path

import pytest

from appendlog import FileSystem, Log, LogFailedError, LogOptions
from appendlog.files.descriptors import Descriptors
from appendlog.files.mapped_file import MappedFile
from appendlog.files.mappings import Mappings
from appendlog.segments.segment_list import find_segment
from tests.appendlog.builders import IDENTITY, append, cut, expected, flip, messages, read_all

SEGMENT_BYTES = 2_000


def open_log(
    directory: Path, mappings: Mappings, filesystem: FileSystem | None = None, end: int = 0
) -> Log:
    """Open a log of small segments with sets of its own, and append up to `end`."""
    options = LogOptions(segment_bytes=SEGMENT_BYTES, descriptors=Descriptors(4), mappings=mappings)
    log, _ = Log.open(directory, IDENTITY, options, filesystem)
    if end:
        append(log, 0, end, sync=False)
    return log


def mapped_files(directory: Path) -> list[str]:
    """Return the segments below a directory that this process has mapped, one for each mapping."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    files = [line.split(maxsplit=5)[5] for line in lines if str(directory) in line]
    return [file for file in files if ".index" not in file]


def open_files(directory: Path) -> list[str]:
    """Return the files below a directory that this process has open."""
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except OSError:
            continue
    return [link for link in links if str(directory) in link]


def test_sealed_segments_are_read_through_mappings_and_the_last_one_is_not(tmp_path: Path) -> None:
    mappings = Mappings()
    log = open_log(tmp_path / "log", mappings, end=100)
    last = max(log.directory.glob("*.log"))

    assert read_all(log) == expected(0, 100)

    mapped = mapped_files(log.directory)
    assert len(mapped) == mappings.count == len(list(log.directory.glob("*.log"))) - 1 > 3
    assert str(last) not in mapped
    log.close()


def test_a_window_is_one_part_without_a_copy_and_ends_between_chunks(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", Mappings(), end=100)
    found: list[bytes] = []
    while len(found) < 100:
        result = log.read_window(len(found), 1_000)
        (part,) = result.parts
        assert isinstance(part.buffer, mmap.mmap) or result.next_offset == 100
        assert list(part.offsets) == list(range(len(found), result.next_offset))
        assert result.next_offset % 3 == 0 or result.next_offset == 100
        found += part.messages()
    assert found == messages(0, 100)
    log.close()


def test_no_more_is_mapped_than_the_bounds_say_and_everything_is_read_nevertheless(
    tmp_path: Path,
) -> None:
    mappings = Mappings(count_max=3, bytes_max=1 << 20)
    logs = [open_log(tmp_path / str(number), mappings, end=60) for number in range(5)]
    held = []
    for offset in range(60):
        for log in logs:
            result = log.read_window(offset, 1)
            assert result.messages == messages(offset, offset + 1)
            held += result.parts
            assert mappings.count <= 3
        # The system is asked after each log in turn: its answer has all files of the process.
        assert len(mapped_files(tmp_path)) == mappings.count
        assert len(open_files(tmp_path)) <= 5 * (4 + 4) + 3
    assert {type(part.buffer) for part in held} == {bytes, MappedFile}
    held.clear()
    for log in logs:
        log.close()


def test_address_space_is_bounded_too(tmp_path: Path) -> None:
    mappings = Mappings(bytes_max=2 * SEGMENT_BYTES)
    log = open_log(tmp_path / "log", mappings, end=200)
    for offset in range(0, 200, 3):
        log.read_window(offset, 10)
        assert 0 <= mappings.mapped_bytes <= 2 * SEGMENT_BYTES
    assert mappings.count <= 2 < len(list(log.directory.glob("*.log")))
    log.close()


def test_a_long_segment_is_mapped_a_window_at_a_time(tmp_path: Path) -> None:
    mappings = Mappings(window_bytes=mmap.ALLOCATIONGRANULARITY)
    options = LogOptions(segment_bytes=60_000, descriptors=Descriptors(4), mappings=mappings)
    log, _ = Log.open(tmp_path / "log", IDENTITY, options)
    append(log, 0, 2_000, sync=False, step=50)
    for offset in (0, 500, 900, 100, 901, 1_999, 3):
        assert log.read(offset, 200, 3).messages == messages(offset, min(offset + 3, 2_000))
        # Files of one log, each with one window; a chunk may need a second page.
        assert mappings.mapped_bytes <= mappings.count * 18 * mmap.ALLOCATIONGRANULARITY
    assert read_all(log) == expected(0, 2_000)
    log.close()


def test_what_is_in_use_stays_mapped_and_what_is_not_makes_room(tmp_path: Path) -> None:
    mappings = Mappings(count_max=3)
    log = open_log(tmp_path / "log", mappings, end=150)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 5
    held = {at: log.read_window(bases[at], 1).parts[0].buffer for at in (0, 1, 2)}
    assert log.mapped_count == 3

    for at in (3, 4, 3, 4):
        (part,) = log.read_window(bases[at], 1).parts
        assert isinstance(part.buffer, bytes), "all mappings are in use"
    for at, buffer in held.items():
        assert log.read_window(bases[at] + 1, 1).parts[0].buffer is buffer
    assert log.mapped_count == 3

    del held[1], buffer
    (part,) = log.read_window(bases[3], 1).parts
    assert isinstance(part.buffer, mmap.mmap)
    for at, held_buffer in held.items():
        assert log.read_window(bases[at] + 1, 1).parts[0].buffer is held_buffer
    assert (log.mapped_count, mappings.count) == (4, 3)
    log.close()


def test_readers_at_many_places_of_a_long_segment_share_its_mappings(tmp_path: Path) -> None:
    mappings = Mappings(window_bytes=256 << 10)
    options = LogOptions(segment_bytes=1 << 30, descriptors=Descriptors(4), mappings=mappings)
    log, _ = Log.open(tmp_path / "log", IDENTITY, options)
    append(log, 0, 30_000, sync=False, step=50)
    log.roll()
    size = log.segments[0].data_bytes
    assert size > 4 * (256 << 10)
    for offset in (0, 29_000, 15_000, 100, 8_000, 22_000, 14_950, 7_000):
        result = log.read(offset, 200, 3)
        assert result.messages == messages(offset, offset + 3)
    # One for each part of the file, and those that reach from one part into the next.
    assert log.mapped_count <= size // (256 << 10) + 1
    log.close()


def test_what_is_held_stays_readable_when_its_segment_is_removed_and_is_unmapped_last(
    tmp_path: Path,
) -> None:
    mappings = Mappings()
    log = open_log(tmp_path / "log", mappings, end=100)
    held = log.read_window(0, 100)
    log.read_window(30, 100)
    segments = len(list(log.directory.glob("*.log")))

    assert log.remove_settled(100)

    assert len(list(log.directory.glob("*.log"))) == 1 < segments
    (mapped,) = mapped_files(log.directory)
    assert mapped.endswith("(deleted)")
    assert held.messages == messages(0, held.next_offset)
    del held
    assert mapped_files(log.directory) == []
    assert mappings.count == mappings.mapped_bytes == 0
    log.close()


@pytest.mark.parametrize("end", ["close", "delete"])
def test_nothing_stays_mapped_or_open_behind_a_log(tmp_path: Path, end: str) -> None:
    mappings = Mappings()
    log = open_log(tmp_path / "log", mappings, end=100)
    assert read_all(log) == expected(0, 100)
    assert mapped_files(log.directory)
    assert open_files(log.directory)

    getattr(log, end)()

    gc.collect()
    assert mapped_files(tmp_path) == []
    assert open_files(tmp_path) == []
    assert mappings.count == 0


class Reading(FileSystem):
    """Reads windows as a test wants."""

    error: OSError | None = None
    unlinks: Path | None = None

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        if self.error is not None:
            raise self.error
        if self.unlinks is not None:
            self.unlinks.unlink()
            self.unlinks = None
        return super().read_into(descriptor, buffer, position)


def test_a_disk_that_cannot_read_is_an_error_before_anything_is_mapped(tmp_path: Path) -> None:
    filesystem, mappings = Reading(), Mappings()
    log = open_log(tmp_path / "log", mappings, filesystem, end=100)
    filesystem.error = OSError(5, os.strerror(5))
    with pytest.raises(LogFailedError, match="Input/output error"):
        log.read_window(0, 100)
    assert mappings.count == 0

    filesystem.error = None
    assert log.failed is None
    assert read_all(log) == expected(0, 100)
    log.close()


def test_a_file_that_is_removed_while_it_is_mapped_is_not_kept(tmp_path: Path) -> None:
    filesystem, mappings = Reading(), Mappings()
    log = open_log(tmp_path / "log", mappings, filesystem, end=100)
    filesystem.unlinks = min(log.directory.glob("*.log"))

    result = log.read_window(0, 100)

    assert result.messages == messages(0, result.next_offset)
    assert mappings.count == 1
    del result
    assert mappings.count == 0
    log.close()


def test_a_file_that_somebody_has_shortened_is_read_without_a_mapping(tmp_path: Path) -> None:
    mappings = Mappings()
    log = open_log(tmp_path / "log", mappings, end=100)
    second = sorted(log.directory.glob("*.log"))[1]
    end = int(second.stem)
    cut(min(log.directory.glob("*.log")), 1_000)

    result = log.read(0, 1 << 20, 1_000)

    assert result.offsets[0] == 0
    assert result.lost[0][1] == end
    assert result.offsets[-1] == 99
    assert not any(file.endswith(f"{0:020}.log") for file in mapped_files(log.directory))
    log.close()


def test_damage_in_a_mapped_segment_is_skipped_and_told(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", Mappings(), end=100)
    path = sorted(log.directory.glob("*.log"))[1]
    flip(path, 1_000)

    found = read_all(log)

    segments = log.segments
    segment = segments[find_segment(segments, int(path.stem))]
    missing = expected(0, 100).keys() - found.keys()
    assert len(missing) == 3
    assert all(segment.base_offset <= offset < segment.end_offset for offset in missing)
    assert len(log.damaged) == 1
    log.close()


def resident_bytes(path: Path) -> int:
    """Return how much of a file is in the page tables of this process."""
    kibibytes, is_of_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            is_of_file = line.endswith(str(path))
        elif name == "Rss:" and is_of_file:
            kibibytes += int(rest.split()[0])
    return kibibytes << 10


def test_the_last_two_windows_are_resident_and_little_more(tmp_path: Path) -> None:
    window_bytes, part_bytes = 4 << 20, 32 << 20
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 3 * part_bytes)
    filesystem, mappings = FileSystem(), Mappings(window_bytes=part_bytes)
    descriptor = filesystem.open(path, os.O_RDONLY)
    for position in range(0, 3 * part_bytes, window_bytes):
        window = mappings.window(
            filesystem, path, descriptor, position, window_bytes, 3 * part_bytes
        )
        assert window is not None
        # Each part keeps its own last two; the kernel may map large pages around.
        parts = position // part_bytes + 1
        assert window_bytes <= resident_bytes(path) <= (2 * parts + 1) * window_bytes
    filesystem.close(descriptor)
    mappings.close()
