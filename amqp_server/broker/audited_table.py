"""Arguments of queues, exchanges and bindings, as the audit log shows them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from amqp_server.audit.entry import DEPTH_MAX, ITEMS_MAX

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldData, Table


def audited_table(table: Table) -> dict[str, object]:
    """Return a table without the kinds of its values; of a large one only the first entries."""
    return _table(table, DEPTH_MAX)


def _table(table: Table, depth: int) -> dict[str, object]:
    entries = islice(table.items(), ITEMS_MAX)
    return {name: _value(each.value, depth - 1) for name, each in entries}


def _value(value: FieldData, depth: int) -> object:
    match value:
        case dict():
            return _table(value, depth) if depth else "..."
        case list():
            return [_value(each.value, depth - 1) for each in value[:ITEMS_MAX]] if depth else "..."
    return value
