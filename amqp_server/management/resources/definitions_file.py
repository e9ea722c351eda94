"""A definitions file that a client has sent: its entries, in the order of their import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""Sections in the order of their import; others are ignored."""
_NOT_OF_VHOST: Final = ("vhosts", "users", "permissions", "topic_permissions", "global_parameters")
"""Sections that are ignored in an import into one virtual host."""
_OWN: Final = ("exchanges", "queues", "bindings")


class NoDefinitionsError(Exception):
    """The octets are no definitions file; the text is empty if they are no JSON object."""


@dataclass(slots=True)
class DefinitionsFile:
    """What a file contains.

    Attributes:
        sections: Entries by section, unchecked.
        rabbit_version: Version of RabbitMQ that wrote it; empty if it does not say.
        is_single_vhost: Whether it holds the definitions of one virtual host, without its name.
    """

    sections: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rabbit_version: str = ""
    is_single_vhost: bool = False

    def lines(self, *, for_vhost: bool) -> Iterator[str]:
        """Yield the entries as the broker reads them, one a line.

        Args:
            for_vhost: Whether they go into one virtual host.
        """
        for section in SECTIONS:
            if for_vhost and section in _NOT_OF_VHOST:
                continue
            for index, entry in enumerate(self.sections.get(section, ())):
                line = orjson.dumps([section, index, "", entry], option=orjson.OPT_APPEND_NEWLINE)
                yield line.decode()


def parse_file(content: bytes) -> DefinitionsFile:
    """Return the content of a definitions file.

    Raises:
        NoDefinitionsError: It is none.
    """
    try:
        top = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise NoDefinitionsError from error
    if not isinstance(top, dict):
        raise NoDefinitionsError
    found = DefinitionsFile()
    for section in SECTIONS:
        entries = top.get(section)
        if entries is None:
            continue
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise NoDefinitionsError(f"'{section}' is not a list of objects")
        found.sections[section] = entries
    for name in ("rabbit_version", "rabbitmq_version"):
        if isinstance(top.get(name), str):
            found.rabbit_version = top[name]
            break
    found.is_single_vhost = top.get("rabbitmq_definition_format") == "single_virtual_host" or (
        "vhosts" not in top
        and any("vhost" not in each for name in _OWN for each in found.sections.get(name, ()))
    )
    return found
