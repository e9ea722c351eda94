"""Hypothesis strategies for everything that can stand in a method or a content header."""

import struct
from dataclasses import fields
from typing import Any, get_type_hints

from hypothesis import strategies as st

from amqp_server.protocol.field_values import VOID, DecimalValue, FieldValue, Table
from amqp_server.protocol.methods import METHODS, Method
from amqp_server.protocol.methods.codec import ArgumentType
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.tables import decode_table

wire_texts = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
"""Every short string there can be, UTF-8 or not."""

octets = st.integers(0, 2**8 - 1)
timestamps = st.integers(0, 2**64 - 1)


def _integers(kind: bytes, bits: int, *, signed: bool) -> st.SearchStrategy[FieldValue]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high).map(lambda number: FieldValue(kind, number))


def _from_wire(kind: bytes, width: int) -> st.SearchStrategy[FieldValue]:
    """Make floats from their bytes, so that every NaN occurs."""

    def decode(raw: bytes) -> FieldValue:
        return decode_table(struct.pack(">I", width + 2) + b"\x00" + kind + raw)[0][""]

    return st.binary(min_size=width, max_size=width).map(decode)


integer_values = (
    _integers(b"b", 8, signed=True)
    | _integers(b"B", 8, signed=False)
    | _integers(b"s", 16, signed=True)
    | _integers(b"u", 16, signed=False)
    | _integers(b"I", 32, signed=True)
    | _integers(b"i", 32, signed=False)
    | _integers(b"l", 64, signed=True)
    | _integers(b"L", 64, signed=True)
)
scalar_values = (
    integer_values
    | _integers(b"T", 64, signed=False)
    | st.booleans().map(lambda flag: FieldValue(b"t", flag))
    | _from_wire(b"f", 4)
    | _from_wire(b"d", 8)
    | st.builds(DecimalValue, octets, st.integers(-(2**31), 2**31 - 1)).map(
        lambda number: FieldValue(b"D", number)
    )
    | st.binary(max_size=20).map(lambda raw: FieldValue(b"S", raw))
    | st.binary(max_size=20).map(lambda raw: FieldValue(b"x", raw))
    | st.just(VOID)
)
keys = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def _containers(inner: st.SearchStrategy[FieldValue]) -> st.SearchStrategy[FieldValue]:
    return st.lists(inner, max_size=4).map(lambda items: FieldValue(b"A", items)) | (
        st.dictionaries(keys, inner, max_size=4).map(lambda table: FieldValue(b"F", table))
    )


field_values = st.recursive(scalar_values, _containers, max_leaves=12)
tables: st.SearchStrategy[Table] = st.dictionaries(keys, field_values, max_size=5)

arguments: dict[ArgumentType, st.SearchStrategy[Any]] = {
    ArgumentType.OCTET: octets,
    ArgumentType.SHORT: st.integers(0, 2**16 - 1),
    ArgumentType.LONG: st.integers(0, 2**32 - 1),
    ArgumentType.LONGLONG: st.integers(0, 2**64 - 1),
    ArgumentType.BIT: st.booleans(),
    ArgumentType.SHORTSTR: wire_texts,
    ArgumentType.LONGSTR: st.binary(max_size=300),
    ArgumentType.TABLE: tables,
}


def argument_types(method_class: type[Any]) -> dict[str, ArgumentType]:
    """Return the type of each argument of a method, in the order of the wire."""
    hints = get_type_hints(method_class, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(method_class)}


def methods_of(
    method_class: type[Method], of_type: dict[ArgumentType, st.SearchStrategy[Any]] = arguments
) -> st.SearchStrategy[Method]:
    """Build methods of one class with all their arguments chosen."""
    chosen = {name: of_type[kind] for name, kind in argument_types(method_class).items()}
    return st.builds(method_class, **chosen)


methods = st.sampled_from(list(METHODS.values())).flatmap(methods_of)

properties = st.builds(
    Properties,
    headers=st.none() | tables,
    delivery_mode=st.none() | octets,
    priority=st.none() | octets,
    timestamp=st.none() | timestamps,
    **{
        name: st.none() | wire_texts
        for name in (
            "content_type",
            "content_encoding",
            "correlation_id",
            "reply_to",
            "expiration",
            "message_id",
            "type",
            "user_id",
            "app_id",
            "cluster_id",
        )
    },
)
