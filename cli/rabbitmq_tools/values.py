"""Values as RabbitMQ's tools write them: Erlang's atoms, tables of arguments, process ids."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INT_32_MAX = 2**31 - 1


class Atom(str):
    """A word that Erlang writes without quotes."""

    __slots__ = ()


class Pid(str):
    """Name of a connection, channel or queue, in the form of Erlang's process ids."""

    __slots__ = ()


class Table:
    """Arguments: names with values.

    Args:
        entries: The values by name.
    """

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries = entries


class Pairs(dict[str, object]):
    """An object of which Erlang makes pairs of an atom and a value."""


def text(value: object) -> str:
    """Return a value as a cell of a list."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Table):
        return _inner(value) if value.entries else "[]"
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _inner(value: object) -> str:
    """Return a value inside a table."""
    if isinstance(value, Table):
        pairs = [f'{{"{name}",{_inner(each)}}}' for name, each in value.entries.items()]
        return "[" + ",".join(pairs) + "]"
    if isinstance(value, dict):
        return _inner(Table(value))
    if isinstance(value, list):
        return "[" + ",".join(map(_inner, value)) + "]"
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)


def plain(value: object) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, Table):
        return [[name, _kind(each), plain(_table(each))] for name, each in value.entries.items()]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def as_json(value: object) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)


def erlang(value: object) -> str:
    """Return a value as Erlang writes a term."""
    if isinstance(value, Table):
        entries = [
            f"{{<<{_quoted(name)}>>,{_kind(each)},{erlang(_table(each))}}}"
            for name, each in value.entries.items()
        ]
        return "[" + ",".join(entries) + "]"
    if isinstance(value, dict):
        return "[" + ",".join(f"{{{name},{erlang(each)}}}" for name, each in value.items()) + "]"
    if isinstance(value, list):
        return "[" + ",".join(map(erlang, value)) + "]"
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Atom | Pid):
        return str(value)
    if isinstance(value, str):
        return f"<<{_quoted(value)}>>"
    return str(value)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"' + ("" if value.isascii() else "/utf8")


def _table(value: object) -> object:
    return Table(value) if isinstance(value, dict) else value


def _kind(value: object) -> str:
    """Return the type of an argument in RabbitMQ's words, the shortest that holds the value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -INT_32_MAX - 1 <= value <= INT_32_MAX else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict | Table):
        return "table"
    return "void" if value is None else "longstr"
