"""Logs of a process that may open few files: they close what nobody uses, and go on.

In processes of their own, for a limit cannot be raised again.
"""

import os
import subprocess
import sys

from tests.servers import REPOSITORY

BEGIN = """
import os, resource, sys
from pathlib import Path

directory = Path(sys.argv[1])


def limit(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def exhaust():
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return held
"""

EMBEDDED = """
limit(64)
from appendlog import LogFollower
from offsets import LogRoot
from offsets.consuming.catalog import LogCatalog
names = [f"log-{number}" for number in range(60)]
with LogRoot.open(directory / "root") as root:
    for number in range(2):
        for name in names:
            root.append(name, b"%d of " % number + name.encode())
        root.sync()
    # Its caches leave half of the limit to the program.
    assert len(os.listdir("/proc/self/fd")) < 32 + 16, os.listdir("/proc/self/fd")
places = LogCatalog(directory / "root").find()
followers = {name: LogFollower(places[name].directory) for name in names}
for number in range(2):
    for name, follower in followers.items():
        (message,) = follower.read_batch(number, 1, 1000).messages
        assert message.endswith(b"%d of " % number + name.encode()), message
for follower in followers.values():
    follower.close()
print("done")
"""

MADE_ROOM = """
limit(96)
from appendlog import FileSystem
from appendlog.files.descriptors import Descriptors
from appendlog.files.mappings import Mappings
files, descriptors, mappings = FileSystem(), Descriptors(512), Mappings(128, window_bytes=1 << 12)
path = directory / "mapped"
path.write_bytes(bytes(1 << 20))
mapped = files.open(path, os.O_RDONLY)
for place in range(30):
    assert mappings.window(files, path, mapped, place << 14, 100, 1 << 20)
for number in range(30):
    name = directory / str(number)
    name.touch()
    with descriptors.borrow(files, name):
        pass
used = descriptors.borrow(files, directory / "0")
kept = mappings.window(files, path, mapped, 0, 100, 1 << 20)
counts = [(len(descriptors), mappings.count)]
for operation in (
    lambda: files.close(files.open(path, os.O_RDONLY)),
    lambda: files.sync_directory(directory),
    lambda: files.listdir(directory),
    lambda: files.map(mapped, 100).close(),
):
    held = exhaust()
    operation()
    counts.append((len(descriptors), mappings.count))
    for each in held:
        os.close(each)
assert counts[0] == (30, 30), counts
assert all(after < before for before, after in zip(counts, counts[1:])), counts
# What is used stays open, and readable.
with used as descriptor:
    os.fstat(descriptor)
assert kept.buffer[0] == 0
assert (directory / "0") in {path for _, path in descriptors._open}
# With nothing to close it is told; what is to be mapped is read by copies instead.
for place in (descriptors, mappings):
    while place.evict_unused():
        pass
held = exhaust()
for operation in (lambda: files.open(path, os.O_RDONLY), lambda: files.listdir(directory)):
    try:
        operation()
    except OSError as error:
        assert error.errno == 24, error
    else:
        raise AssertionError("opened")
assert mappings.window(files, path, mapped, 1 << 19, 100, 1 << 20) is None
for each in held:
    os.close(each)
print("done")
"""

RESERVED = """
limit(96)
from appendlog import FileSystem
from appendlog.files.descriptors import Descriptors
from appendlog.files.open_files import OPEN_FILES
OPEN_FILES.numbers_end = 80
files, descriptors = FileSystem(), Descriptors(512)
for number in range(200):
    name = directory / str(number)
    name.touch()
    with descriptors.borrow(files, name) as descriptor:
        assert descriptor < 80, descriptor
# All below is in use by others: what is there for them is not taken.
descriptors.close()
others = exhaust()
for each in others:
    if each >= 80:
        os.close(each)
for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL):
    try:
        files.open(directory / (f"new-{flags}" if flags else "0"), flags)
    except OSError as error:
        assert error.errno == 24, error
    else:
        raise AssertionError("opened")
    assert len([*os.scandir("/proc/self/fd")]) == 81
# Nor is the very last one.
rest = exhaust()
os.close(rest.pop())
try:
    files.open(directory / f"new-{flags}", flags)
except OSError as error:
    assert error.errno == 24, error
else:
    raise AssertionError("opened")
# Who wants to make it may try again.
os.close(others[0])
files.close(files.open(directory / f"new-{flags}", flags))
print("done")
"""


def run(program: str, directory: os.PathLike[str]) -> None:
    """Run a program that limits its own files."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", BEGIN + program, str(directory)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_more_embedded_logs_than_files_are_written_and_read(tmp_path: os.PathLike[str]) -> None:
    run(EMBEDDED, tmp_path)


def test_what_nobody_uses_is_closed_when_no_more_files_can_be_open(
    tmp_path: os.PathLike[str],
) -> None:
    run(MADE_ROOM, tmp_path)


def test_the_last_numbers_are_left_to_others(tmp_path: os.PathLike[str]) -> None:
    run(RESERVED, tmp_path)
