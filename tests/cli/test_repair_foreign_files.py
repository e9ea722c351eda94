"""Files that lie in a log and are none of its segments: started on, checked, and mended."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import main
from tests.amqp_client import connect
from tests.cli.test_repair import kept, repair
from tests.cli.test_verify import kinds, verify
from tests.data_directories import chunk_positions, damage, log_of, segments_of, snapshot, take
from tests.threaded_server import ThreadedServer

COUNT = 40
Spoil = Callable[[Path], list[Path]]
"""Spoils the log of queue `a`; returns files that nobody may change but a repair."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after a clean stop: `a` and `b` with forty messages in many segments."""
    storage = tmp_path_factory.mktemp("sound") / "data"
    with (
        ThreadedServer(storage, segment_bytes=64 * 1024) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        for queue in ("a", "b"):
            client.declare(queue)
            for number in range(COUNT):
                client.publish(b"%d " % number + bytes(8_000), queue)
                client.expect_confirmed()
    assert len(segments_of(storage, "a")) > 4
    return storage


@pytest.fixture
def storage(sound: Path, tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    path = tmp_path / "data"
    shutil.copytree(sound, path)
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    return path


def bases(storage: Path) -> list[int]:
    return [int(path.stem[:20]) for path in segments_of(storage, "a")]


def at(storage: Path, offset: int, ending: str = ".log") -> Path:
    return log_of(storage, "a") / f"{offset:020d}{ending}"


def foreign_in_a_range(storage: Path) -> list[Path]:
    target = at(storage, bases(storage)[1] + 3)
    shutil.copy(segments_of(storage, "b")[2], target)
    return [target]


def foreign_as_a_newer_generation(storage: Path) -> list[Path]:
    target = at(storage, bases(storage)[1], "-0000000001.log")
    shutil.copy(segments_of(storage, "b")[1], target)
    return [target]


def foreign_far_behind(storage: Path) -> list[Path]:
    target = at(storage, 9_979)
    shutil.copy(segments_of(storage, "b")[1], target)
    return [target]


def own_copy_under_a_lower_number(storage: Path) -> list[Path]:
    target = at(storage, bases(storage)[2] - 2)
    shutil.copy(segments_of(storage, "a")[2], target)
    return [target]


def own_copy_far_behind(storage: Path) -> list[Path]:
    target = at(storage, 9_979)
    shutil.copy(segments_of(storage, "a")[-1], target)
    return [target]


def empty_far_behind(storage: Path) -> list[Path]:
    at(storage, 9_979).touch()
    return [at(storage, 9_979)]


def two_empty_far_behind(storage: Path) -> list[Path]:
    at(storage, 50_000).touch()
    return [*empty_far_behind(storage), at(storage, 50_000)]


def zeros_far_behind(storage: Path) -> list[Path]:
    at(storage, 9_979).write_bytes(bytes(20_000))
    return [at(storage, 9_979)]


def empty_before_the_first(storage: Path) -> list[Path]:
    """The log begins at 0 and everything is there: nothing is before it."""
    target = at(storage, 3)
    target.touch()
    return [target]


def a_directory_in_a_range(storage: Path) -> list[Path]:
    target = at(storage, bases(storage)[1] + 3)
    target.mkdir()
    (target / "notes").write_bytes(b"notes")
    return [target / "notes"]


STRANGE: list[Spoil] = [
    foreign_in_a_range,
    foreign_as_a_newer_generation,
    foreign_far_behind,
    own_copy_under_a_lower_number,
    own_copy_far_behind,
    empty_far_behind,
    two_empty_far_behind,
    zeros_far_behind,
    empty_before_the_first,
    a_directory_in_a_range,
]


def numbers(storage: Path, queue: str = "a") -> list[int]:
    """Start a server and take everything."""
    return [int(body.split()[0]) for body in take(storage, queue)]


@pytest.mark.parametrize("spoil", STRANGE)
def test_a_start_serves_everything_and_leaves_the_foreign_file_alone(
    storage: Path, capsys: pytest.CaptureFixture[str], spoil: Spoil
) -> None:
    files = {path: path.read_bytes() for path in spoil(storage)}
    before = snapshot(storage)
    assert main(["recover", "--dry-run", "--json"]) == 4
    (queue,) = (
        each for each in json.loads(capsys.readouterr().out)["queues"] if each["name"] == "a"
    )
    assert queue["lost"] == []
    assert len(queue["foreign_files"]) == len(files)
    assert snapshot(storage) == before
    assert main(["stats", "--queue", "a", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert (stats["records"], stats["ready"], stats["log_start_offset"]) == (COUNT, COUNT, 0)
    assert main(["inspect", "--queue", "a", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["offset"] for row in rows] == list(range(COUNT))
    assert main(["inspect", "--queue", "a", "--show", "segments"]) == 4
    assert capsys.readouterr().out.count("no segment of this log") == len(files)
    assert main(["inspect", "--queue", "a", "--show", "end"]) == 0
    assert main(["backup", str(storage.parent / "copy")]) == 0
    assert numbers(storage) == list(range(COUNT))
    assert all(path.read_bytes() == content for path, content in files.items())
    assert numbers(storage.parent / "copy") == list(range(COUNT))


@pytest.mark.parametrize("spoil", STRANGE)
def test_a_repair_sets_a_foreign_file_aside_and_gives_nothing_up(
    storage: Path, capsys: pytest.CaptureFixture[str], spoil: Spoil
) -> None:
    contents = [path.read_bytes() for path in spoil(storage)]
    code, found = verify(capsys)
    assert (code, set(kinds(found))) == (4, {"foreign-segment"})
    is_mended(storage, capsys, lost=[])
    assert all(content in kept(storage) for content in contents)
    assert numbers(storage) == list(range(COUNT))
    assert numbers(storage, "b") == list(range(COUNT))


def is_mended(storage: Path, capsys: pytest.CaptureFixture[str], *, lost: list[list[int]]) -> None:
    """Repair; check that a check, a second repair and a start then find nothing."""
    before = snapshot(storage)
    assert repair(capsys, "--dry-run")[0] == 3
    assert snapshot(storage) == before
    code, done = repair(capsys, "--yes")
    assert (code, [each["offsets"] for each in done["lost"]]) == (0, lost)
    code, found = verify(capsys)
    assert (code, kinds(found)) == (0, [])
    assert repair(capsys, "--dry-run") == (0, {"is_dry_run": True, "steps": []})
    assert main(["recover", "--json"]) == 0
    (queue,) = (
        each for each in json.loads(capsys.readouterr().out)["queues"] if each["name"] == "a"
    )
    assert (queue["damaged_chunks"], queue["foreign_files"]) == (0, [])
    assert all(each in lost for each in queue["lost"])
    code, found = verify(capsys)
    assert (code, kinds(found)) == (0, [])


@pytest.mark.parametrize("spoil", STRANGE)
def test_of_a_damaged_log_with_a_foreign_file_no_more_is_lost_than_was_damaged(
    storage: Path, capsys: pytest.CaptureFixture[str], spoil: Spoil
) -> None:
    """The last chunk is damaged from its header on: who believed the names would lose thousands."""
    last = segments_of(storage, "a")[-1]
    damage(last, chunk_positions(last)[-1] + 20)
    second = segments_of(storage, "a")[1]
    damage(second, chunk_positions(second)[1] + 20)
    gone = [bases(storage)[1] + 1, COUNT - 1]
    spoil(storage)
    shutil.copytree(storage, storage.parent / "started")
    is_mended(storage, capsys, lost=[[number, number + 1] for number in gone])
    left = [number for number in range(COUNT) if number not in gone]
    assert numbers(storage) == left
    assert numbers(storage.parent / "started") == left


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_renamed_segment_keeps_its_queue_from_being_opened_and_gets_its_name_back(
    storage: Path, capsys: pytest.CaptureFixture[str], place: int
) -> None:
    segment = segments_of(storage, "a")[place]
    segment.rename(at(storage, int(segment.stem) + 1))
    before = snapshot(storage / "logs")
    assert verify(capsys)[0] == 5
    assert main(["recover", "--json"]) == 5
    queues = json.loads(capsys.readouterr().out)["queues"]
    (error,) = (each["error"] for each in queues if each["outcome"] == "unopened")
    assert f"its header says {segment.name}" in error
    assert snapshot(storage / "logs") == before
    is_mended(storage, capsys, lost=[])
    assert numbers(storage) == list(range(COUNT))


def test_a_renamed_segment_whose_place_was_taken_by_an_empty_file(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = segments_of(storage, "a")[1]
    segment.rename(at(storage, int(segment.stem) + 1))
    segment.write_bytes(b"nothing")
    assert verify(capsys)[0] == 5
    is_mended(storage, capsys, lost=[])
    assert b"nothing" in kept(storage)
    assert numbers(storage) == list(range(COUNT))


def test_beside_a_running_server_a_foreign_file_is_found(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (target,) = foreign_in_a_range(storage)
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"40 ", "a")
        client.expect_confirmed()
        code, found = verify(capsys)
        assert (code, found["is_live"], kinds(found)) == (4, True, ["foreign-segment"])
    assert target.exists()
