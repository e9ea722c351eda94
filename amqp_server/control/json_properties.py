"""The properties of a message as RabbitMQ's HTTP API has them: a JSON object.

Source: RabbitMQ, `rabbit_mgmt_format` (`to_basic_properties`, `basic_properties`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from amqp_server.control.field_tables import field_table
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.definitions_file.json_arguments import plain_from_table
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.readable_headers import readable_properties

_NAMES: Final = tuple(each.name for each in dataclasses.fields(Properties))
_NUMBERS: Final = {"delivery_mode": 1 << 8, "priority": 1 << 8, "timestamp": 1 << 64}
"""Properties that are numbers, and the first number that does not fit."""


def properties_from_json(values: dict[str, Any]) -> Properties:
    """Return the properties in a JSON object; unknown members are ignored.

    Raises:
        ControlError: A value is of another type, or out of range.
    """
    found: dict[str, Any] = {}
    for name in _NAMES:
        if name not in values:
            continue
        value = values[name]
        if name == "headers":
            # PHP's empty table is an array.
            if not isinstance(value, dict) and value != []:
                raise _invalid(name, "an object", "not_table")
            found[name] = field_table(value or {})
        elif name in _NUMBERS:
            if type(value) is not int:
                raise _invalid(name, "a whole number", "not_int")
            if not 0 <= value < _NUMBERS[name]:
                raise _invalid(name, f"from 0 to {_NUMBERS[name] - 1}", "out_of_range")
            found[name] = value
        else:
            if not isinstance(value, str):
                raise _invalid(name, "a text", "not_string")
            if len(value.encode("utf-8", "surrogatepass")) > 255:
                raise _invalid(name, "at most 255 bytes long", "too_long")
            found[name] = value
    return Properties(**found)


def properties_to_json(octets: bytes) -> dict[str, Any]:
    """Return the properties of a stored message, as far as they can be decoded."""
    try:
        properties = readable_properties(octets)
    except AmqpError:
        return {}
    shown: dict[str, Any] = {}
    for name in _NAMES:
        value = getattr(properties, name)
        if isinstance(value, dict):
            shown[name] = plain_from_table(value)
        elif isinstance(value, str):
            shown[name] = value.encode("utf-8", "surrogateescape").decode(errors="replace")
        elif value is not None:
            shown[name] = value
    return shown


def _invalid(name: str, expected: str, fault: str) -> ControlError:
    reason = f"the property '{name}' must be {expected}"
    return ControlError(ErrorKind.INVALID_ARGUMENT, reason, {"fault": fault, "property": name})
