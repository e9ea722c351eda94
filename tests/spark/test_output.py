from pathlib import Path

import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.export_plan import plan_export
from appendlog.spark.exporting.layout import folder_name
from appendlog.spark.exporting.output import FinishedPart, OutputDirectory
from appendlog.spark.exporting.part_writer import PartTask, write_part
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.plain_reader import expected_rows, written_rows


def stored_queue(path: Path, count: int = 100, vhost: str = "/") -> StoredQueue:
    queue = store_queue(path, vhost=vhost, segment_bytes=2048)
    queue.append(plain_messages(count), step=10)
    queue.close()
    return queue


def export(stored: StoredQueue, out: Path, until: int | None = None) -> OutputDirectory:
    """Export without Spark; what the driver and the tasks do, one after the other."""
    output = OutputDirectory(out, stored.location)
    with output.locked() as directory:
        plan = plan_export(stored.location, output.covered(), until=until, part_bytes=1000)
        results = [write_part(PartTask(stored.location, s, directory)) for s in plan.splits]
        output.commit(
            [FinishedPart(r.start_offset, r.end_offset, r.path) for r in results if r.path]
        )
    return output


def test_an_output_covers_what_was_committed(tmp_path: Path) -> None:
    stored = stored_queue(tmp_path / "data")
    output = export(stored, tmp_path / "out", until=40)
    assert output.covered() == [(0, 40)]
    export(stored, tmp_path / "out")
    assert output.covered() == [(0, 100)]
    assert written_rows(tmp_path / "out") == expected_rows(stored.location)


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    stored = stored_queue(tmp_path / "data")
    output = export(stored, tmp_path / "out")
    files = sorted(output.folder.glob("*.parquet"))
    assert len(files) > 3
    files[1].unlink()
    assert len(output.covered()) == 2
    export(stored, tmp_path / "out")
    assert sorted(output.folder.glob("*.parquet")) == files
    assert written_rows(tmp_path / "out") == expected_rows(stored.location)


@pytest.mark.parametrize("committed", range(5))
def test_a_crash_between_two_renames_leaves_what_the_next_run_completes(
    tmp_path: Path, committed: int
) -> None:
    stored = stored_queue(tmp_path / "data")
    output = OutputDirectory(tmp_path / "out", stored.location)
    with output.locked() as directory:
        plan = plan_export(stored.location, [], part_bytes=1000)
        results = [write_part(PartTask(stored.location, s, directory)) for s in plan.splits]
        parts = [FinishedPart(r.start_offset, r.end_offset, r.path) for r in results if r.path]
        output.commit(parts[:committed])
    until = parts[committed - 1].end_offset if committed else 0
    assert written_rows(tmp_path / "out") == expected_rows(stored.location, 0, until)
    export(stored, tmp_path / "out")
    assert written_rows(tmp_path / "out") == expected_rows(stored.location)


def test_unfinished_files_of_a_killed_export_are_removed(tmp_path: Path) -> None:
    stored = stored_queue(tmp_path / "data")
    output = OutputDirectory(tmp_path / "out", stored.location)
    with output.locked() as directory:
        work = directory.parent
    left = work / "job-of-a-killed-export"
    left.mkdir()
    (left / "half.parquet").write_bytes(b"PAR1")
    with output.locked():
        assert not left.exists()
    assert [path.name for path in work.iterdir()] == ["lock"]


def test_two_exports_at_once_are_refused(tmp_path: Path) -> None:
    stored = stored_queue(tmp_path / "data")
    first, second = (OutputDirectory(tmp_path / "out", stored.location) for _ in range(2))
    with first.locked(), pytest.raises(OutputError, match="another export"), second.locked():
        pytest.fail("both hold the lock")
    with second.locked():
        pass


@pytest.mark.parametrize(("vhost", "what"), [("/", "incarnation"), ("other", "vhost")])
def test_the_output_of_another_queue_is_refused(tmp_path: Path, vhost: str, what: str) -> None:
    export(stored_queue(tmp_path / "data"), tmp_path / "out")
    again = stored_queue(tmp_path / "data2", vhost=vhost)
    with pytest.raises(OutputError, match=f"{what} is"):
        OutputDirectory(tmp_path / "out", again.location).covered()


@pytest.mark.parametrize("name", ["mine.parquet", f"part-{0:020d}-{9:020d}.parquet"])
def test_files_of_others_are_refused(tmp_path: Path, name: str) -> None:
    stored = stored_queue(tmp_path / "data")
    output = OutputDirectory(tmp_path / "out", stored.location)
    output.folder.mkdir(parents=True)
    (output.folder / name).write_bytes(b"PAR1PAR1")
    with pytest.raises(OutputError, match=name):
        output.covered()


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    stored = stored_queue(tmp_path / "data")
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError), OutputDirectory(tmp_path / "out", stored.location).locked():
        pytest.fail("locked a file")


@pytest.mark.parametrize(
    ("queue", "folder"),
    [
        ("flights", "queue=flights"),
        ("Flights.2013", "queue=Flights.2013"),
        ("a/b=c%d", "queue=a%2Fb%3Dc%25d"),
        ("../x", "queue=..%2Fx"),
        ("\u00e9t\u00e9", "queue=\u00e9t\u00e9"),
        ("", "queue=__HIVE_DEFAULT_PARTITION__"),
        ("\udcff", "queue=%5Cxff"),
    ],
)
def test_folders_are_escaped_as_spark_does(queue: str, folder: str) -> None:
    assert folder_name(queue) == folder


def test_a_long_name_still_makes_a_folder(tmp_path: Path) -> None:
    names = ["/" * 254 + end for end in "ab"]
    folders = {folder_name(name) for name in names}
    assert len(folders) == 2
    for folder in folders:
        (tmp_path / folder).mkdir()
