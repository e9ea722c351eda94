"""The entries of files in the format of `rabbitmq.conf`: `key = value`, one a line.

As in RabbitMQ, a comment begins at any `#` outside single quotes, a value in single quotes loses
them, and double quotes are part of a value. `$(NAME)` stands for an environment variable.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 1 << 20
FILES_MAX: Final = 1000
"""Largest file, and files of a directory, that are read."""
_WORD: Final = r"(?:\\\.|[A-Za-z0-9_-])+"
_LINE: Final = re.compile(
    rf"""
    \s* (?P<key>{_WORD}(?:\.{_WORD})*) \s* = \s*
    (?: '(?P<quoted>[^']*)' | (?P<plain>[^#]*?) )
    \s* (?:\#.*)?
    """,
    re.VERBOSE,
)
_BLANK: Final = re.compile(r"\s*(?:#.*)?")
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_DOT: Final = re.compile(r"(?<!\\)\.")


class ConfMistakeError(ValueError):
    """A file, or a line of it, cannot be used.

    Args:
        place: File, or `FILE:LINE: KEY`.
        reason: What is wrong, and what would be right.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that sets a key.

    Attributes:
        path: Its file.
        line: Number of the line, from 1.
        key: The key as written, such as `listeners.tcp.default`.
        value: Text without quotes, comment and outer spaces; not empty unless it was quoted.
    """

    path: Path
    line: int
    key: str
    value: str

    @property
    def parts(self) -> tuple[str, ...]:
        r"""The parts of the key between its dots; `\.` is a dot inside a part."""
        return tuple(part.replace("\\.", ".") for part in _DOT.split(self.key))

    @property
    def place(self) -> str:
        """`FILE:LINE: KEY`, with which messages begin."""
        return f"{self.path}:{self.line}: {self.key}"

    def mistake(self, reason: str) -> ConfMistakeError:
        """Return the error that refuses this entry."""
        return ConfMistakeError(self.place, reason)


def find_files(path: Path) -> list[Path]:
    """Return the files that a path means, in the order in which they are read.

    Args:
        path: A file. Or a directory: with `rabbitmq.conf` or `conf.d/` inside, as `/etc/rabbitmq`,
            these count as in RabbitMQ; otherwise all its files `*.conf` do, ordered by name.

    Raises:
        ConfMistakeError: There is no such file, or the directory has none.
    """
    try:
        if not path.is_dir():
            return [path]
        main, parts = path / "rabbitmq.conf", path / "conf.d"
        found = [main] if main.exists() else []
        if parts.is_dir():
            found += sorted(parts.glob("*.conf"))
        elif not found:
            found = sorted(path.glob("*.conf"))
    except OSError as error:
        raise ConfMistakeError(str(path), error.strerror or str(error)) from error
    if not found:
        raise ConfMistakeError(str(path), "no file *.conf in this directory")
    if len(found) > FILES_MAX:
        raise ConfMistakeError(str(path), f"more than {FILES_MAX} files")
    return found


def read_entries(path: Path, environment: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the entries of a file.

    Args:
        path: The file.
        environment: Values of `$(NAME)`.

    Raises:
        ConfMistakeError: The file cannot be read, or a line is no entry.
    """
    try:
        with path.open("rb") as file:
            octets = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfMistakeError(str(path), error.strerror or str(error)) from error
    if len(octets) > FILE_BYTES_MAX:
        raise ConfMistakeError(str(path), f"larger than {FILE_BYTES_MAX} bytes")
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        raise ConfMistakeError(f"{path}:{line}", "not UTF-8") from error
    yield from parse_entries(path, text, environment)


def parse_entries(path: Path, text: str, environment: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the entries of a file's text; see `read_entries`."""
    for number, line in enumerate(text.split("\n"), 1):
        if _BLANK.fullmatch(line):
            continue
        found = _LINE.fullmatch(line)
        if found is None or (not found["plain"] and found["quoted"] is None):
            raise ConfMistakeError(f"{path}:{number}", _why_no_entry(line, found))
        quoted = found["quoted"]
        entry = Entry(path, number, found["key"], found["plain"] if quoted is None else quoted)
        yield Entry(path, number, entry.key, _with_variables(entry, environment))


def _why_no_entry(line: str, found: re.Match[str] | None) -> str:
    if found is not None:
        return f"{found['key']} has no value: write {found['key']} = VALUE, or remove the line"
    if line.split(maxsplit=1)[0] == "include":
        return "include is not supported: name a directory, whose files *.conf are read"
    if line.lstrip().startswith(("[", "{")):
        return (
            "not a line KEY = VALUE: this looks like the classic format rabbitmq.config; write "
            "its settings in the format of rabbitmq.conf"
        )
    return "not a line KEY = VALUE"


def _with_variables(entry: Entry, environment: Mapping[str, str]) -> str:
    def value_of(found: re.Match[str]) -> str:
        try:
            return environment[found[1]]
        except KeyError:
            raise entry.mistake(f"the environment variable {found[1]} is not set") from None

    if entry.value.startswith("encrypted:"):
        raise entry.mistake(
            "encrypted values are RabbitMQ's: take the value from the environment as $(NAME)"
        )
    return _VARIABLE.sub(value_of, entry.value)
