"""How rows of the mirror are named and sorted in lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.columns import value_at
from amqp_server.management.http.lists import Shape

if TYPE_CHECKING:
    from amqp_server.management.mirror import Row

_RATE: Final = "_details.rate"


def value_of_row(row: Row, path: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value of a row, named with dots, or a counter's rate: `messages_details.rate`."""
    if path.endswith(_RATE):
        return row.rate(path.removesuffix(_RATE))
    return value_at(row.fields, path.split("."))


def name_of_row(row: Row) -> str:
    """Return the name of a row."""
    return str(row.fields.get("name", ""))


def row_shape(
    show: Callable[[Row], dict[str, Any]], order: tuple[str, ...] = ("vhost", "name")
) -> Shape[Row]:
    """Return the shape of a list of rows.

    Args:
        show: Returns a row as the answer has it.
        order: Fields of the list's own order.
    """
    return Shape(show=show, name=name_of_row, value=value_of_row, order=order)
