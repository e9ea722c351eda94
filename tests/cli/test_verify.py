"""`amqp-server verify` finds what is wrong, nothing that is not, and changes nothing."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from appendlog import FileSystem
from appendlog.segments.durable_end import DurableEnd, encode_slot, read_durable_end
from cli.main import main
from offsets import GroupOffsets, GroupSnapshot
from offsets.checkpoint import CheckpointStore
from offsets.queue_checkpoint import QueueCheckpoint
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.data_directories import (
    chunk_positions,
    damage,
    fill,
    log_of,
    segments_of,
    snapshot,
    take,
    tear,
)
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

Spoil = Callable[[Path], None]


@pytest.fixture
def storage(tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A data directory after a clean stop: queues `a` and `b`, six messages and six segments."""
    path = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    fill(path, a=6, b=6)
    return path


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Run the command; return its exit code and its object."""
    code = main(["verify", "--json", *arguments])
    written = capsys.readouterr()
    assert written.err == ""
    return code, json.loads(written.out)


def kinds(found: Any) -> list[str]:  # noqa: ANN401 - JSON
    problems = found["problems"] + [each for queue in found["queues"] for each in queue["problems"]]
    return [problem["kind"] for problem in problems]


def incarnation_of(storage: Path, queue: str) -> UUID:
    return UUID(log_of(storage, queue).name)


def break_chunk(storage: Path) -> None:
    segment = segments_of(storage, "a")[-1]
    damage(segment, chunk_positions(segment)[2] + 100)


def break_header(storage: Path) -> None:
    damage(segments_of(storage, "a")[-1], 20)


def cut_last(storage: Path) -> None:
    segment = segments_of(storage, "a")[-1]
    with segment.open("r+b") as file:
        file.truncate(chunk_positions(segment)[-1] + 50)


def tear_tail(storage: Path) -> None:
    tear(segments_of(storage, "a")[-1])


def break_index(storage: Path) -> None:
    (index,) = log_of(storage, "a").glob("*.index")
    damage(index, 18)


def break_end(storage: Path) -> None:
    (log_of(storage, "a") / "end").write_bytes(bytes(600))


def end_leads(storage: Path) -> None:
    incarnation = incarnation_of(storage, "a")
    end = read_durable_end(FileSystem(), log_of(storage, "a"), incarnation)
    assert end is not None
    ahead = DurableEnd(end.generation + 2, end.recovery_point + 5, 0, end.position + 500)
    slot = encode_slot(ahead, incarnation)
    with (log_of(storage, "a") / "end").open("r+b") as file:
        file.seek(0 if ahead.generation % 2 == 0 else 512)
        file.write(slot)


def checkpoint_leads(storage: Path) -> None:
    store, _, _ = CheckpointStore.open(storage / "offsets", FileSystem())
    store.write_round([QueueCheckpoint(incarnation_of(storage, "a"), 9)])
    store.close()


def group_leads(storage: Path) -> None:
    group = GroupOffsets("g")
    group.seek(9, 0, 9, 0)
    store, _, _ = CheckpointStore.open(storage / "offsets", FileSystem())
    store.write_round([], groups=[GroupSnapshot.of(group, incarnation_of(storage, "a"), 9)])
    store.close()


def break_checkpoint(storage: Path) -> None:
    damage(max((storage / "offsets").glob("*.log")), 20)


def break_definition(storage: Path) -> None:
    (storage / "metadata" / "queues" / "%2f" / "a.json").write_bytes(b"{")


def lose_definition(storage: Path) -> None:
    (storage / "metadata" / "queues" / "%2f" / "a.json").unlink()


def lose_all_definitions(storage: Path) -> None:
    shutil.rmtree(storage / "metadata")


def lose_log(storage: Path) -> None:
    take(storage, "a")
    shutil.rmtree(log_of(storage, "a"))


def lose_unread_log(storage: Path) -> None:
    shutil.rmtree(log_of(storage, "a"))


def lose_segment_and_end(storage: Path) -> None:
    for path in (segments_of(storage, "a")[-1], log_of(storage, "a") / "end"):
        path.unlink()


def test_a_sound_directory_is_clean_and_stays_as_it_is(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(storage)
    code, found = verify(capsys)
    assert (code, found["outcome"], kinds(found)) == (0, "clean", [])
    assert (found["totals"]["queues"], found["totals"]["records"]) == (2, 12)
    assert [queue["log_end_offset"] for queue in found["queues"]] == [6, 6]
    assert snapshot(storage) == before


@pytest.mark.parametrize(
    ("spoil", "code", "kind"),
    [
        (break_chunk, 4, ["damaged-chunk", "offsets-missing"]),
        (break_header, 4, ["damaged-header"]),
        (cut_last, 4, ["damaged-chunk", "log-too-short"]),
        (tear_tail, 3, ["torn-tail"]),
        (break_index, 3, ["index-wrong"]),
        (break_end, 3, ["end-unreadable"]),
        (end_leads, 4, ["log-too-short"]),
        (checkpoint_leads, 4, ["checkpoint-leads"]),
        (group_leads, 4, ["checkpoint-leads", "end-missing"]),
        (break_checkpoint, 4, ["damaged-checkpoint"]),
        (break_definition, 5, ["unreadable-definition", "orphaned-log"]),
        (lose_definition, 5, ["missing-definition"]),
        (lose_all_definitions, 5, ["missing-definitions"]),
        (lose_log, 4, ["checkpoint-leads"]),
        (lose_unread_log, 4, ["end-missing"]),
        (lose_segment_and_end, 4, ["end-missing"]),
    ],
)
def test_each_kind_of_damage_is_found_and_left_as_it_is(
    storage: Path, capsys: pytest.CaptureFixture[str], spoil: Spoil, code: int, kind: list[str]
) -> None:
    spoil(storage)
    before = snapshot(storage)
    found = verify(capsys)
    assert (found[0], kinds(found[1])) == (code, kind)
    assert snapshot(storage) == before


def test_one_queue_can_be_checked_alone(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_chunk(storage)
    assert verify(capsys, "--queue", "b")[0] == 0
    assert verify(capsys, "--queue", "a")[0] == 4
    assert main(["verify", "--queue", "none"]) == 2
    assert "no durable queue 'none' in vhost '/'" in capsys.readouterr().err


def test_the_text_says_where_and_what(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    break_chunk(storage)
    assert main(["verify"]) == 4
    lines = capsys.readouterr().out.splitlines()
    position = chunk_positions(segments_of(storage, "a")[-1])[2]
    assert lines[0].startswith("damage damaged-chunk ")
    assert f".log at {position}: " in lines[0]
    assert lines[1].endswith("offsets [2, 3) are not in the log, and nothing explains why")
    assert lines[2].startswith("damaged: 2 queues, 2 segments, 11 records, ")


def test_beside_a_running_server_nothing_false_is_reported(
    start_server: StartServer,
    clean_environment: pytest.MonkeyPatch,
    capsys: Any,  # noqa: ANN401
) -> None:
    server = start_server()
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for _ in range(20):
            for _ in range(50):
                client.publish(bytes(2000), "q")
            code, found = verify(capsys)
            assert (code, found["is_live"], kinds(found)) == (0, True, [])
            client.expect_confirmed()
    _, found = verify(capsys)
    assert found["totals"]["records"] == 1000
    damage(segments_of(server.storage_path, "q")[0], 500)
    assert verify(capsys)[0] == 4


def test_nobody_reads_the_output_any_more(storage: Path) -> None:
    command = [sys.executable, "-P", "-m", "amqp_server", "verify", "--storage-path", str(storage)]
    pipe = subprocess.run(
        ["sh", "-c", '"$@" | true', "sh", *command],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert pipe.stderr == b""
