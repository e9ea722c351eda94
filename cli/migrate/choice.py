"""Choice of the source's virtual hosts and queues that are moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from amqp_server.definitions_file.entry import Entry

SHOVEL: Final = "shovel"
"""Component of the parameters that are shovels. They are not taken over: this server would run
them beside the source, and move its messages a second time."""
_INTERNAL: Final = "internal"
"""Prefix of the parameters that belong to the server that wrote them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The options `--vhost`, `--queue` and `--exclude`.

    Attributes:
        vhosts: Virtual hosts; empty: all.
        wanted: Pattern that is searched in names of queues; None: all queues.
        unwanted: Pattern of queues that are left out; None: none.
    """

    vhosts: frozenset[str]
    wanted: re.Pattern[str] | None
    unwanted: re.Pattern[str] | None

    def has_vhost(self, vhost: object) -> bool:
        """Return whether a virtual host is moved."""
        return not self.vhosts or vhost in self.vhosts

    def has_queue(self, vhost: object, name: object) -> bool:
        """Return whether a queue is moved."""
        if not self.has_vhost(vhost) or not isinstance(name, str):
            return False
        if self.wanted is not None and self.wanted.search(name) is None:
            return False
        return self.unwanted is None or self.unwanted.search(name) is None

    def entries(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries of a definitions file that are taken over, in their order.

        Of chosen virtual hosts come the users that have permissions there, and no parameters of
        the whole server. What has no name stays in: this server refuses it, and says so.
        """
        given = list(entries)
        users = {
            each.fields.get("user")
            for each in given
            if each.section == "permissions" and self.has_vhost(each.fields.get("vhost"))
        }
        return [each for each in given if self._has(each, users)]

    def _has(self, entry: Entry, users: set[object]) -> bool:
        fields = entry.fields
        vhost = fields.get("vhost")
        match entry.section:
            case "vhosts":
                return self.has_vhost(fields.get("name"))
            case "users":
                return not self.vhosts or fields.get("name") in users
            case "global_parameters":
                return not self.vhosts and not str(fields.get("name")).startswith(_INTERNAL)
            case "queues" if isinstance(fields.get("name"), str):
                return self.has_queue(vhost, fields["name"])
            case "bindings":
                is_of_queue = fields.get("destination_type") == "queue"
                return self.has_vhost(vhost) and (
                    not is_of_queue or self.has_queue(vhost, fields.get("destination"))
                )
            case "parameters" if fields.get("component") == SHOVEL:
                return False
        return self.has_vhost(vhost)
