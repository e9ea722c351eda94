"""Field tables and addresses as RabbitMQ's events show them: as texts of Erlang terms.

Its event exchange turns whatever is no plain value into text. So `arguments` is a list of texts
such as `{<<"x-max-length">>,signedint,5}`, and an address is `{127,0,0,1}`.

Source: recorded from RabbitMQ 3.10 with the plugin rabbitmq_event_exchange.
"""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.protocol.field_values import FieldValue

_KINDS: Final = {
    b"t": "bool",
    b"b": "byte",
    b"s": "short",
    b"I": "signedint",
    b"l": "long",
    b"L": "long",
    b"B": "unsignedbyte",
    b"u": "unsignedshort",
    b"i": "unsignedint",
    b"f": "float",
    b"d": "double",
    b"D": "decimal",
    b"S": "longstr",
    b"x": "binary",
    b"T": "timestamp",
    b"A": "array",
    b"F": "table",
    b"V": "void",
}


def table_terms(table: Mapping[str, FieldValue]) -> list[str]:
    """Return the entries of a field table, each as the text of a term."""
    return [_entry(name, value) for name, value in table.items()]


def address_term(host: str) -> str:
    """Return an IP address as the text of a tuple; another text unchanged."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return f"{{{','.join(map(str, address.packed))}}}"
    groups = (int(group, 16) for group in address.exploded.partition("%")[0].split(":"))
    return f"{{{','.join(format(group, 'd') for group in groups)}}}"


def _entry(name: str, value: FieldValue) -> str:
    return f"{{{_binary(name.encode('utf-8', 'surrogateescape'))},{_pair(value)}}}"


def _pair(value: FieldValue) -> str:
    return f"{_KINDS.get(value.kind, 'longstr')},{_data(value)}"


def _data(value: FieldValue) -> str:
    match value.value:
        case None:
            return "undefined"
        case bool() as truth:
            return "true" if truth else "false"
        case bytes() as octets:
            return _binary(octets)
        case dict() as table:
            return f"[{','.join(_entry(name, each) for name, each in table.items())}]"
        case list() as array:
            return f"[{','.join(f'{{{_pair(each)}}}' for each in array)}]"
        case tuple() as decimal:
            return f"{{{','.join(map(str, decimal))}}}"
        case number:
            return str(number)


def _binary(octets: bytes) -> str:
    if not octets:
        return "<<>>"
    # What is printable in Latin-1 is text, which comes out as the octets that went in.
    if all(0x20 <= octet <= 0x7E or octet >= 0xA0 for octet in octets):
        text = octets.decode("utf-8", "surrogateescape")
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    return f"<<{','.join(map(str, octets))}>>"
