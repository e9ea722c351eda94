"""What the storage makes is for its user alone, whatever the umask lets others do."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Tx

from cli.main import main
from offsets import Consumer, LogRoot
from tests.amqp_client import connect
from tests.data_directories import damage, fill, segments_of
from tests.embedded.logs import BY_HAND
from tests.threaded_server import ThreadedServer


@pytest.fixture(autouse=True)
def _everybody_may(clean_environment: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep nothing from others by the umask: what is private is so by its mode."""
    umask = os.umask(0)
    yield
    os.umask(umask)


def shared_paths(top: Path) -> list[str]:
    """Return what others than the owner may use, with its mode."""
    modes = {path: path.lstat().st_mode for path in (top, *sorted(top.rglob("*")))}
    return [
        f"{path.relative_to(top)} {stat.S_IMODE(mode):o}"
        for path, mode in modes.items()
        if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    ]


def serve(storage: Path) -> None:
    """Write one of each kind of file of a data directory, and leave the server as killed."""
    with ThreadedServer(storage, segment_bytes=64 * 1024) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("a")
            for _ in range(20):
                client.publish(bytes(10_000), "a")
                client.expect_confirmed()
        with connect(server.address) as client:
            client.open_channel()
            client.call(Tx.Select(), Tx.SelectOk)
            client.publish(b"committed", "a")
            client.call(Tx.Commit(), Tx.CommitOk)
        assert shared_paths(storage) == []


def test_a_server_makes_files_for_its_user_alone(tmp_path: Path) -> None:
    storage = tmp_path / "new" / "data"
    serve(storage)
    assert shared_paths(tmp_path / "new") == []
    fill(storage, b=1)
    assert shared_paths(tmp_path / "new") == []


def test_a_program_that_embeds_logs_makes_files_for_its_user_alone(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path / "root", BY_HAND) as root:
        root.append("events", b"mine")
        root.sync()
        with Consumer(root.path, "group") as consumer:
            batch = consumer.poll()
            assert batch is not None
            consumer.ack_batch(batch)
            consumer.sync()
        assert (tmp_path / "root" / "locks").is_dir()
        assert shared_paths(tmp_path / "root") == []


@pytest.mark.parametrize("links", [True, False])
def test_a_back_up_is_as_private_as_its_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, links: bool
) -> None:
    storage, target = tmp_path / "data", tmp_path / "backups" / "monday"
    serve(storage)
    more = [] if links else ["--copy"]
    assert main(["backup", str(target), "--storage-path", str(storage), *more]) == 0
    assert len(segments_of(target, "a")) > 1
    assert (target / "FORMAT").exists()
    assert shared_paths(tmp_path / "backups") == []


def test_what_a_repair_makes_is_private_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = tmp_path / "data"
    serve(storage)
    damage(segments_of(storage, "a")[0], 500)
    assert main(["repair", "--yes", "--storage-path", str(storage)]) == 0, capsys.readouterr()
    assert (storage / "quarantine").is_dir()
    assert shared_paths(storage) == []
