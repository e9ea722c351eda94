"""What is moved to quarantine is in one of the two places after a power cut, on any file system."""

from pathlib import Path

from amqp_server.recovery.quarantine import Quarantine
from appendlog import FileSystem


class TwoStepDisk(FileSystem):
    """A disk where each directory keeps its own names: a rename is kept by halves.

    The model of `tests.faults.disk` moves a file at once, as journaling file systems do.
    """

    def __init__(self) -> None:
        self.source: Path | None = None
        self.synced: list[Path] = []

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.source, self.synced = source, []

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        if self.source is None:
            return
        self.synced.append(path)
        is_source_kept = self.source.parent not in self.synced
        is_target_kept = any("quarantine" in each.parts for each in self.synced)
        assert is_source_kept or is_target_kept, "a power cut leaves the file nowhere"


def test_a_file_is_never_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "metadata" / "policies" / "p.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    disk = TwoStepDisk()
    target = Quarantine(tmp_path, disk).take(path)
    assert target.read_bytes() == b"x"
    assert disk.synced == [target.parent, path.parent]
