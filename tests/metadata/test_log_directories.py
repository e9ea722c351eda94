"""Finding the logs of a data directory: in one call as one by one, and in order."""

import errno
import threading
import uuid
from pathlib import Path

import pytest

from appendlog import FileSystem
from metadata.log_directories import find_logs, logs_of_queue, logs_of_vhost


class OneByOne(FileSystem):
    """Lists each directory by itself, and cannot read some."""

    def __init__(self, *unreadable: str) -> None:
        self._unreadable = unreadable

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        if path.name in self._unreadable:
            raise OSError(errno.EIO, "no", str(path))
        return super().scandir(path)


def incarnation(number: int) -> str:
    return str(uuid.UUID(int=number))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Make the logs of more queues than one call lists, and what is no log among them."""
    for number in range(600):
        log = tmp_path / "%2f" / f"q{number}" / incarnation(number)
        log.mkdir(parents=True)
        (log / "end").touch()
    vhost = tmp_path / "%2f"
    for number in range(700, 1300):
        (vhost / "often" / incarnation(number)).mkdir(parents=True)
    (vhost / "q7" / incarnation(7) / "deleted").touch()
    (vhost / "q8" / incarnation(8) / "end").unlink()
    (vhost / "q9" / "notes").mkdir()
    (vhost / "q9" / incarnation(9).upper().replace("0", "A")).mkdir()
    (vhost / "q10" / "file").touch()
    (vhost / "Upper").mkdir()
    (vhost / "file").touch()
    (vhost / "link").symlink_to("q0")
    (tmp_path / "other" / "q" / incarnation(2000)).mkdir(parents=True)
    (tmp_path / "file").touch()
    return tmp_path


def test_all_logs_are_found_in_order_and_foreign_paths_beside_them(logs: Path) -> None:
    found = find_logs(logs, FileSystem())
    assert found == find_logs(logs, OneByOne())
    paths = [each.path for each in found.logs]
    assert paths == sorted(paths)
    assert len(paths) == 600 + 600 + 1
    by_queue = {each.encoded_queue: each for each in found.logs}
    seven = by_queue["q7"]
    assert seven.path == logs / "%2f" / "q7" / incarnation(7)
    assert (seven.encoded_vhost, seven.incarnation) == ("%2f", uuid.UUID(int=7))
    assert [each.encoded_queue for each in found.logs if each.is_deleted] == ["q7"]
    assert [
        each.encoded_queue for each in found.logs if each.is_empty and each.encoded_queue != "often"
    ] == ["q8", "q"]
    assert {str(each.relative_to(logs)) for each in found.foreign_paths} == {
        "%2f/q9/notes",
        f"%2f/q9/{incarnation(9).upper().replace('0', 'A')}",
        "%2f/q10/file",
        "%2f/Upper",
        "%2f/file",
        "%2f/link",
        "file",
    }
    assert found.unreadable == []


def test_a_directory_that_cannot_be_read_is_noted_and_the_others_are_found(logs: Path) -> None:
    found = find_logs(logs, OneByOne("q3", incarnation(4)))
    assert [path.name for path, _ in found.unreadable] == ["q3", incarnation(4)]
    queues = [each.encoded_queue for each in found.logs]
    assert "q3" not in queues
    # It is there, whatever is in it.
    assert [each.is_empty for each in found.logs if each.encoded_queue == "q4"] == [False]
    assert len(queues) == 1200
    with pytest.raises(OSError, match="no"):
        found.check()


def test_the_logs_of_one_queue_and_of_one_virtual_host_are_found(logs: Path) -> None:
    assert len(logs_of_queue(logs / "%2f" / "often", FileSystem())) == 600
    assert len(logs_of_vhost(logs / "%2f", FileSystem())) == 1200
    assert [each.encoded_vhost for each in logs_of_vhost(logs / "other", FileSystem())] == ["other"]
    assert logs_of_queue(logs / "%2f" / "none", FileSystem()) == []
    assert logs_of_vhost(logs / "none", FileSystem()) == []
    assert find_logs(logs / "none", FileSystem()).logs == []


@pytest.mark.parametrize("queues", [1, 600])
def test_logs_are_found_where_no_thread_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queues: int
) -> None:
    for number in range(queues):
        (tmp_path / "%2f" / f"q{number}" / incarnation(number)).mkdir(parents=True)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert len(find_logs(tmp_path, FileSystem()).logs) == queues
