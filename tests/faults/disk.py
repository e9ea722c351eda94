"""Models what a disk may hold after a power cut: all synced bytes and names, and any of the others.

The model is as strict as the standard allows. A write is kept for certain when its file was
synced after it, or when it carried its own sync. A name is kept for certain when its directory
was synced. Of the rest a power cut keeps whatever chance says, file by file and directory by
directory: nothing, everything, a prefix that may end within a write, or some pages of it.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = 128
"""What a disk writes at once in this model: small, so that small files have several."""

Survivors = dict[Path, bytes | None]
"""Content by path; None for a directory. Parents come before what is in them."""


@dataclass(frozen=True, slots=True)
class _Write:
    position: int
    data: bytes
    is_synced: bool = False


@dataclass(frozen=True, slots=True)
class _Cut:
    size: int
    is_synced: bool = False


@dataclass(slots=True)
class _File:
    """One file (inode): as the kernel has it, as the disk has it, and the way between the two."""

    content: bytearray
    durable: bytearray
    pending: list[_Write | _Cut] = field(default_factory=list)


_NameChange = dict[Path, int | None]
"""Names that change together, and the number of the file that each then means; None: no file."""
_DIRECTORY: Final = -1


class Disk:
    """Files and names below one directory; files have numbers, given in order.

    Attributes:
        entries: File number by path, as programs see it; -1 for a directory.
    """

    def __init__(self) -> None:
        self.entries: dict[Path, int] = {}
        self._durable: dict[Path, int] = {}
        self._files: list[_File] = []
        self._pending: dict[Path, list[_NameChange]] = {}
        self._directories: set[Path] = set()

    # What programs do

    def adopt(self, path: Path, content: bytes | None) -> None:
        """Learn of what has been there all the time, and on the disk; None is a directory."""
        number = _DIRECTORY
        if content is not None:
            number = len(self._files)
            self._files.append(_File(bytearray(content), bytearray(content)))
        else:
            self._directories.add(path)
        self.entries[path] = self._durable[path] = number

    def create(self, path: Path) -> None:
        """Make an empty file."""
        self._files.append(_File(bytearray(), bytearray()))
        self._change({path: len(self._files) - 1})

    def make_directory(self, path: Path) -> None:
        """Make an empty directory."""
        self._directories.add(path)
        self._change({path: _DIRECTORY})

    def rename(self, source: Path, target: Path) -> None:
        """Let `target` mean what `source` did, at once or not at all."""
        self._change({target: self.entries[source], source: None})

    def move(self, source: Path, target: Path) -> None:
        """Rename into another directory, at once or not at all, as journaling file systems do.

        It is kept for certain when the directory of `target` was synced.
        """
        change: _NameChange = {target: self.entries[source], source: None}
        _apply_names(self.entries, change)
        self._pending.setdefault(target.parent, []).append(change)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        self._change({target: self.entries[source]})

    def remove(self, path: Path) -> None:
        """Remove a file's name, or an empty directory."""
        self._change({path: None})

    def write(self, number: int, position: int, data: bytes) -> None:
        """Write to a file."""
        change = _Write(position, data)
        _apply(self._files[number].content, change)
        self._files[number].pending.append(change)

    def cut(self, number: int, size: int) -> None:
        """Cut a file, or extend it with zeros."""
        change = _Cut(size)
        _apply(self._files[number].content, change)
        self._files[number].pending.append(change)

    def sync_write(self, number: int) -> None:
        """Put the last write to a file on the disk, and no other."""
        file = self._files[number]
        last = file.pending.pop()
        assert isinstance(last, _Write), "nothing was written"
        if file.pending:
            file.pending.append(_Write(last.position, last.data, is_synced=True))
        else:
            _apply(file.durable, last)

    def sync(self, number: int) -> None:
        """Put all of a file on the disk; not its name."""
        file = self._files[number]
        file.durable[:] = file.content
        file.pending.clear()

    def sync_directory(self, path: Path) -> None:
        """Put the names in a directory on the disk."""
        for change in self._pending.pop(path, ()):
            _apply_names(self._durable, change)

    def sync_all(self) -> None:
        """Put all files and names on the disk."""
        for number in range(len(self._files)):
            self.sync(number)
        for path in list(self._pending):
            self.sync_directory(path)

    def is_as(self, number: int, content: bytes) -> bool:
        """Tell whether a file has this content, as programs see it."""
        return number != _DIRECTORY and self._files[number].content == content

    # What is left

    def survivors(self, chance: random.Random | None) -> Survivors:
        """Return what a power cut leaves; this object is as before.

        Args:
            chance: Decides what is kept of that which was not synced; None keeps none of it.
        """
        names = dict(self._durable)
        for changes in self._pending.values():
            for change in _kept_names(changes, chance):
                _apply_names(names, change)
        found: Survivors = {}
        for path in sorted(names):
            parent = path.parent
            if parent in self._directories and names.get(parent) != _DIRECTORY:
                names[path] = len(self._files)  # what is in it is lost with it
            elif names[path] == _DIRECTORY:
                found[path] = None
            elif names[path] < len(self._files):
                found[path] = bytes(_kept_content(self._files[names[path]], chance))
        return found

    def written(self) -> Survivors:
        """Return everything as programs see it: what the end of the process alone leaves."""
        return {
            path: None if number == _DIRECTORY else bytes(self._files[number].content)
            for path, number in sorted(self.entries.items())
        }

    def _change(self, change: _NameChange) -> None:
        parents = {path.parent for path in change}
        assert len(parents) == 1, "names of two directories at once are not modelled"
        _apply_names(self.entries, change)
        self._pending.setdefault(parents.pop(), []).append(change)


