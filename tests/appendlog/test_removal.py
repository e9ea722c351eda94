"""Removing segments: what a read beside it may keep open, and what it costs."""

from pathlib import Path

from appendlog import FileSystem
from appendlog.segments.segment import Segment
from tests.appendlog.builders import OPENED, append, expected, open_log, read_all
from tests.faults.faulty_filesystem import FaultyFileSystem


class ReadsWhileUnlinking(FileSystem):
    """Lets a reader that knows the old segments read just before each file goes."""

    known: tuple[Segment, ...] = ()
    is_reading = False

    def unlink(self, path: Path) -> None:
        if self.known and not self.is_reading and path.suffix == ".log":
            self.is_reading = True
            assert path in {segment.path for segment in self.known}
            with OPENED[-1].borrow(self, path) as descriptor:
                self.pread(descriptor, 10, 0)
            self.is_reading = False
        super().unlink(path)


def unlinked_and_open(directory: Path) -> list[str]:
    """Return the log files of `directory` that are open here though they have no name any more."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith(str(directory)) and target.endswith(".log (deleted)"):
            found.append(target)
    return found


def test_a_read_beside_retention_leaves_no_removed_file_open(tmp_path: Path) -> None:
    filesystem = ReadsWhileUnlinking()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=600)
    append(log, 0, 30)
    filesystem.known = log.segments
    log.remove_settled(30)
    assert unlinked_and_open(tmp_path) == []
    assert read_all(log) == expected(log.log_start_offset, 30)


def test_a_read_beside_the_deletion_of_a_log_leaves_no_file_open(tmp_path: Path) -> None:
    filesystem = ReadsWhileUnlinking()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=600)
    append(log, 0, 30)
    filesystem.known = log.segments
    log.delete()
    assert unlinked_and_open(tmp_path) == []


def test_many_segments_are_removed_with_one_sync_of_the_directory(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=400)
    append(log, 0, 90)
    before = len(filesystem.operations)
    log.remove_settled(90)
    operations = filesystem.operations[before:]
    assert operations.count("unlink") > 10
    assert operations.count("sync_directory") == 1


def test_nothing_is_synced_when_nothing_is_removed(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=400)
    append(log, 0, 9)
    before = len(filesystem.operations)
    assert log.remove_settled(0) == 0
    assert filesystem.operations[before:] == []
