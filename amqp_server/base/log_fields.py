"""The event and the values of a log record, read from its format string and its arguments."""

import logging
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

KEY: Final = re.compile(r"(?:^|(?<= ))(\w+)=")
"""The name of a field in a format string; what follows it, up to the next one, is its value."""
CONVERSION: Final = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?([diouxXeEfFgGcrsa]))")
"""A `%s` or the like, which has a group, or a `%%`, which has none."""
_VALUE_ENDS = ":,;"

FieldValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a format string: the event, or what follows one `key=`.

    Attributes:
        key: Name of the field; empty for the event.
        template: The part itself, without the blanks around it.
        conversion: The conversion that is the whole value; empty when the value is other text.
        arguments: How many arguments the part takes.
    """

    key: str
    template: str
    conversion: str
    arguments: int


def split_event(record: logging.LogRecord) -> tuple[str, dict[str, FieldValue]]:
    """Return what happened, and the values that the record names.

    Args:
        record: Its format string has the form `event key=%s key=%d: advice`.

    Returns:
        The text before the first `key=`, and a value for each key: a number, a truth value or null
        where the argument is one, else text. The whole message and no values where the format
        string has no such form.
    """
    arguments = record.args
    if isinstance(record.msg, str) and isinstance(arguments, tuple):
        pieces = _pieces(record.msg)
        if sum(piece.arguments for piece in pieces) == len(arguments):
            event = ""
            fields: dict[str, FieldValue] = {}
            start = 0
            for piece in pieces:
                end = start + piece.arguments
                if piece.key:
                    fields[piece.key] = _value(piece, arguments[start:end])
                else:
                    event = piece.template % arguments[start:end]
                start = end
            return event, fields
    return record.getMessage(), {}


@lru_cache(maxsize=1024)
def _pieces(template: str) -> tuple[_Piece, ...]:
    keys = list(KEY.finditer(template))
    ends = [key.start() for key in keys] + [len(template)]
    pieces = [_piece("", template[: ends[0]].rstrip(" :"))]
    for key, end in zip(keys, ends[1:], strict=True):
        pieces.append(_piece(key[1], template[key.end() : end].rstrip(" ")))
    return tuple(pieces)


def _piece(key: str, template: str) -> _Piece:
    conversions = [found for found in CONVERSION.finditer(template) if found[1]]
    whole = ""
    if conversions and conversions[0].start() == 0:
        rest = template[conversions[0].end() :]
        if not rest or rest[0] in _VALUE_ENDS:
            whole = conversions[0][0]
    return _Piece(key, template, whole, len(conversions))


def _value(piece: _Piece, arguments: tuple[object, ...]) -> FieldValue:
    if not piece.conversion:
        return piece.template % arguments
    argument = arguments[0]
    text = piece.conversion % (argument,)
    if argument is None or isinstance(argument, bool):
        return argument
    if type(argument) is int and piece.conversion[-1] in "dius":
        return argument
    if type(argument) is float and piece.conversion[-1] in "fFeEgGs":
        # JSON has no word for these.
        return float(text) if math.isfinite(argument) else text
    return text
