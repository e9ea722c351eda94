"""Checks of the values in definitions, when a definition is loaded and not when it is used.

A value that no client could have declared is damage, or an operator's mistake. Found later, where
it is used, it would end a start with a traceback.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from amqp_server.broker.declaring.queue_arguments import check_queue_arguments
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.methods import QueueDeclare
from amqp_server.protocol.table_json import table_from_json
from metadata.names import is_incarnation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amqp_server.protocol.tables import Table

_Value = TypeVar("_Value")


class InvalidDefinitionError(Exception):
    """A document holds a value that is not valid there; the text says which."""


@contextmanager
def invalid_definitions() -> Iterator[None]:
    """Turn the AMQP error of a value into `InvalidDefinitionError` with the same text."""
    try:
        yield
    except AmqpError as error:
        raise InvalidDefinitionError(error.args[0]) from error


def value_of(body: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value:
    """Return one value of a document's body.

    Raises:
        InvalidDefinitionError: The value is missing, or of another type.
    """
    value = body.get(name)
    if type(value) is not kind:
        found = "missing" if name not in body else repr(value)
        raise InvalidDefinitionError(f"'{name}' is {found}, expected a {_JSON_TYPES[kind]}")
    return value


def incarnation_of(body: Mapping[str, Any]) -> str:
    """Return the incarnation in a document's body: the text of a UUID.

    Raises:
        InvalidDefinitionError: It is missing, or not a UUID in canonical spelling.
    """
    text = value_of(body, "incarnation", str)
    # Another spelling would lead to another directory of the log.
    if not is_incarnation(text):
        raise InvalidDefinitionError(f"'incarnation' is {text!r}, expected a UUID")
    return text


def arguments_of(body: Mapping[str, Any]) -> Table:
    """Return the arguments in a document's body.

    Raises:
        InvalidDefinitionError: They are missing, or not a field table.
    """
    try:
        return table_from_json(value_of(body, "arguments", dict))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidDefinitionError(f"'arguments': {error}") from error


def check_queue_values(vhost: str, name: str, arguments: Table, *, auto_delete: bool) -> None:
    """Check that a client could declare a durable queue with these values.

    Raises:
        InvalidDefinitionError: No client could.
    """
    declare = QueueDeclare(queue=name, durable=True, auto_delete=auto_delete, arguments=arguments)
    with invalid_definitions():
        check_queue_arguments(name, vhost, declare)


_JSON_TYPES = {str: "string", bool: "boolean", dict: "object", int: "number"}
