"""The section `vhosts`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.definitions import vhost_document
from amqp_server.broker.parameters import vhost_metadata_document
from amqp_server.broker.vhost_limits import InvalidLimitError, VhostLimits
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
    """Virtual hosts with limits, and with metadata, of which only the default queue type counts.

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
        limits = read_limits(entry, entry.fields.get("limits"))
        existing = self._broker.vhosts.get(name)
        if existing is None:
            most = self._broker.config.vhosts_max
            plan.count_new(entry, "the server", len(self._broker.vhosts), most)
            plan.new_vhosts.append(name)
            plan.create(entry, partial(_create, name, metadata))
            if limits.values:
                plan.steps.append(partial(set_limits, name, limits))
            return
        is_equal = True
        if metadata and not is_same(existing.metadata, metadata):
            plan.steps.append(partial(_describe, name, metadata))
            is_equal = False
        if limits.values and limits != existing.limits:
            plan.steps.append(partial(set_limits, name, limits))
            is_equal = False
        plan.report.note(self.section, Outcome.EQUAL if is_equal else Outcome.CHANGED)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the virtual hosts; none in a file of one. See `Part`."""
        if vhost is not None:
            return
        for name, host in list(self._broker.vhosts.items()):
            yield {"name": name, "metadata": host.metadata, "limits": host.limits.values}


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


def read_limits(entry: Entry, value: object) -> VhostLimits:
    """Return limits of an entry: an object, or the pairs that RabbitMQ's own command writes.

    Raises:
        DefinitionsError: There is no such limit, or it cannot have this value.
    """
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        value = {str(name): limit for name, limit in value}
    if not isinstance(value, dict | None):
        raise entry.error(f"limits are {value!r:.100}, expected an object")
    try:
        return VhostLimits.of(value or {})
    except InvalidLimitError as error:
        raise entry.error(error) from error


def set_limits(name: str, limits: VhostLimits, changes: ImportChanges) -> None:
    """Set the limits of a virtual host: a step of an import."""
    vhost = changes.vhost(name)
    changes.put(limits.document(name))
    changes.on_saved.append(partial(setattr, vhost, "limits", limits))
