"""One section of a definitions file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_plan import ImportPlan


class Part(Protocol):
    """Checks and writes the entries of one section.

    Attributes:
        section: Name of the section.
    """

    @property
    def section(self) -> str:
        """Name of the section."""

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check an entry, and plan what becomes of it. Changes nothing on the server.

        Raises:
            DefinitionsError: The entry is not valid.
        """

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the entries of everything that the server has.

        Objects may be created and removed between two steps.

        Args:
            vhost: Virtual host whose entries are wanted; None: all.
        """


def in_vhost(vhost: str | None, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the virtual host; without it in a file of one virtual host.

    Args:
        vhost: Virtual host that is exported; None: all.
        name: Virtual host of the entry.
        fields: The other members.
    """
    return fields if vhost is not None else {"vhost": name, **fields}
