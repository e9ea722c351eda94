"""Filter of the messages that a stream's consumer wants, by a header that publishers set.

Source: RabbitMQ 3.13, stream filtering. There the broker skips chunks by a Bloom filter, and
clients filter again; here the broker examines each message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

FILTER: Final = "x-stream-filter"
"""Consumer argument: the wanted values, as a string or an array of strings."""
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"
"""Consumer argument: whether messages without a value are wanted as well."""


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Filter of one consumer.

    Attributes:
        values: Accepted values of the header `x-stream-filter-value`.
        match_unfiltered: Whether messages without that header match too.
    """

    values: frozenset[bytes]
    match_unfiltered: bool


def parse_filter(arguments: Table) -> StreamFilter | None:
    """Return the filter in the checked arguments of a consumer; None for every message.

    Values of other types are ignored, as in RabbitMQ: an argument that is neither a string nor an
    array is no filter, and an array without strings matches no value.
    """
    asked = arguments.get(FILTER)
    if asked is None:
        return None
    if isinstance(asked.value, list):
        listed = asked.value
    elif asked.kind == b"S":
        listed = [asked]
    else:
        return None
    unfiltered = arguments.get(MATCH_UNFILTERED)
    return StreamFilter(
        frozenset(
            each.value for each in listed if each.kind == b"S" and isinstance(each.value, bytes)
        ),
        unfiltered is not None and unfiltered.value is True,
    )
