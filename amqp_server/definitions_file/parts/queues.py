"""The section `queues`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.broker.declaring.names import check_queue_name_is_free, is_reserved
from amqp_server.broker.declaring.object_limits import queues_max
from amqp_server.broker.declaring.queue_arguments import check_queue_arguments
from amqp_server.broker.definitions import queue_document
from amqp_server.definitions_file.errors import ImportFailedError
from amqp_server.definitions_file.json_arguments import is_same, plain_from_table
from amqp_server.definitions_file.parts.part import in_vhost
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.methods import QueueDeclare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan

_TYPE = "x-queue-type"
_CLASSIC = "classic"


class QueuesPart:
    """Queues; those that exist stay as they are, and exclusive ones are not exported.

    Args:
        broker: Broker that owns them.
    """

    section = "queues"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a queue; see `Part`."""
        vhost = plan.vhost_of(entry)
        name = entry.short_text("name", may_be_empty=False)
        if not plan.is_first(entry, (vhost.name, name), stays=True):
            return
        if is_reserved(name):
            plan.skip(entry, (vhost.name, name), f"queue '{name}' belongs to a server")
            return
        declare = _declare(entry, vhost.name, name)
        if vhost.existing is not None:
            existing = vhost.existing.queues.get(name)
            if existing is not None:
                _compare(entry, plan, vhost.name, existing, declare)
                return
            try:
                check_queue_name_is_free(vhost.existing, name, is_saved=declare.durable)
            except AmqpError as error:
                raise entry.error(error.args[0]) from error
        count, most = 0, self._broker.config.limits.queues_max
        if vhost.existing is not None:
            # As in RabbitMQ the limit that counts is the present one, not that of the file.
            count = len(vhost.existing.queues)
            most = queues_max(vhost.existing, most)
        plan.count_new(entry, f"vhost '{vhost.name}'", count, most)
        plan.create(entry, partial(_create, vhost.name, declare))

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the queues but for exclusive ones; see `Part`."""
        for name, host in list(self._broker.vhosts.items()):
            if vhost not in (None, name):
                continue
            for queue in list(host.queues.values()):
                if queue.exclusive_owner is not None or queue.is_deleted:
                    continue
                fields = {
                    "name": queue.name,
                    "type": queue.settings.type.value,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": plain_from_table(queue.arguments),
                }
                yield in_vhost(vhost, name, fields)


def _declare(entry: Entry, vhost: str, name: str) -> QueueDeclare:
    """Return the declare that would create the queue, checked.

    Raises:
        DefinitionsError: No client could declare it.
    """
    arguments = entry.arguments()
    kind = entry.text("type", _CLASSIC)
    if kind not in ("default", _CLASSIC, "undefined") and _TYPE not in arguments:
        arguments[_TYPE] = FieldValue(b"S", kind.encode())
    declare = QueueDeclare(
        queue=name,
        durable=entry.flag("durable", default=True),
        auto_delete=entry.flag("auto_delete", default=False),
        arguments=arguments,
    )
    try:
        check_queue_arguments(name, vhost, declare)
    except AmqpError as error:
        raise entry.error(error.args[0]) from error
    return declare


def _compare(
    entry: Entry, plan: ImportPlan, vhost: str, existing: Queue, wanted: QueueDeclare
) -> None:
    has = {
        "exclusive": existing.exclusive_owner is not None,
        "durable": existing.durable,
        "auto_delete": existing.auto_delete,
        "arguments": _arguments(plain_from_table(existing.arguments)),
    }
    asks = {
        "exclusive": False,
        "durable": wanted.durable,
        "auto_delete": wanted.auto_delete,
        "arguments": _arguments(plain_from_table(wanted.arguments)),
    }
    for name in has:
        if not is_same(has[name], asks[name]):
            plan.different(
                entry,
                f"queue '{existing.name}' in vhost '{vhost}' has {name} {has[name]!r:.200}, "
                f"the file {asks[name]!r:.200}",
            )
            return
    plan.equal(entry)


def _arguments(plain: dict[str, Any]) -> dict[str, Any]:
    """Return arguments to compare: a queue without a type is a classic one."""
    return {_TYPE: _CLASSIC, **plain}


def _create(vhost_name: str, declare: QueueDeclare, changes: ImportChanges) -> None:
    vhost = changes.vhost(vhost_name)
    name = declare.queue
    if name in vhost.queues:
        # A client has declared it since; what exists stays as it is.
        return
    if name in vhost.deletions.queues:
        raise ImportFailedError(f"queue '{name}' is being deleted: try again")
    queue = changes.broker.create_queue(
        vhost,
        name,
        durable=declare.durable,
        exclusive_owner=None,
        auto_delete=declare.auto_delete,
        arguments=declare.arguments,
    )
    changes.add(vhost, queue, queue_document(queue) if queue.is_journaled else None)
