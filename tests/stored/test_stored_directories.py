"""A data directory of any version that was ever promised is read by this one."""

import tarfile
from pathlib import Path

import pytest

from tests.servers import RunningServer
from tests.stored import streams_story
from tests.stored.make import ARCHIVES
from tests.stored.story import check


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("end", ["clean", "killed"])
def test_everything_in_a_stored_directory_is_found(tmp_path: Path, version: int, end: str) -> None:
    storage = tmp_path / "data"
    with tarfile.open(ARCHIVES / f"v{version}-{end}.tar.gz") as archive:
        archive.extractall(storage, filter="data")

    with RunningServer(storage) as server:
        check(server.start().address, version, was_clean=end == "clean")
        assert server.faults == []
        assert server.terminate() == 0

    assert (storage / "FORMAT").read_text() == "1\n"
    with RunningServer(storage) as server:
        # What this version made of it is as good a directory as any.
        server.start()
        assert server.faults == []


@pytest.mark.parametrize("end", ["clean", "killed"])
def test_streams_groups_and_shards_of_a_stored_directory_are_found(
    tmp_path: Path, end: str
) -> None:
    storage = tmp_path / "data"
    with tarfile.open(ARCHIVES / f"v1-streams-{end}.tar.gz") as archive:
        archive.extractall(storage, filter="data")

    with RunningServer(storage) as server:
        streams_story.check(server.start().address, was_clean=end == "clean")
        assert server.faults == []
        assert server.terminate() == 0
