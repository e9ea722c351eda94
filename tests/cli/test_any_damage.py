"""Any damage to any files: found without a trace, mended, and what was sound is served."""

import io
import random
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pamqp.commands import Basic

from cli.main import main
from tests.amqp_client import connect
from tests.data_directories import chunk_positions, damage, segments_of, snapshot
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

ACKED = range(5)
"""Messages of `a` that are settled."""
NOT_DATA = {"LOCK", "FORMAT", "recovery.json"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queue `a` with segments sealed and some acks, `b` with one segment, `c` without any."""
    storage = tmp_path_factory.mktemp("sound") / "data"
    with (
        ThreadedServer(storage, segment_bytes=64 * 1024) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        for queue, count, body_bytes in (("a", 30, 9000), ("b", 12, 100), ("c", 0, 0)):
            client.declare(queue)
            for number in range(count):
                client.publish(b"%d " % number + bytes(body_bytes), queue)
                client.expect_confirmed()
        for _ in ACKED:
            message = client.get("a", no_ack=False)
            assert message is not None
            client.send(Basic.Ack(delivery_tag=message.tag))
        client.ready_count("a")
    return storage


def run(*arguments: str) -> int:
    """Run a command; it must not say more than one line of complaint."""
    out, complaint = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(complaint):
        code = main(arguments)
    assert complaint.getvalue().count("\n") <= 1, complaint.getvalue()
    return code


def spoil(path: Path, chance: random.Random) -> None:
    """Damage one file in one of the ways that disks and people have."""
    size = path.stat().st_size
    way = chance.choice(
        ["flip", "cut", "remove", "append", "zero", "empty"] if size else ["remove"]
    )
    match way:
        case "flip":
            damage(path, chance.randrange(size))
        case "cut":
            path.write_bytes(path.read_bytes()[: chance.randrange(size)])
        case "remove":
            path.unlink()
        case "append":
            path.write_bytes(path.read_bytes() + chance.randbytes(chance.randrange(1, 300)))
        case "zero":
            content, at = path.read_bytes(), chance.randrange(size)
            end = min(at + chance.randrange(1, 5000), size)
            path.write_bytes(content[:at] + bytes(end - at) + content[end:])
        case "empty":
            path.write_bytes(b"")


def whole_chunks(sound: Path, spoilt: dict[str, bytes], queue: str) -> set[int]:
    """Return the messages of a queue whose chunk is still as it was, in the file where it was."""
    whole, number = set(), 0
    for segment in segments_of(sound, queue):
        content = segment.read_bytes()
        positions = chunk_positions(segment)
        for start, end in zip(positions, [*positions[1:], len(content)], strict=True):
            if content[start + 13]:
                continue  # a footer
            if content[start:end] in spoilt.get(str(segment.relative_to(sound)), b""):
                whole.add(number)
            number += 1
    return whole


def served(storage: Path, queue: str) -> list[int]:
    """Start a server and take everything."""
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel()
        numbers = []
        while (message := client.get(queue)) is not None:
            numbers.append(int(message.body.split()[0]))
        return numbers


def copy_about(storage: Path, chance: random.Random) -> None:
    """Copy segments into logs, under numbers that are not theirs."""
    logs = sorted(storage.glob("logs/*/*/*"))
    for _ in range(2):
        source = chance.choice(sorted(storage.glob("logs/*/*/*/*.log")))
        target = chance.choice(logs) / f"{chance.choice([chance.randrange(40), 9_999]):020d}.log"
        if not target.exists():
            shutil.copy(source, target)


@pytest.mark.parametrize("seed", range(18))
def test_what_is_sound_survives_any_damage_and_its_repair(
    sound: Path, tmp_path: Path, clean_environment: pytest.MonkeyPatch, seed: int
) -> None:
    storage = tmp_path / "data"
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(storage))
    shutil.copytree(sound, storage)
    chance = random.Random(seed)
    files = [
        path
        for path in sorted(storage.rglob("*"))
        if path.is_file()
        and path.name not in NOT_DATA
        # Damage there lets no client in: tests/access/test_damaged_documents.py.
        and not {"access", "permissions", "users"} & set(path.parts)
    ]
    for path in chance.sample(files, chance.choice([1, 1, 2, 4])):
        spoil(path, chance)
    if seed >= 10 and any(storage.glob("logs/*/*/*/*.log")):
        copy_about(storage, chance)
    spoilt = {str(p.relative_to(storage)): p.read_bytes() for p in storage.rglob("*.log")}
    before = snapshot(storage)
    assert run("verify") in {0, 3, 4, 5}
    assert run("recover", "--dry-run") in {0, 3, 4, 5}
    for kind in ("records", "chunks", "segments", "index", "end"):
        assert run("inspect", "--queue", "a", "--show", kind) in {0, 1, 2, 4}
    assert snapshot(storage) == before
    assert run("repair", "--yes", "--drop-definitions", "--drop-checkpoints") == 0
    assert run("verify") == 0
    assert run("repair", "--dry-run") == 0
    assert run("recover", "--dry-run") == 0
    assert run("recover") == 0
    assert run("verify") == 0
    for queue in ("a", "b"):
        if not (storage / "metadata" / "queues" / "%2f" / f"{queue}.json").exists():
            continue
        numbers = served(storage, queue)
        whole = whole_chunks(sound, spoilt, queue)
        assert numbers == sorted(set(numbers))
        assert set(numbers) <= whole
        assert whole - set(numbers) <= (set(ACKED) if queue == "a" else set())
