"""Names, keys and arguments of a request, as AMQP's methods carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.definitions_file.json_arguments import table_from_plain
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

SHORT_TEXT_BYTES_MAX: Final = 255
"""Longest name, key or type: AMQP carries it as a short string."""
TABLE_BYTES_MAX: Final = 64 * 1024
"""Largest table of arguments; a client's has to fit in one frame."""


def checked_name(argument: str, text: str) -> str:
    """Return a name, key or type that AMQP can carry.

    Args:
        argument: Name of the argument, for the error.
        text: Its value.

    Raises:
        ControlError: It is too long, or no UTF-8.
    """
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        raise _invalid(f"'{argument}' is not UTF-8") from None
    if len(octets) > SHORT_TEXT_BYTES_MAX:
        raise _invalid(
            f"'{argument}' has {len(octets)} bytes, at most {SHORT_TEXT_BYTES_MAX} are allowed"
        )
    return text


def field_table(arguments: dict[str, Any]) -> Table:
    """Return JSON values as a field table; an integer becomes a field of 64 bits.

    Raises:
        ControlError: AMQP cannot carry them, or they are too large.
    """
    try:
        table = table_from_plain(arguments)
        size = len(encode_table(table))
    except (AmqpError, OverflowError, ValueError) as error:
        raise _invalid(f"arguments: {error}") from error
    if size > TABLE_BYTES_MAX:
        raise _invalid(f"arguments: {size} bytes, at most {TABLE_BYTES_MAX} are allowed")
    return table


def _invalid(reason: str) -> ControlError:
    return ControlError(ErrorKind.INVALID_ARGUMENT, reason)
