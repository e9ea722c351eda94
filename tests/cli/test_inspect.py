"""`amqp-server inspect`: what stands in the files, and nothing else."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pamqp.commands import Basic

from appendlog import FileSystem
from cli.main import main
from offsets import CheckpointStore, GroupOffsets, GroupSnapshot
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.data_directories import (
    chunk_positions,
    damage,
    fill,
    log_of,
    segments_of,
    snapshot,
)
from tests.threaded_server import ThreadedServer

Rows = list[dict[str, Any]]


@pytest.fixture
def storage(tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A data directory after a clean stop: queue `a` with six messages."""
    path = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    fill(path, a=6)
    return path


def inspect(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Rows:
    """Run the command; return its rows."""
    assert main(["inspect", "--json", *map(str, arguments)]) == code
    written = capsys.readouterr()
    assert written.err == ""
    return [json.loads(line) for line in written.out.splitlines()]


def publish(storage: Path, body: bytes, properties: Basic.Properties, key: str = "a") -> None:
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(body, key, properties=properties)
        client.expect_confirmed()


def test_records_of_a_queue(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(storage)
    rows = inspect(capsys, "--queue", "a")
    assert [row["offset"] for row in rows] == list(range(6))
    assert [row["body"] for row in rows] == [f"m{number}" for number in range(6)]
    assert {(row["exchange"], row["routing_key"], row["is_persistent"]) for row in rows} == {
        ("", "a", True)
    }
    assert inspect(capsys, "--queue", "a", "--from", 2, "--limit", 3) == rows[2:5]
    (segment,) = segments_of(storage, "a")
    assert inspect(capsys, segment) == rows
    assert snapshot(storage) == before


def test_every_property_is_shown_and_octets_that_are_no_text_as_base64(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = Basic.Properties(
        content_type="text/plain", delivery_mode=2, headers={"n": 5, "t": "x"}, message_id="id"
    )
    publish(storage, b"\xff\x00", properties)
    row = inspect(capsys, "--queue", "a", "--from", 6)[0]
    assert (row["body_base64"], row["body_bytes"]) == ("/wA=", 2)
    shown = row["properties"]
    assert (shown["content_type"], shown["delivery_mode"], shown["message_id"]) == (
        "text/plain",
        2,
        "id",
    )
    assert shown["headers"]["t"] == "x"


def test_a_body_cannot_write_to_the_terminal(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(storage, b"\x1b[2Jgone\nOFFSET" + b"x" * 500, Basic.Properties(delivery_mode=2))
    assert main(["inspect", "--queue", "a", "--from", "6"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("\n") == 2
    assert "x" * 100 not in out
    assert main(["inspect", "--queue", "a", "--from", "6", "--body"]) == 0
    assert "x" * 500 in capsys.readouterr().out


def test_text_is_limited_and_says_so(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--queue", "a", "--limit", "2"]) == 0
    written = capsys.readouterr()
    assert len(written.out.splitlines()) == 3
    assert written.err == "... more: --limit, 2 shown\n"


def test_chunks_segments_index_and_end(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (segment,) = segments_of(storage, "a")
    chunks = inspect(capsys, segment, "--show", "chunks")
    assert [chunk["position"] for chunk in chunks] == chunk_positions(segment)
    assert [(chunk["kind"], chunk["base_offset"], chunk["end_offset"]) for chunk in chunks] == [
        ("data", number, number + 1) for number in range(6)
    ]
    (row,) = inspect(capsys, log_of(storage, "a"))
    assert (row["file"], row["is_sealed"], row["bytes"]) == (
        segment.name,
        False,
        segment.stat().st_size,
    )
    header, entry = inspect(capsys, segment.with_suffix(".index"))
    assert (header["base_offset"], entry["offset"]) == (0, 0)
    assert entry["position"] == chunk_positions(segment)[0]
    (end,) = inspect(capsys, log_of(storage, "a") / "end")
    assert (end["queue"], end["recovery_point"], end["position"]) == (
        "a",
        6,
        segment.stat().st_size,
    )
    assert inspect(capsys, "--queue", "a", "--show", "end") == [end]


def test_checkpoints_journal_and_metadata(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, row = inspect(capsys, "--show", "checkpoints")
    assert (head["is_clean_stop"], head["queues"]) == (True, 1)
    assert (row["queue"], row["vhost"], row["ack_floor"]) == ("a", "/", 0)
    assert inspect(capsys, storage / "offsets") == [head, row]
    rounds = inspect(capsys, max((storage / "offsets").glob("*.log")))
    assert (rounds[0]["is_base"], rounds[-1]["is_clean_stop"]) == (True, True)
    assert inspect(capsys, "--show", "redo")[0]["transactions"] == 0
    documents = inspect(capsys)
    assert [(each["kind"], each["name"]) for each in documents] == [
        ("access", "first_user"),
        ("permissions", "guest"),
        ("queues", "a"),
        ("users", "guest"),
        ("vhosts", "/"),
    ]


def test_the_groups_of_a_checkpoint(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    incarnation = UUID(inspect(capsys, "--show", "checkpoints")[1]["incarnation"])
    store, _, _ = CheckpointStore.open(storage / "offsets", FileSystem())
    group = GroupOffsets("a:b/\N{ROCKET}")
    store.write_round([], groups=[GroupSnapshot.of(group, incarnation, 9)])
    group.seek(0, 0, 9, 5)
    other = GroupSnapshot.of(group, UUID(int=1), 9)
    store.write_round([], groups=[other], removed_groups=[(incarnation, "gone")])
    store.close()
    head, _, known, unknown = inspect(capsys, "--show", "checkpoints")
    assert head["groups"] == 2
    assert (known["queue"], known["group"], known["committed"]) == ("a", "a:b/\N{ROCKET}", None)
    assert (unknown["is_known"], unknown["committed"], unknown["updated_at_ns"]) == (False, 0, 5)
    rounds = inspect(capsys, max((storage / "offsets").glob("*.log")))
    assert [(each["groups"], each["removed_groups"]) for each in rounds] == [(1, 0), (1, 1)]


def test_damage_is_a_row_and_an_exit_code(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (segment,) = segments_of(storage, "a")
    damage(segment, chunk_positions(segment)[2] + 100)
    rows = inspect(capsys, "--queue", "a", code=4)
    assert rows[2] == {"lost": [2, 3]}
    assert [row["offset"] for row in rows if "offset" in row] == [0, 1, 3, 4, 5]
    chunks = inspect(capsys, segment, "--show", "chunks", code=4)
    assert chunks[2]["fault"] == "no valid chunk"


def test_beside_a_running_server_records_end_where_the_disk_does(
    start_server: StartServer,
    clean_environment: pytest.MonkeyPatch,
    capsys: Any,  # noqa: ANN401
) -> None:
    server = start_server()
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        assert inspect(capsys, "--queue", "q") == []
        client.publish(b"one", "q")
        client.expect_confirmed()
        assert [row["body"] for row in inspect(capsys, "--queue", "q")] == ["one"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing"], "missing: no such file or directory"),
        (["--queue", "none"], "no durable queue 'none' in vhost '/'"),
        (["--show", "records"], "write a log"),
        (["data/FORMAT"], "not a file that this command knows"),
        (["data", "--queue", "a"], "PATH and --queue exclude each other"),
        (["--storage-path", "elsewhere"], "no such file or directory"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    storage: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(storage.parent)
    assert main(["inspect", *arguments]) == 2
    written = capsys.readouterr()
    assert complaint in written.err
    assert written.err.count("\n") == 1
