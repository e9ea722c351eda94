"""Images of logs: of which logs there is one, and what is read ahead of the others."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appendlog import Descriptors, FileSystem, Log, LogError, LogOptions
from appendlog.files.counted_files import CountedFiles
from appendlog.recovery import log_images
from appendlog.recovery.log_images import IMAGES_AT_ONCE, read_images
from tests.appendlog.builders import IDENTITY, append, expected, open_log, read_all
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

needs_kernel = pytest.mark.skipif(
    log_images._READ is None, reason="without a compiled kernel nothing is read"
)

COMPILER = shutil.which("cc")
NOBODY = 65534

SHIM = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A disk that cannot read the entry of one name: the listing fails, and has all the others. */
static struct dirent *filtered(const char *which, DIR *listing)
{
    static int is_hit;
    struct dirent *(*real)(DIR *) = dlsym(RTLD_NEXT, which);
    struct dirent *entry = real(listing);

    if (entry && !strcmp(entry->d_name, getenv("BAD_NAME"))) {
        is_hit = 1;
        entry = real(listing);
    }
    if (!entry && is_hit) {
        is_hit = 0;
        errno = EIO;
    }
    return entry;
}
struct dirent *readdir(DIR *listing) { return filtered("readdir", listing); }
struct dirent64 *readdir64(DIR *listing)
{
    return (struct dirent64 *)filtered("readdir64", listing);
}
"""
LOOK = """
import sys
from pathlib import Path
from appendlog import Descriptors, FileSystem, Log, LogError, LogOptions
from appendlog.recovery.log_images import read_images
print([image is None for image in read_images(FileSystem(), [Path(sys.argv[1])])])
"""

HEAD = FOOT = 4 << 10
LAST = 68 << 10
FIRST = f"{0:020d}"


def read_ahead(directory: Path) -> int:
    """Return how many octets of a log without an image are read into the page cache."""
    assert log_images._READ is not None
    (octets,) = log_images._READ([os.fsencode(directory)])
    assert isinstance(octets, int)
    return octets


