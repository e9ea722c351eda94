"""Reading files into the page cache: which octets, and which files never."""

import os
import resource
from pathlib import Path

import pytest

from appendlog.files.read_ahead import READERS, ReadAhead

pytestmark = pytest.mark.skipif(READERS > 1, reason="without a compiled kernel nothing is read")

HEAD = FOOT = 4 << 10
LAST = 68 << 10


def octets_of(*trees: tuple[Path, int]) -> int:
    """Return how many octets are read of some trees."""
    ahead = ReadAhead()
    ahead.start(trees)
    ahead.join()
    return ahead.read_bytes


def make(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_of_a_log_the_ends_of_its_files_are_read_and_more_of_the_last_segment(
    tmp_path: Path,
) -> None:
    log = tmp_path / "logs" / "%2f" / "q" / "incarnation"
    make(log / "end", 680)
    for number in range(3):
        make(log / f"{number:020d}.log", 200 << 10)
        make(log / f"{number:020d}.index", 10 << 10)
    make(log / "00000000000000000001.log.4096.torn", 100)
    read = octets_of((tmp_path / "logs", 2))
    assert read == 680 + 2 * (HEAD + FOOT) + (HEAD + LAST) + (HEAD + FOOT) + 100


@pytest.mark.parametrize("size", [0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + LAST, HEAD + LAST + 1])
def test_no_octet_of_a_short_file_is_read_twice(tmp_path: Path, size: int) -> None:
    make(tmp_path / "q" / "0.log", size)
    assert octets_of((tmp_path, 1)) == min(size, HEAD + LAST)


def test_many_directories_are_divided_among_the_threads_and_each_is_read_once(
    tmp_path: Path,
) -> None:
    for number in range(500):
        make(tmp_path / "logs" / "v" / f"q{number}" / "i" / "end", 1 + number)
        make(tmp_path / "metadata" / "queues" / "v" / f"q{number}.json", 10)
    trees = ((tmp_path / "metadata", 3), (tmp_path / "logs", 2))
    assert octets_of(*trees) == sum(range(501)) + 500 * 10


def test_pipes_links_and_what_lies_deep_are_passed_over(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere" / "large.log", 1000)
    queue = tmp_path / "logs" / "v" / "q"
    make(queue / "i" / "end", 7)
    # Opening a pipe waits for its other end, unless it is opened not to.
    os.mkfifo(queue / "i" / "0.log")
    (queue / "i" / "1.log").symlink_to(tmp_path / "elsewhere" / "large.log")
    (queue / "i" / "2.log").mkdir()
    (queue / "again").symlink_to(queue)
    make(queue / "i" / "one" / "two" / "three" / "file", 1000)
    make(queue / "i" / ".hidden", 1000)
    assert octets_of((tmp_path / "logs", 2)) == 7


def test_names_of_any_length_and_octets(tmp_path: Path) -> None:
    make(tmp_path / "q" / f"{'a' * 251}.log", 5)
    make(tmp_path / "q" / f"{'b' * 249}.log", 6)
    directory = os.fsencode(tmp_path / "q")
    with open(directory + b"/\xff\xfe.log", "wb") as file:  # noqa: PTH123 - no text
        file.write(b"x" * 8)
    assert octets_of((tmp_path, 1)) == 5 + 6 + 8


def test_what_is_missing_or_no_directory_is_empty(tmp_path: Path) -> None:
    make(tmp_path / "file", 10)
    assert octets_of((tmp_path / "missing", 2), (tmp_path / "file", 2)) == 0


def test_nothing_is_read_once_it_is_stopped(tmp_path: Path) -> None:
    make(tmp_path / "q" / "end", 10)
    ahead = ReadAhead()
    ahead.stop()
    ahead.start([(tmp_path, 1)])
    ahead.join()
    assert ahead.read_bytes == 0


def test_a_process_that_may_open_few_files_reads_nothing_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "q" / "end", 10)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (511, 1024))
    assert octets_of((tmp_path, 1)) == 0
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 1024))
    assert octets_of((tmp_path, 1)) == 10


def test_the_threads_leave_no_file_open(tmp_path: Path) -> None:
    for number in range(50):
        make(tmp_path / f"q{number}" / "i" / "0.log", 10)
    before = set(Path("/proc/self/fd").iterdir())
    octets_of((tmp_path, 1))
    assert {str(each) for each in Path("/proc/self/fd").iterdir()} <= {str(each) for each in before}


@pytest.mark.parametrize("place", ["v", "v/q"])
def test_no_link_above_the_logs_is_followed(tmp_path: Path, place: str) -> None:
    make(tmp_path / "elsewhere" / "q" / "i" / "end", 10)
    link = tmp_path / "logs" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    assert octets_of((tmp_path / "logs", 2)) == 0
    # The root of the data directory may be one.
    (tmp_path / "data").symlink_to(tmp_path / "elsewhere")
    assert octets_of((tmp_path / "data", 1)) == 10
