"""pamqp, an independent codec, reads what we write and writes what we read."""

import datetime
from decimal import Decimal
from typing import Any
from unittest import mock

import pamqp.base
import pamqp.commands
import pamqp.decode
import pamqp.encode
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_server.protocol.methods import METHODS, Method, decode_method, method_frame
from amqp_server.protocol.methods.codec import ArgumentType
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.tables import (
    DecimalValue,
    FieldValue,
    Table,
    decode_table,
    encode_table,
)
from tests.protocol.strategies import argument_types, arguments, integer_values, methods_of

KNOWN_TO_PAMQP = [
    cls for ids, cls in METHODS.items() if ids[0] << 16 | ids[1] in pamqp.commands.INDEX_MAPPING
]
# There are 64 methods: a share of the profile's examples for each will do.
EXAMPLES_PER_METHOD = max(settings().max_examples // 5, 10)
# It takes greater ones for milliseconds.
SECONDS_OF_A_DATETIME = st.integers(0, 2**32 - 1)

# pamqp makes text of long strings that are UTF-8 and datetimes of timestamps; it writes every float
# with 32 bits.
texts = st.text(max_size=20)
field_values = st.recursive(
    integer_values
    | st.booleans().map(lambda flag: FieldValue(b"t", flag))
    | st.builds(FieldValue, st.sampled_from([b"f", b"d"]), st.floats(width=32, allow_nan=False))
    | texts.map(lambda text: FieldValue(b"S", text.encode()))
    | st.binary(max_size=20).map(lambda raw: FieldValue(b"x", raw))
    | SECONDS_OF_A_DATETIME.map(lambda seconds: FieldValue(b"T", seconds))
    | st.builds(DecimalValue, st.integers(0, 9), st.integers(0, 2**31 - 1)).map(
        lambda number: FieldValue(b"D", number)
    )
    | st.just(FieldValue(b"V", None)),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: FieldValue(b"A", items))
        | st.dictionaries(texts, inner, max_size=4).map(lambda table: FieldValue(b"F", table))
    ),
    max_leaves=10,
)
tables: st.SearchStrategy[Table] = st.dictionaries(texts, field_values, max_size=5)
of_type = arguments | {
    # pamqp takes delivery tags for signed numbers.
    ArgumentType.LONGLONG: st.integers(0, 2**63 - 1),
    ArgumentType.SHORTSTR: texts,
    ArgumentType.LONGSTR: texts.map(str.encode),
    ArgumentType.TABLE: tables,
}
property_values: dict[str, st.SearchStrategy[Any]] = {
    name: st.none() | texts.filter(bool)
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
} | {
    "headers": st.none() | tables.filter(bool),
    "delivery_mode": st.none() | st.integers(1, 2),
    "priority": st.none() | st.integers(1, 255),
    "timestamp": st.none() | SECONDS_OF_A_DATETIME,
}


def as_pamqp(value: Any) -> Any:  # noqa: ANN401 - as loose as its values
    """Return one of our values in the form that pamqp gives it."""
    match value:
        case FieldValue(b"S", bytes(raw)):
            return raw.decode()
        case FieldValue(b"T", int(seconds)):
            return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        case FieldValue(b"D", DecimalValue(scale, unscaled)):
            return Decimal(unscaled).scaleb(-scale)
        case FieldValue(b"x", bytes(raw)):
            return bytearray(raw)
        case FieldValue(_, list(items)):
            return [as_pamqp(item) for item in items]
        case FieldValue(_, dict(entries)):
            return as_pamqp(entries)
        case FieldValue(_, plain):
            return plain
        case dict():
            return {key: as_pamqp(item) for key, item in value.items()}
        case bytes():
            return value.decode()
        case _:
            return value


def pamqp_class(method_class: type[Method]) -> type[pamqp.base.Frame]:
    index = method_class.class_id << 16 | method_class.method_id
    found: type[pamqp.base.Frame] = pamqp.commands.INDEX_MAPPING[index]
    return found


