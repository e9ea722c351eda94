"""The section `vhosts`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.definitions import vhost_document
from amqp_server.broker.parameters import vhost_metadata_document
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.definitions_file.import_report import Outcome
from amqp_server.definitions_file.json_arguments import is_same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan

_METADATA: Final = ("description", "tags", "default_queue_type")
"""Metadata that 3.x writes beside the name, and 4.x in a member of its own."""


class VhostsPart:
    """Virtual hosts with their metadata, which are kept and given back without effect.

    Args:
        broker: Broker that owns them.
    """

    section = "vhosts"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a virtual host; see `Part`."""
        name = entry.short_text("name", may_be_empty=False)
        if not plan.is_first(entry, (name,)):
            return
        metadata = dict(entry.object("metadata"))
        for key in _METADATA:
            value = entry.fields.get(key)
            if value not in (None, "undefined", "", []):
                metadata.setdefault(key, value)
        if entry.fields.get("limits"):
            plan.report.note(
                "vhost limits", Outcome.SKIPPED, f"{entry.place}: limits of vhosts are not served"
            )
        existing = self._broker.vhosts.get(name)
        if existing is None:
            most = self._broker.config.limits.vhosts_max
            plan.count_new(entry, "the server", len(self._broker.vhosts), most)
            plan.new_vhosts.append(name)
            plan.create(entry, partial(_create, name, metadata))
        elif metadata and not is_same(existing.metadata, metadata):
            plan.change(entry, partial(_describe, name, metadata))
        else:
            plan.equal(entry)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the virtual hosts; none in a file of one. See `Part`."""
        if vhost is not None:
            return
        for name, host in list(self._broker.vhosts.items()):
            yield {"name": name, "metadata": host.metadata, "limits": []}


def _create(name: str, metadata: dict[str, Any], changes: ImportChanges) -> None:
    vhost = changes.new_vhosts[name] = VirtualHost(name)
    changes.put(vhost_document(name))
    if metadata:
        vhost.metadata = metadata
        changes.put(vhost_metadata_document(name, metadata))


def _describe(name: str, metadata: dict[str, Any], changes: ImportChanges) -> None:
    vhost = changes.vhost(name)
    changes.put(vhost_metadata_document(name, metadata))
    changes.on_saved.append(partial(setattr, vhost, "metadata", metadata))