def make(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@needs_kernel
def test_images_come_in_the_order_of_the_directories_and_count_as_reads(tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(IMAGES_AT_ONCE)]
    for number, directory in enumerate(directories[:-1]):
        log, _ = open_log(directory)
        append(log, 0, 3 * (number + 1))
        log.close()
    files = CountedFiles()
    images = read_images(files, directories)
    assert images[-1] is None
    sizes = [image.log_bytes for image in images if image is not None]
    assert sizes == sorted(set(sizes))
    assert len(sizes) == IMAGES_AT_ONCE - 1
    assert files.counters().read_count == IMAGES_AT_ONCE - 1
    assert files.counters().read_bytes >= sum(sizes)


@needs_kernel
def test_of_other_logs_the_ends_of_the_files_are_read_ahead_and_more_of_the_last_segment(
    tmp_path: Path,
) -> None:
    make(tmp_path / "end", 680)
    for number in range(3):
        make(tmp_path / f"{number:020d}.log", 200 << 10)
        make(tmp_path / f"{number:020d}.index", 10 << 10)
    make(tmp_path / "00000000000000000001.log.4096.torn", 100)
    read = read_ahead(tmp_path)
    assert read == 680 + 2 * (HEAD + FOOT) + (HEAD + LAST) + (HEAD + FOOT) + 100


@needs_kernel
@pytest.mark.parametrize("size", [0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + LAST, HEAD + LAST + 1])
def test_no_octet_of_a_short_file_is_read_ahead_twice(tmp_path: Path, size: int) -> None:
    make(tmp_path / f"{FIRST}.log", size)
    make(tmp_path / "notes", 0)
    assert read_ahead(tmp_path) == min(size, HEAD + LAST)


@needs_kernel
def test_pipes_links_and_directories_are_passed_over(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere" / "large.log", 1000)
    log = tmp_path / "log"
    make(log / "end", 7)
    # Opening a pipe waits for its other end, unless it is opened not to.
    os.mkfifo(log / "0.log")
    (log / "1.log").symlink_to(tmp_path / "elsewhere" / "large.log")
    (log / "2.log").mkdir()
    make(log / "below" / "file", 1000)
    make(log / ".hidden", 1000)
    assert read_ahead(log) == 7
    (tmp_path / "link").symlink_to("log")
    assert read_ahead(tmp_path / "link") == 0
    assert read_ahead(tmp_path / "missing") == 0
    assert read_ahead(log / "end") == 0


@needs_kernel
@pytest.mark.parametrize("name", ["a" * 251, "b" * 59, "c" * 60, "d" * 58])
def test_names_of_any_length_and_octets(tmp_path: Path, name: str) -> None:
    make(tmp_path / f"{name}.log", 5)
    make(tmp_path / "end", 680)
    with open(os.fsencode(tmp_path) + b"/\xff\xfe.log", "wb") as file:  # noqa: PTH123 - no text
        file.write(b"x" * 8)
    # A name of 64 octets or more is none of a log's.
    assert read_ahead(tmp_path) == 680 + 8 + (5 if len(name) + 4 < 64 else 0)


@needs_kernel
def test_no_file_stays_open(tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(IMAGES_AT_ONCE)]
    for number, directory in enumerate(directories):
        log, _ = open_log(directory)
        append(log, 0, 3)
        log.close()
        if number % 2:
            make(directory / "notes", 10)
    before = {str(each) for each in Path("/proc/self/fd").iterdir()}
    images = read_images(FileSystem(), directories)
    assert [image is None for image in images] == [False, True] * (IMAGES_AT_ONCE // 2)
    assert {str(each) for each in Path("/proc/self/fd").iterdir()} <= before


def test_a_file_system_of_its_own_reads_by_itself(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    append(log, 0, 3)
    log.close()
    files = FaultyFileSystem(tmp_path)
    assert not files.reads_natively
    assert read_images(files, [tmp_path / "log"]) == [None]
    log, _ = open_log(tmp_path / "log", files)
    assert files.read_bytes > 0
    assert read_all(log) == expected(0, 3)


@needs_kernel
def test_a_process_that_may_open_few_files_reads_no_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    log.close()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (511, 1024))
    assert read_images(FileSystem(), [tmp_path]) == [None]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 1024))
    assert read_images(FileSystem(), [tmp_path]) != [None]


@needs_kernel
@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_a_listing_that_fails_hides_no_segment(tmp_path: Path) -> None:
    assert COMPILER is not None
    directory = tmp_path / "log"
    log, _ = open_log(directory)
    append(log, 0, 30)
    log.roll()
    append(log, 30, 60)
    log.close()
    (tmp_path / "shim.c").write_text(SHIM)
    shim = str(tmp_path / "shim.so")
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-o", shim, str(tmp_path / "shim.c"), "-ldl"],
        check=True,
        timeout=HANG_SECONDS,
    )
    for hidden in (f"{0:020d}.log", f"{0:020d}.index"):
        # Without both of them it would look like a log with one segment.
        (directory / f"{0:020d}.index").unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", LOOK, str(directory)],
            env={**os.environ, "LD_PRELOAD": shim, "BAD_NAME": hidden},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=True,
        )
        assert done.stdout == "[True]\n"


@pytest.fixture
def directory_of_nobody() -> Iterator[Path]:
    """Make a directory that a user without privileges may use."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_log_that_may_not_be_written_is_refused_when_it_is_opened(
    directory_of_nobody: Path,
) -> None:
    """A queue whose log fails later would take messages that it cannot keep."""
    directory = directory_of_nobody / "log"
    log, _ = open_log(directory)
    append(log, 0, 3)
    log.close()
    (segment,) = directory.glob("*.log")
    segment.chmod(0o444)
    for each in (directory_of_nobody, directory, *directory.iterdir()):
        os.chown(each, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        (image,) = read_images(FileSystem(), [directory])
        options = LogOptions(descriptors=Descriptors(4))
        with pytest.raises(LogError, match="denied"):
            Log.open(directory, IDENTITY, options, image=image)
    finally:
        os.seteuid(0)