def arguments_of(method: Method) -> list[Any]:
    return [getattr(method, name) for name in argument_types(type(method))]


def test_pamqp_knows_every_method_but_those_of_class_access() -> None:
    assert {cls.class_id for cls in METHODS.values() if cls not in KNOWN_TO_PAMQP} == {30}
    assert len(KNOWN_TO_PAMQP) == len(pamqp.commands.INDEX_MAPPING)


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@pytest.mark.parametrize("method_class", KNOWN_TO_PAMQP, ids=lambda cls: cls.name)
@settings(max_examples=EXAMPLES_PER_METHOD)
@given(data=st.data())
def test_pamqp_reads_the_frames_that_we_write(
    method_class: type[Method], data: st.DataObject
) -> None:
    method = data.draw(methods_of(method_class, of_type))
    frame = method_frame(7, method)
    consumed, channel, read = pamqp.frame.unmarshal(frame)
    assert (consumed, channel) == (len(frame), 7)
    assert isinstance(read, pamqp_class(method_class))
    assert [value for _, value in read] == [as_pamqp(value) for value in arguments_of(method)]


@pytest.mark.parametrize("method_class", KNOWN_TO_PAMQP, ids=lambda cls: cls.name)
@settings(max_examples=EXAMPLES_PER_METHOD)
@given(data=st.data())
def test_we_read_the_frames_that_pamqp_writes(
    method_class: type[Method], data: st.DataObject
) -> None:
    method = data.draw(methods_of(method_class, of_type))
    theirs = pamqp_class(method_class)
    written = theirs.__new__(theirs)
    for name, value in zip(theirs.attributes(), arguments_of(method), strict=True):
        setattr(written, name, as_pamqp(value))
    # Its own limits on names are stricter than the wire's.
    with mock.patch.object(theirs, "validate", return_value=None):
        payload = pamqp.frame.marshal(written, 7)[7:-1]
    read = decode_method(payload)
    assert type(read) is method_class
    assert [as_pamqp(value) for value in arguments_of(read)] == [
        as_pamqp(value) for value in arguments_of(method)
    ]


@given(tables)
def test_pamqp_reads_the_tables_that_we_write(table: Table) -> None:
    data = encode_table(table)
    assert pamqp.decode.field_table(data) == (len(data), as_pamqp(table))


@given(tables)
def test_we_read_the_tables_that_pamqp_writes(table: Table) -> None:
    data = pamqp.encode.field_table(as_pamqp(table))
    read, position = decode_table(data)
    assert position == len(data)
    assert as_pamqp(read) == as_pamqp(table)


def pamqp_property(name: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - of any type
    """Return the name and the value that pamqp has for one of our properties."""
    if name == "timestamp" and value is not None:
        return name, as_pamqp(FieldValue(b"T", value))
    return "message_type" if name == "type" else name, as_pamqp(value)


@given(st.fixed_dictionaries(property_values))
def test_pamqp_reads_the_properties_that_we_write(values: dict[str, Any]) -> None:
    read = pamqp.header.ContentHeader()
    read.unmarshal(b"\x00\x3c\x00\x00" + bytes(8) + Properties(**values).encode())
    for name, value in values.items():
        their_name, their_value = pamqp_property(name, value)
        # An absent cluster_id is an empty one to pamqp.
        assert (getattr(read.properties, their_name) or None) == their_value, name


@given(st.fixed_dictionaries(property_values))
def test_we_read_the_properties_that_pamqp_writes(values: dict[str, Any]) -> None:
    theirs = pamqp.commands.Basic.Properties()
    for name, value in values.items():
        setattr(theirs, *pamqp_property(name, value))
    with mock.patch.object(pamqp.commands.Basic.Properties, "validate", return_value=None):
        read = decode_properties(pamqp.header.ContentHeader(properties=theirs).marshal()[12:])
    for name, value in values.items():
        assert pamqp_property(name, getattr(read, name)) == pamqp_property(name, value), name
