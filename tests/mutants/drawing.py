"""Which bugs a seed draws: from each room in turn, at most one of a line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from tests.mutants.one_line_bugs import Bug, bugs_of
from tests.mutants.rooms import Room


def draw(
    repository: Path, rooms: Sequence[Room], seed: int, number: int, equivalent: set[str]
) -> list[tuple[Room, Bug]]:
    """Return the first `number` bugs of a seed.

    The order is that of a hash of the seed and the bug. So a change of the code takes the place
    of a bug in the same file at most, and a larger number begins with those of a smaller one.

    Args:
        repository: Root of the code.
        rooms: Where from; a module that two of them name belongs to the first.
        seed: Chooses.
        number: How many; fewer if there are no more.
        equivalent: Keys of those that change nothing and are passed over.
    """
    drawn: list[tuple[Room, Bug]] = []
    left: list[tuple[Room, Iterator[Bug]]] = []
    owned: set[str] = set()
    for room in rooms:
        paths = [path for path in room.paths(repository) if path not in owned]
        owned.update(paths)
        left.append((room, _in_order(repository, paths, seed, equivalent)))
    while left and len(drawn) < number:
        for room, bugs in list(left):
            bug = next(bugs, None)
            if bug is None:
                left.remove((room, bugs))
            elif len(drawn) < number:
                drawn.append((room, bug))
    return drawn


def equivalent_bugs(repository: Path, file: Path) -> set[str]:
    """Return the keys of the bugs that a file lists as equivalent, each with its reason.

    Raises:
        ValueError: One of them is no bug of this code, or says no reason.
    """
    keys: set[str] = set()
    known: dict[str, set[str]] = {}
    for entry in tomllib.loads(file.read_text()).get("bug", []):
        path = entry["path"]
        if path not in known:
            source = repository / path
            text = source.read_text() if source.exists() else ""
            known[path] = {bug.key for bug in bugs_of(path, text)}
        key = f"{path}|{entry.get('nth', 0)}|{entry['before']}|{entry['after']}"
        if key not in known[path]:
            raise ValueError(f"{file.name}: no such bug, take the entry out or correct it: {key}")
        if not entry.get("reason"):
            raise ValueError(f"{file.name}: say why nothing can tell it: {key}")
        keys.add(key)
    return keys


def _in_order(
    repository: Path, paths: Sequence[str], seed: int, equivalent: set[str]
) -> Iterator[Bug]:
    lines: dict[tuple[str, int], tuple[bytes, Bug]] = {}
    sources: dict[str, str] = {}
    for path in paths:
        sources[path] = (repository / path).read_text()
        for bug in bugs_of(path, sources[path]):
            rank = sha256(f"{seed}|{bug.key}".encode()).digest()
            place = (bug.path, bug.line)
            if place not in lines or rank < lines[place][0]:
                lines[place] = (rank, bug)
    for _, bug in sorted(lines.values(), key=lambda ranked: ranked[0]):
        if bug.key not in equivalent and bug.is_sound(sources[bug.path]):
            yield bug
