"""`amqp-server repair`: what verify finds is mended, and every byte taken out is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from cli.main import main
from tests.cli.test_verify import (
    Spoil,
    break_checkpoint,
    break_chunk,
    break_definition,
    break_end,
    break_header,
    break_index,
    checkpoint_leads,
    cut_last,
    end_leads,
    lose_log,
    lose_segment_and_end,
    lose_unread_log,
    tear_tail,
    verify,
)
from tests.conftest import StartServer
from tests.data_directories import (
    chunk_positions,
    damage,
    fill,
    log_of,
    segments_of,
    snapshot,
    take,
)
from tests.threaded_server import ThreadedServer

ALL = [b"m%d" % number for number in range(6)]


@pytest.fixture
def storage(tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A data directory after a clean stop: queues `a` and `b` with six messages each."""
    path = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    fill(path, a=6, b=6)
    return path


def repair(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Run the command; return its exit code and its object."""
    code = main(["repair", "--json", *arguments])
    written = capsys.readouterr()
    assert written.err == ""
    return code, json.loads(written.out)


def kept(storage: Path) -> list[bytes]:
    """Return the contents of all files in quarantine."""
    return [path.read_bytes() for path in (storage / "quarantine").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("spoil", "left"),
    [
        (break_chunk, [b"m0", b"m1", b"m3", b"m4", b"m5"]),
        (break_header, ALL),
        (cut_last, ALL[:5]),
        (tear_tail, ALL),
        (break_index, ALL),
        (break_end, ALL),
        (end_leads, ALL),
        (checkpoint_leads, []),
        (break_checkpoint, ALL),
        (lose_log, []),
        (lose_unread_log, []),
        (lose_segment_and_end, []),
    ],
)
def test_what_is_found_is_mended_and_all_that_is_sound_is_served(
    storage: Path, capsys: pytest.CaptureFixture[str], spoil: Spoil, left: list[bytes]
) -> None:
    spoil(storage)
    assert verify(capsys)[0] != 0
    before = snapshot(storage)
    assert repair(capsys, "--dry-run")[0] == 3
    assert snapshot(storage) == before
    assert repair(capsys, "--yes")[0] == 0
    assert verify(capsys)[0] == 0
    assert main(["recover", "--dry-run"]) == 0, capsys.readouterr().out
    capsys.readouterr()
    assert repair(capsys, "--dry-run") == (0, {"is_dry_run": True, "steps": []})
    assert take(storage, "a") == left
    assert take(storage, "b") == ALL
    fill(storage, a=1)
    assert take(storage, "a") == [b"m0"]
    assert verify(capsys)[0] == 0


def test_a_damaged_segment_is_kept_whole(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_chunk(storage)
    (segment,) = segments_of(storage, "a")
    content = segment.read_bytes()
    _, done = repair(capsys, "--yes")
    assert done["lost"] == [{"vhost": "/", "name": "a", "offsets": [2, 3]}]
    (quarantine,) = done["quarantine"]
    assert (Path(quarantine) / segment.relative_to(storage)).read_bytes() == content


def test_what_comes_to_light_after_another_thing_is_mended_too(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The segment that recovery makes anew takes the name of the lost one: its index was left."""
    segments_of(storage, "a")[0].unlink()
    assert repair(capsys, "--yes")[0] == 0
    assert verify(capsys)[0] == 0
    (index,) = log_of(storage, "b").glob("*.index")
    index.unlink()
    fill(storage, b=1)
    assert verify(capsys)[0] == 0
    assert take(storage, "b") == [*ALL, b"m0"]


def test_what_was_lost_is_waited_for_by_nobody(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_chunk(storage)
    repair(capsys, "--yes")
    with ThreadedServer(storage) as server:
        queue = server.server.broker.vhosts["/"].queues["a"]
        assert server.call(lambda: len(queue.ready)) == 5


def test_no_offset_is_given_out_twice(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last chunk was on the disk once: its offset must stay its own (invariant I9)."""
    segment = segments_of(storage, "a")[-1]
    damage(segment, chunk_positions(segment)[-1] + 100)
    damage(segment, chunk_positions(segment)[1] + 100)
    assert repair(capsys, "--yes")[0] == 0
    with ThreadedServer(storage) as server:
        queue = server.server.broker.vhosts["/"].queues["a"]
        assert server.call(lambda: queue.store.end_offset) == 6


def test_damage_in_a_sealed_segment_of_many(
    tmp_path: Path, clean_environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(storage))
    with ThreadedServer(storage, segment_bytes=64 * 1024) as server:
        from tests.amqp_client import connect

        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("a")
            for number in range(40):
                client.publish(b"%d " % number + bytes(10_000), "a")
                client.expect_confirmed()
    segments = segments_of(storage, "a")
    assert len(segments) > 4
    second, third = segments[1], segments[2]
    damage(second, chunk_positions(second)[1] + 500)
    damage(third, third.stat().st_size - 20)
    assert verify(capsys)[0] == 4
    code, done = repair(capsys, "--yes")
    assert (code, len(done["lost"])) == (0, 1)
    ((start, end),) = (each["offsets"] for each in done["lost"])
    assert verify(capsys)[0] == 0
    numbers = [int(body.split()[0]) for body in take(storage, "a")]
    assert numbers == [number for number in range(40) if not start <= number < end]


def test_an_unreadable_definition_is_dropped_only_when_asked_and_with_its_log(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = segments_of(storage, "a")[0].read_bytes()
    break_definition(storage)
    code, done = repair(capsys, "--yes")
    assert (code, done["left"][0]["remedy"]) == (5, "cannot be mended")
    assert "--drop-definitions" in done["left"][0]["reason"]
    assert log_of(storage, "a").is_dir()
    assert repair(capsys, "--yes", "--drop-definitions")[0] == 0
    assert verify(capsys)[0] == 0
    assert content in kept(storage)
    assert b"{" in kept(storage)
    assert take(storage, "b") == ALL


def test_a_log_without_its_definition_is_set_aside_only_when_that_is_asked_for(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = segments_of(storage, "a")[0].read_bytes()
    (storage / "metadata" / "queues" / "%2f" / "a.json").unlink()
    code, done = repair(capsys, "--yes")
    assert (code, done["left"][0]["remedy"]) == (5, "cannot be mended")
    assert "--drop-definitions" in done["left"][0]["reason"]
    assert log_of(storage, "a").is_dir()
    assert repair(capsys, "--yes", "--drop-definitions")[0] == 0
    assert verify(capsys)[0] == 0
    assert content in kept(storage)


def test_logs_are_left_alone_when_all_definitions_are_gone(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (storage / "metadata").rename(storage.parent / "metadata")
    before = snapshot(storage / "logs")
    for option in ("--dry-run", "--yes"):
        code, done = repair(capsys, option)
        assert code == 5
        (left,) = done["left" if option == "--yes" else "steps"]
        assert left["remedy"] == "cannot be mended"
        assert "put the definitions back" in left["reason"]
        assert snapshot(storage / "logs") == before
    (storage.parent / "metadata").rename(storage / "metadata")
    assert take(storage, "a") == ALL


def test_a_running_server_is_refused_and_nobody_is_asked_in_vain(
    start_server: StartServer, storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server()
    assert main(["repair", "--yes", "--storage-path", str(server.storage_path)]) == 2
    assert f"in use by process {server.pid}" in capsys.readouterr().err
    break_chunk(storage)
    before = snapshot(storage)
    assert main(["repair"]) == 2
    assert "no terminal for the question" in capsys.readouterr().err
    assert snapshot(storage) == before


def test_the_text_says_what_is_done(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_chunk(storage)
    assert main(["repair", "--yes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rewrite: ")
    assert "lost: offsets [2, 3) of a in /" in lines
    assert lines[-2].startswith("what was taken out is in ")
    assert lines[-1].startswith("clean now; ")
    assert main(["repair"]) == 0
    assert capsys.readouterr().out == "nothing to mend\n"


def test_what_was_taken_out_is_told_once_and_missed_by_no_later_start(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of `a` has nothing left, not even its end: only the checkpoint knows its length."""
    (segment,) = segments_of(storage, "a")
    segment.write_bytes(segments_of(storage, "b")[0].read_bytes())
    (log_of(storage, "a") / "end").unlink()
    code, done = repair(capsys, "--yes")
    assert (code, done["lost"]) == (0, [{"vhost": "/", "name": "a", "offsets": [0, 6]}])
    assert main(["recover", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "clean"
    with ThreadedServer(storage) as server:
        queue = server.server.broker.vhosts["/"].queues["a"]
        assert server.call(lambda: queue.store.end_offset) == 6


def test_checkpoints_that_were_set_aside_keep_no_server_from_starting(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (storage / "offsets").glob("*.log"):
        content = bytearray(path.read_bytes())
        content[16] = 99
        end = 16 + int.from_bytes(content[8:16], "little")
        content[4:8] = crc32c(bytes(content[8:end])).to_bytes(4, "little")
        path.write_bytes(content)
    assert repair(capsys, "--yes")[0] == 5
    assert repair(capsys, "--yes", "--drop-checkpoints")[0] == 0
    assert main(["recover"]) == 0
    capsys.readouterr()
    assert take(storage, "a") == ALL


def test_definitions_that_were_set_aside_keep_no_server_from_starting(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (storage / "metadata").rglob("*.json"):
        path.write_bytes(b"{")
    assert repair(capsys, "--yes", "--drop-definitions")[0] == 0
    assert main(["recover"]) == 0
    capsys.readouterr()
    with ThreadedServer(storage) as server:
        assert not server.server.broker.vhosts["/"].queues
