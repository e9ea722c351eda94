"""Headers as ordinary Python values, without the kinds that they have on the wire."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from amqp_server.protocol.field_values import DecimalValue

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table


def plain_table(table: Table) -> dict[str, Any]:
    """Return a table as a dict.

    Texts become str, those that are not UTF-8 bytes; times become seconds since 1970.
    """
    return {name: _plain(field.kind, field.value) for name, field in table.items()}


def _plain(kind: bytes, value: Any) -> Any:  # noqa: ANN401 - as the kind says
    if kind == b"F":
        return plain_table(value)
    if kind == b"A":
        return [_plain(each.kind, each.value) for each in value]
    if isinstance(value, DecimalValue):
        return Decimal(value.unscaled).scaleb(-value.scale)
    if kind == b"S":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