def restore(survivors: Survivors) -> None:
    """Write files and directories; nothing of them is there yet."""
    for path, content in survivors.items():
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content)


def _apply(content: bytearray, change: _Write | _Cut) -> None:
    if isinstance(change, _Cut):
        size = change.size
        content[size:] = bytes(max(0, size - len(content)))
        return
    content.extend(bytes(max(0, change.position - len(content))))
    content[change.position : change.position + len(change.data)] = change.data


def _apply_names(names: dict[Path, int], change: _NameChange) -> None:
    for path, number in change.items():
        if number is None:
            names.pop(path, None)
        else:
            names[path] = number


def _kept_names(changes: list[_NameChange], chance: random.Random | None) -> list[_NameChange]:
    """Return the changes that survive: of those of one name, none behind one that is lost."""
    if chance is None:
        return []
    share = chance.choice((0.0, 0.5, 1.0))
    kept, lost = [], set[Path]()
    for change in changes:
        if lost.isdisjoint(change) and chance.random() < share:
            kept.append(change)
        else:
            lost.update(change)
    return kept


def _kept_content(file: _File, chance: random.Random | None) -> bytearray:
    content = bytearray(file.durable)
    way = "nothing" if chance is None else chance.choice(("nothing", "all", "prefix", "pages"))
    whole = chance.randint(0, len(file.pending)) if chance and way == "prefix" else 0
    for number, change in enumerate(file.pending):
        if change.is_synced or way == "all" or number < whole:
            _apply(content, change)
        elif chance and number == whole and way == "prefix" and isinstance(change, _Write):
            size = chance.randint(0, len(change.data))
            _apply(content, _Write(change.position, change.data[:size]))
        elif chance and way == "pages":
            _apply_pages(content, change, chance)
    return content


def _apply_pages(content: bytearray, change: _Write | _Cut, chance: random.Random) -> None:
    """Let some pages of a write reach the disk, and not those before them; the rest is zeros."""
    if isinstance(change, _Cut):
        if chance.random() < 0.5:
            _apply(content, change)
        return
    end = change.position + len(change.data)
    for start in range(change.position, end, PAGE_BYTES):
        if chance.random() < 0.5:
            at = start - change.position
            _apply(content, _Write(start, change.data[at : at + PAGE_BYTES]))
    if chance.random() < 0.5 and len(content) < end:
        content.extend(bytes(end - len(content)))
