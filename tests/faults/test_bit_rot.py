"""Changed bytes of every kind of file are found or harmless; no message is ever wrong.

Bytes of a small data directory are flipped, files are cut, removed, lengthened, and segments change
places; then a server starts. `ROT_STRIDE` says which bytes: every one with 1, every 11th (and the
first ones of each file) with 11. CI has no stride, and takes a sample, always the same: some files
of each kind with a byte anywhere in each, and the first byte of one file of each kind.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from amqp_server.base.errors import StartupError
from tests.faults.checker import Content, Found, Warnings, look
from tests.faults.disk import Disk, Survivors
from tests.faults.every_operation import played
from tests.faults.history import History
from tests.faults.inline_server import InlineServer
from tests.faults.power_cuts import leave, own_root
from tests.faults.test_every_operation import PLAN
from tests.sampled import some_items

STRIDE = int(os.environ.get("ROT_STRIDE", "0"))
"""0: a sample."""
HEAD_BYTES = 2
"""Bytes at the beginning of each file that are flipped with any stride."""
FILES_STRIDE = 2
"""Of each kind of file, every how many a sample takes."""
SWAPS_STRIDE = 3
RESERVE = Path("reserve")
"""The file that keeps room on the disk."""

ACCESS_KINDS = {"access", "permissions", "users"}
"""Directories of the documents that say who may log in."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.long,
    pytest.mark.timeout(300 + (36_000 // STRIDE if STRIDE else 0)),
]

Files = dict[Path, bytes]
"""Content by path below the data directory."""
Changes = dict[Path, bytes | None]
"""New content by path; None removes."""


@dataclass
class Sample:
    """A data directory, and what a server finds in it.

    Attributes:
        root: Where it was made.
        work: Where copies of it are made.
        survivors: Its files, for `leave`.
        files: Its files.
        history: Of the clients.
        found: What a server finds in it.
        said: What a server says of it, whatever was changed: its clock was turned.
    """

    root: Path
    work: Path
    survivors: Survivors
    files: Files
    history: History
    found: Found
    said: frozenset[str] = frozenset()
    count: int = 0

    def start(self, change: Callable[[Path], object]) -> tuple[Found | None, list[str]]:
        """Start a server on a copy that was changed; return what it finds, and its new warnings.

        What it finds is None if it refuses to start.
        """
        self.count += 1
        with ExitStack() as stack, Warnings() as warnings:
            root = stack.enter_context(own_root(self.work / str(self.count)))
            leave(self.survivors, self.root, root)
            change(root / "data")
            try:
                server = stack.enter_context(InlineServer(root / "data"))
            except StartupError:
                return None, warnings.lines
            found = look(server, self.history)
            # What the clients of this test do, their logins included, says nothing of the files.
            of_clients = ("channel", "conn", "guest")
            reported = [
                line.replace(str(root), "")
                for line in warnings.lines
                if not line.startswith(of_clients)
            ]
            return found, [line for line in reported if line not in self.said]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Return a directory as a process leaves it that ends behind a commit: it has all files."""
    root = tmp_path_factory.mktemp("rot")
    scenario, changes = played(PLAN, root / "played", 0)
    disk = Disk()
    best: Survivors = {}
    for change in changes:
        change.apply(disk)
        if any(path.parent.name == "transactions" for path in disk.entries):
            best = disk.written()
    files = {
        path.relative_to(root / "played" / "data"): content
        for path, content in best.items()
        # FORMAT may refuse a start: tests/metadata/test_directory_lock.py. Users and permissions
        # may refuse the clients that look here: tests/access/test_damaged_documents.py.
        if content is not None
        and path.name != "FORMAT"
        and not ACCESS_KINDS & set(path.relative_to(root / "played" / "data").parts)
    }
    (root / "work").mkdir()
    sample = Sample(root / "played", root / "work", best, files, scenario.history, Found())
    found, said = sample.start(lambda _: None)
    assert found is not None
    assert len(found.queues) == 7
    sample.found, sample.said = found, frozenset(said)
    assert sample.start(lambda _: None)[1] == []
    return sample


def test_the_sample_has_every_kind_of_file(sample: Sample) -> None:
    kinds = {(path.parts[0], path.suffix) for path in sample.files}
    assert {
        ("logs", ".log"),
        ("logs", ".index"),
        ("logs", ""),
        ("offsets", ".log"),
        ("transactions", ".log"),
        ("metadata", ".json"),
    } <= kinds
    assert RESERVE in sample.files
    assert sum(path.parts[0] == "logs" and path.suffix == ".log" for path in sample.files) > 6


def replaced(changes: Changes) -> Callable[[Path], None]:
    """Return what gives files other contents, or removes them."""

    def change(data: Path) -> None:
        for path, content in changes.items():
            if content is None:
                (data / path).unlink()
            else:
                (data / path).write_bytes(content)

    return change


def owners(*paths: Path) -> set[str]:
    """Return the queues that files belong to; none when they are of all."""
    found = set()
    for path in paths:
        if path.parts[0] == "logs":
            found.add(path.parts[2])
        elif path.parts[:2] == ("metadata", "queues"):
            found.add(path.stem)
    return found


def check(sample: Sample, found: Found, warnings: list[str], *paths: Path, must_tell: bool) -> None:
    """Check what a server found in a directory in which these files were changed.

    Args:
        sample: The directory before.
        found: What was found.
        warnings: What the server said when it started.
        paths: The files.
        must_tell: Whether a change that is not harmless must have been noticed.
    """
    affected = owners(*paths)
    is_of_one = all(path.parts[0] in ("logs", "metadata") for path in paths)
    is_same = True
    for name, before in sample.found.queues.items():
        after = found.queues.get(name)
        if is_of_one and name not in affected and "vhosts" not in paths[0].parts:
            assert after == before, f"{name} is another queue, but is affected"
        is_same = is_same and after == before
        if after is not None:
            check_queue(sample, name, after)
        if paths[0].parts[0] == "offsets":
            # A checkpoint may lag: more comes back, and nothing is missing.
            assert after is not None
            assert {body for body, _ in before} <= {body for body, _ in after}
    assert is_same or warnings or not must_tell, "something is missing, and the log does not say so"


def check_queue(sample: Sample, name: str, content: Content) -> None:
    """Check that everything in a queue was published to it: once, in order, bit for bit."""
    # Transient ones too: the start settles those that it finds, and damage may hide one.
    published = [each.body for life in sample.history.named(name) for each in life.placed]
    bodies = [body for body, _ in content]
    assert len(set(bodies)) == len(bodies), f"{name}: twice the same message"
    at = [published.index(body) for body in bodies]  # ValueError: a wrong message
    assert at == sorted(at), f"{name}: disordered"


def kind_of(path: Path) -> tuple[str, ...]:
    """Return what a file is: a rewritten segment is another kind than one as it was written."""
    folders = path.parts[:2] if path.parts[0] == "metadata" else path.parts[:1]
    return (*folders, path.suffix or path.name, "-" if "-" in path.stem else "")


def files_of(sample: Sample, turn: int, stride: int = FILES_STRIDE) -> list[Path]:
    """Return the files that are changed: all of them, or those of a sample."""
    paths = list(sample.files)
    if STRIDE:
        return paths
    return some_items(paths, [kind_of(path) for path in paths], turn, stride)


def places(sample: Sample, turn: int) -> Iterator[tuple[Path, int]]:
    """Yield the bytes to be changed, with their files.

    Of the disk reserve only the first bytes: it is a million bytes that are never read, 96 % of
    the directory.
    """
    begun = set()
    for number, path in enumerate(files_of(sample, turn)):
        size = len(sample.files[path])
        if STRIDE:
            yield from ((path, position) for position in range(min(HEAD_BYTES, size)))
            if path != RESERVE:
                yield from ((path, position) for position in range(HEAD_BYTES, size, STRIDE))
            continue
        if kind_of(path) not in begun:
            begun.add(kind_of(path))
            yield path, 0
        if path != RESERVE:
            yield path, random.Random(f"{turn} {number}").randrange(size)


@pytest.mark.parametrize("mask", [1, 0xFF], ids=["one bit", "all bits"])
def test_a_flipped_byte_is_found_or_harmless(sample: Sample, mask: int) -> None:
    for path, position in places(sample, 0 if mask == 1 else 1):
        flipped = bytearray(sample.files[path])
        flipped[position] ^= mask if mask == 0xFF else 1 << position % 8
        try:
            found, warnings = sample.start(replaced({path: bytes(flipped)}))
            assert found is not None, f"does not start: {warnings}"
            # A last round that does not hold together is what a crash leaves; without it,
            # what it settled comes back.
            check(sample, found, warnings, path, must_tell=path.parts[0] != "offsets")
        except Exception as error:
            error.add_note(f"{path} byte {position} of {len(flipped)} mask {mask:#x}")
            raise


def test_a_file_cut_anywhere_is_found_or_harmless(sample: Sample) -> None:
    for path, size in places(sample, 2):
        content = sample.files[path]
        try:
            found, warnings = sample.start(replaced({path: content[:size]}))
            assert found is not None, f"does not start: {warnings}"
            # Cut at the end of a round, it is what it was before that round.
            must_tell = path.parts[0] not in ("offsets", "transactions")
            check(sample, found, warnings, path, must_tell=must_tell)
        except Exception as error:
            error.add_note(f"{path} cut to {size} of {len(content)}")
            raise


TAILS = [b"\0" * 600, b"garbage" * 20, None]


@pytest.mark.parametrize("tail", TAILS, ids=["zeros", "junk", "twice"])
def test_octets_behind_the_end_of_a_file_are_found_or_harmless(
    sample: Sample, tail: bytes | None
) -> None:
    for path in files_of(sample, TAILS.index(tail), len(TAILS)):
        content = sample.files[path]
        longer = content + (content if tail is None else tail)
        try:
            found, warnings = sample.start(replaced({path: longer}))
            assert found is not None, f"does not start: {warnings}"
            check(sample, found, warnings, path, must_tell=True)
        except Exception as error:
            error.add_note(f"{path} of {len(content)} bytes made longer")
            raise


def test_a_removed_file_damages_no_other(sample: Sample) -> None:
    for path in files_of(sample, 0):
        try:
            found, warnings = sample.start(replaced({path: None}))
            assert found is not None, f"does not start: {warnings}"
            # Only the document says that there is a binding; indexes and end files are optional.
            must_tell = path.suffix == (".log" if path.parts[0] == "logs" else ".json")
            must_tell = must_tell and "bindings" not in path.parts
            check(sample, found, warnings, path, must_tell=must_tell)
        except Exception as error:
            error.add_note(f"{path} removed")
            raise


def test_swapped_segments_are_found(sample: Sample) -> None:
    segments = [path for path in sample.files if path.parts[0] == "logs" and path.suffix == ".log"]
    swaps: list[tuple[str, Path, Path, Changes]] = []
    for at, first in enumerate(segments):
        # Without every byte only the next few, which are of this queue and of the one behind it.
        others = segments if STRIDE == 1 else (segments + segments)[at + 1 : at + 3]
        for second in others:
            if first == second:
                continue
            here, there = sample.files[first], sample.files[second]
            moved = first.with_name("00000000000000000099.log")
            swaps += [
                ("swapped", first, second, {first: there, second: here}),
                ("copied", first, second, {second: here}),
                ("renamed", first, second, {first: None, moved: here}),
            ]
    if not STRIDE:
        # Of each way, between one queue's segments and between those of two.
        kinds = [(way, one.parent == two.parent) for way, one, two, _ in swaps]
        swaps = some_items(swaps, kinds, 0, SWAPS_STRIDE)
    for way, first, second, change in swaps:
        try:
            found, warnings = sample.start(replaced(change))
            assert found is not None, f"does not start: {warnings}"
            check(sample, found, warnings, first, second, must_tell=True)
        except Exception as error:
            error.add_note(f"{way} {first} {second}")
            raise
