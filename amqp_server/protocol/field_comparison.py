"""Compares field values as RabbitMQ does, and formats them for its error texts.

Source: RabbitMQ's behaviour when a queue is declared again. Integers of any width are one class of
types, floats another; texts say `the value '1' of type 'long'`.
"""

from math import isnan
from struct import pack

from amqp_server.protocol.field_values import DecimalValue, FieldData, FieldValue

_TYPE_NAMES = {
    b"t": "bool",
    b"b": "byte",
    b"B": "unsignedbyte",
    b"s": "short",
    b"u": "unsignedshort",
    b"I": "signedint",
    b"i": "unsignedint",
    b"l": "long",
    b"L": "long",
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
INTEGER_KINDS = frozenset((b"b", b"B", b"s", b"u", b"I", b"i", b"l", b"L"))
"""Kinds that RabbitMQ treats as an integer, of any width."""
_TYPE_CLASSES = dict.fromkeys(INTEGER_KINDS, "integer") | {
    b"f": "float",
    b"d": "float",
    b"S": "octets",
    b"x": "octets",
}
_PRINTABLE = range(0x20, 0x7F)


def same_value(one: FieldValue, other: FieldValue) -> bool:
    """Return whether two values are equal as RabbitMQ compares arguments.

    Integers of any width are equal by value, and so are floats, but 10 is not 10.0. Strings and
    byte arrays are equal octet for octet. All other values, and all values inside arrays and
    tables, must also have the same kind. A NaN equals a NaN with the same bits, so that a
    declaration with it can be repeated.
    """
    one_class = _TYPE_CLASSES.get(one.kind, one.kind)
    other_class = _TYPE_CLASSES.get(other.kind, other.kind)
    return one_class == other_class and _comparable(one.value) == _comparable(other.value)


def bare_value(value: FieldValue) -> object:
    """Return an object that is equal for two values if Erlang's `==` holds for them.

    Numbers are equal by value, whatever their kinds, and octets too. Inside arrays and tables the
    kinds count, and in tables the order; an empty table is an empty array. For a NaN, which Erlang
    does not have, the object contains its bits.
    """
    match value.value:
        case None:
            return "undefined"
        case bool(truth):
            return ("bool", truth)
        case float(number):
            return _comparable(number)
        case list(items):
            return [(type_name(item), bare_value(item)) for item in items]
        case dict(entries):
            return [(key, type_name(item), bare_value(item)) for key, item in entries.items()]
        case other:
            return other


def _comparable(data: FieldData) -> object:
    """Return a value with the bits of each NaN in its place: a NaN does not equal itself."""
    match data:
        case float(number) if isnan(number):
            return ("NaN", pack(">d", number))
        case list(items):
            return [(item.kind, _comparable(item.value)) for item in items]
        case dict(entries):
            return {key: (item.kind, _comparable(item.value)) for key, item in entries.items()}
        case other:
            return other


def type_name(value: FieldValue) -> str:
    """Return RabbitMQ's name of a value's kind, such as `longstr`."""
    return _TYPE_NAMES[value.kind]


def describe(value: FieldValue | None) -> str:
    """Return `the value '1' of type 'long'`, or `none` if there is no value."""
    if value is None:
        return "none"
    return f"the value {_quoted(value)} of type '{_TYPE_NAMES[value.kind]}'"


def describe_difference(received: FieldValue | None, current: FieldValue | None) -> str:
    """Return the end of an inequivalence text: `received ... but current is ...`.

    RabbitMQ leaves out the types if both values exist, even if only the types differ.
    """
    if received is None or current is None:
        return f"received {describe(received)} but current is {describe(current)}"
    return f"received {_quoted(received)} but current is {_quoted(current)}"


def erlang_string(raw: bytes) -> str:
    """Return octets as Erlang prints a string: quoted, or as a list if they are not printable."""
    return _erlang_quoted(raw) or f"[{','.join(map(str, raw))}]"


def _quoted(value: FieldValue) -> str:
    if isinstance(value.value, bytes):
        return f"'{value.value.decode('utf-8', 'surrogateescape')}'"
    return f"'{erlang_term(value.value)}'"


def erlang_term(data: FieldData) -> str:
    """Return a value as Erlang prints it, because users of RabbitMQ search for that text."""
    match data:
        case None:
            return "undefined"
        case bool():
            return "true" if data else "false"
        case float():
            return _erlang_float(data)
        case bytes():
            return erlang_binary(data)
        case DecimalValue(scale, unscaled):
            return f"{{{scale},{unscaled}}}"
        case list():
            return f"[{','.join(f'{{{_typed_term(item)}}}' for item in data)}]"
        case dict():
            entries = [
                f"{{{erlang_binary(key.encode('utf-8', 'surrogateescape'))},{_typed_term(item)}}}"
                for key, item in data.items()
            ]
            return f"[{','.join(entries)}]"
        case _:
            return str(data)


def _typed_term(value: FieldValue) -> str:
    return f"{_TYPE_NAMES[value.kind]},{erlang_term(value.value)}"


def _erlang_float(number: float) -> str:
    mantissa, exponent_sign, exponent = repr(number).partition("e")
    if exponent_sign:
        point = "" if "." in mantissa else ".0"
        return f"{mantissa}{point}e{int(exponent)}"
    return mantissa


def erlang_binary(raw: bytes) -> str:
    """Return octets as Erlang prints a binary: quoted, or as numbers if not printable."""
    if not raw:
        return "<<>>"
    quoted = _erlang_quoted(raw)
    return f"<<{','.join(map(str, raw))}>>" if quoted is None else f"<<{quoted}>>"


def _erlang_quoted(raw: bytes) -> str | None:
    if any(octet not in _PRINTABLE for octet in raw):
        return None
    text = raw.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
