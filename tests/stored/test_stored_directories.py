"""A data directory of any version that was ever promised is read by this one.

`2585fb2` is the last commit that wrote format 1.
"""

import json
import tarfile
from pathlib import Path

import pytest

from cli.main import main
from metadata.document import decode_document
from tests.data_directories import snapshot
from tests.servers import RunningServer
from tests.stored import streams_scenario
from tests.stored.make import ARCHIVES
from tests.stored.scenario import check

LAST_OF_FORMAT_1 = "v1-2585fb2"


def unpack(name: str, storage: Path) -> None:
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(storage, filter="data")


def check_upgraded(storage: Path) -> None:
    """Check that nothing in a directory is of an earlier format any more."""
    assert (storage / "FORMAT").read_text() == "2\n"
    documents = sorted(storage.glob("metadata/*/*/*.json"))
    assert documents
    for path in documents:
        decode_document(path.read_bytes())


@pytest.mark.parametrize(
    ("version", "archive"), [(0, "v0"), (1, "v1"), (1, LAST_OF_FORMAT_1)], ids=str
)
@pytest.mark.parametrize("end", ["clean", "killed"])
def test_everything_in_a_stored_directory_is_found(
    tmp_path: Path, version: int, archive: str, end: str
) -> None:
    storage = tmp_path / "data"
    unpack(f"{archive}-{end}", storage)

    with RunningServer(storage) as server:
        check(server.start().address, version, was_clean=end == "clean")
        assert server.faults == []
        assert server.terminate() == 0

    check_upgraded(storage)
    with RunningServer(storage) as server:
        # What this version made of it is as good a directory as any.
        server.start()
        assert server.faults == []


@pytest.mark.parametrize("archive", ["v1-streams", f"{LAST_OF_FORMAT_1}-streams"])
@pytest.mark.parametrize("end", ["clean", "killed"])
def test_streams_groups_and_shards_of_a_stored_directory_are_found(
    tmp_path: Path, archive: str, end: str
) -> None:
    storage = tmp_path / "data"
    unpack(f"{archive}-{end}", storage)

    with RunningServer(storage) as server:
        streams_scenario.check(server.start().address, was_clean=end == "clean")
        assert server.faults == []
        assert server.terminate() == 0
    check_upgraded(storage)


def test_an_upgrade_keeps_what_the_documents_say(tmp_path: Path) -> None:
    storage = tmp_path / "data"
    unpack(f"{LAST_OF_FORMAT_1}-clean", storage)
    before = {path: json.loads(path.read_bytes()) for path in storage.glob("metadata/*/*/*.json")}
    with RunningServer(storage) as server:
        server.start()
    after = {path: json.loads(path.read_bytes()) for path in storage.glob("metadata/*/*/*.json")}
    for content in after.values():
        del content["crc32c"]
    kept = {path: content for path, content in after.items() if path in before}
    assert kept == {path: content | {"schema": 2} for path, content in before.items()}
    added = sorted((each["kind"], each["vhost"], each["name"]) for each in after.values())
    added = [each for each in added if each[0] in ("access", "permissions", "users")]
    vhosts = [each["name"] for each in before.values() if each["kind"] == "vhosts"]
    assert added == [
        ("access", "", "first_user"),
        *(("permissions", vhost, "guest") for vhost in sorted(vhosts)),
        ("users", "", "guest"),
    ]
    assert len(after) == len(before) + len(added)


@pytest.mark.parametrize("command", [("verify",), ("recover", "--dry-run"), ("stats",)])
def test_commands_that_only_read_upgrade_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    storage = tmp_path / "data"
    unpack(f"{LAST_OF_FORMAT_1}-killed", storage)
    before = snapshot(storage)
    # 3: the server was killed, so there may be torn tails.
    assert main([*command, "--storage-path", str(storage)]) in (0, 3), capsys.readouterr().out
    assert snapshot(storage) == before
