"""Reads definitions files: JSON with a list of entries for each section.

Passwords in them become hashes before the server sees them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.access.passwords import PasswordHash
from amqp_server.definitions_file.entry import Entry
from amqp_server.definitions_file.errors import DefinitionsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SECTIONS: Final = (
    "vhosts",
    "users",
    "permissions",
    "exchanges",
    "topic_permissions",
    "global_parameters",
    "policies",
    "parameters",
    "queues",
    "bindings",
)
"""Sections in the order of their import; RabbitMQ ignores others, and so do we."""
CLUSTER_SECTIONS: Final = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "global_parameters",
)
"""Sections that a file of one virtual host does not have."""
FILE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Largest file, and all files of a directory together: about 100,000 queues with bindings."""
_SINGLE: Final = "single_virtual_host"


@dataclass(slots=True)
class FileContent:
    """Content of one or several definitions files.

    Attributes:
        entries: The entries in the order of `SECTIONS`, unchecked.
        rabbit_version: Version of RabbitMQ that wrote the first file; empty if it does not say.
        is_single_vhost: Whether it holds the definitions of one virtual host, without its name.
    """

    entries: list[Entry] = field(default_factory=list)
    rabbit_version: str = ""
    is_single_vhost: bool = False


def parse_definitions(content: bytes, source: str = "") -> FileContent:
    """Return the content of one definitions file; takes a second for the largest.

    Args:
        content: The file.
        source: Its name, for errors; empty if it need not be named.

    Raises:
        DefinitionsError: It is too large, or no definitions file.
    """
    where = f"{source}: " if source else ""
    if len(content) > FILE_BYTES_MAX:
        raise DefinitionsError(f"{where}larger than {FILE_BYTES_MAX >> 20} MiB, the limit")
    try:
        top = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DefinitionsError(f"{where}not JSON: {error}") from None
    if not isinstance(top, dict):
        raise DefinitionsError(f"{where}not a JSON object")
    found = FileContent(rabbit_version=_version(top))
    for section in SECTIONS:
        found.entries += _entries(section, top.get(section), source, where)
    found.is_single_vhost = _is_single(top, found.entries)
    return found


def read_definitions(path: Path) -> FileContent:
    """Read a definitions file, or all files `*.json` of a directory in the order of their names.

    Raises:
        DefinitionsError: There is no such file, or it is no definitions file.
    """
    try:
        paths = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not paths:
            raise DefinitionsError(f"{path}: no files *.json in the directory")
        left = FILE_BYTES_MAX
        whole = FileContent()
        for each in paths:
            with each.open("rb") as file:
                content = file.read(left + 1)
            if len(content) > left:
                raise DefinitionsError(f"{each}: larger than {FILE_BYTES_MAX >> 20} MiB, the limit")
            left -= len(content)
            found = parse_definitions(content, str(each) if len(paths) == 1 else each.name)
            whole.entries += found.entries
            whole.rabbit_version = whole.rabbit_version or found.rabbit_version
            whole.is_single_vhost |= found.is_single_vhost
    except OSError as error:
        raise DefinitionsError(f"{error.filename or path}: {error.strerror or error}") from error
    if len(paths) == 1:
        # One file needs no name at each place: the command line has it.
        whole.entries = [Entry(each.section, each.index, "", each.fields) for each in whole.entries]
    whole.entries.sort(key=lambda each: SECTIONS.index(each.section))
    return whole


def _version(top: dict[str, Any]) -> str:
    for name in ("rabbit_version", "rabbitmq_version"):
        version = top.get(name)
        if isinstance(version, str):
            return version
    return ""


def _entries(section: str, items: object, source: str, where: str) -> list[Entry]:
    if items is None:
        return []
    if not isinstance(items, list):
        raise DefinitionsError(f"{where}'{section}' is not a list")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise DefinitionsError(f"{where}{section}[{index}]: not an object")
    return [Entry(section, index, source, item) for index, item in enumerate(items)]


def _is_single(top: dict[str, Any], entries: list[Entry]) -> bool:
    if top.get("rabbitmq_definition_format") == _SINGLE:
        return True
    if "vhosts" in top:
        return False
    own = ("exchanges", "queues", "bindings")
    return any(each.section in own and "vhost" not in each.fields for each in entries)


def hash_passwords(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, with a hash instead of each password; 50 ms each: not in an event loop.

    Raises:
        DefinitionsError: A password is no text, or a user has a hash as well.
    """
    for entry in entries:
        if entry.section != "users" or "password" not in entry.fields:
            yield entry
            continue
        password = entry.text("password")
        if entry.fields.get("password_hash"):
            raise entry.error("has both 'password' and 'password_hash'")
        made = PasswordHash.of(password.encode()) if password else PasswordHash.quick(b"")
        fields = {key: value for key, value in entry.fields.items() if key != "password"}
        fields["password_hash"] = made.text if password else ""
        fields["hashing_algorithm"] = made.algorithm
        yield replace(entry, fields=fields)
