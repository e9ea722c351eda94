"""Deaths of messages: why a message leaves its queue unacknowledged, and the deaths it has had.

The header `x-death` has one table for each queue and reason. The tables stay octets here, because a
long history is not decoded at each death: a message that has come through 300 queues has 300
tables. All but the newest were in it at its last death too, and messages that die together have the
same. So a table is decoded when it is first met, and afterwards only compared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.property_octets import HEADERS, find_property, replace_property
from amqp_server.protocol.tables import decode_table, encode_table, take_array
from appendlog.layout.message_properties import headers_table

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldValue, Table

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"

X_DEATH: Final = "x-death"
"""Header of a dead letter: one table for each queue and reason that it has left."""


_REMEMBERED: Final = 1024
"""Tables that are remembered; with their octets and names they take a MB or two at most."""
_REMEMBERED_BYTES_MAX: Final = 512
_DEPTH: Final = 3
"""Level of such a table: the headers are the first, and the array the second."""
_TABLE: Final = b"F"


class KnownDeath(NamedTuple):
    """One table of `x-death`.

    Attributes:
        octets: The table, with its length in front.
        queue: Its field `queue`; None if it has none.
        reason: Its field `reason`; None if it has none.
    """

    octets: bytes
    queue: FieldValue | None
    reason: FieldValue | None

    @property
    def table(self) -> Table:
        """The decoded table."""
        return decode_table(self.octets)[0]


def known_death(table: Table) -> KnownDeath:
    """Return a decoded table as octets.

    Raises:
        FieldSyntaxError: A value does not fit its kind.
    """
    return KnownDeath(encode_table(table, _DEPTH), table.get("queue"), table.get("reason"))


def take_deaths(properties: bytes) -> tuple[bytes, list[KnownDeath] | None]:
    """Take the deaths out of a message's properties.

    Args:
        properties: Properties as on the wire, and as the scanner accepts them.

    Returns:
        The properties with a void value in the place of the deaths, and the deaths, the latest
        first; None if the header is missing or no list. What is no table is left out.

    Raises:
        FieldSyntaxError: The headers are malformed.
    """
    if headers_table(properties) is None:
        return properties, None
    start, end = find_property(properties, HEADERS)
    rest, items = take_array(properties[start:end], X_DEATH)
    if items is None:
        return properties, None
    deaths = [_decoded(item[1:]) for item in items if item[:1] == _TABLE]
    return replace_property(properties, HEADERS, rest), deaths


def _decoded(octets: bytes) -> KnownDeath:
    if len(octets) > _REMEMBERED_BYTES_MAX:
        return _decode(octets)
    return _remembered(octets)


def _decode(octets: bytes) -> KnownDeath:
    table, end = decode_table(octets, depth=_DEPTH)
    if end != len(octets):
        raise FieldSyntaxError("bytes after a table of x-death")
    return known_death(table)


_remembered = lru_cache(maxsize=_REMEMBERED)(_decode)
