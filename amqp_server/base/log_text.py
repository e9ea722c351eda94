"""A log record as one line of text, `event key='value' number=3`, in which values are quoted."""

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from amqp_server.base.log_fields import CONVERSION, KEY

_CONTROLS: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a format string, with the arguments that it takes.

    Attributes:
        template: The part itself.
        arguments: How many arguments it takes.
        is_value: Whether it is what follows `key=`.
        is_argument: Whether it is one conversion and nothing else.
    """

    template: str
    arguments: int
    is_value: bool
    is_argument: bool


def record_text(record: logging.LogRecord) -> str:
    r"""Return the message of a record as one line, with the values of its fields quoted.

    A queue's name may have blanks, `=`, quotes and line feeds. Quoted it is one value: a name
    cannot add a field, end one, or begin a line.

    Args:
        record: Its format string has the form `event key=%s key=%d: advice`.

    Returns:
        The message, in which each value that is text stands as Python writes it (`'orders'`,
        `"ann's"`, `'two\nlines'`); numbers, truth values and `None` stand as they are. In the event
        itself, words that are text stay unquoted. Control characters are escaped everywhere.
    """
    arguments = record.args
    if isinstance(record.msg, str) and isinstance(arguments, tuple):
        parts = _parts(record.msg)
        if sum(part.arguments for part in parts) == len(arguments):
            text = ""
            start = 0
            for part in parts:
                end = start + part.arguments
                text += _shown(part, arguments[start:end])
                start = end
            return without_controls(text)
    return without_controls(record.getMessage())


def without_controls(text: str) -> str:
    """Return a text in which control characters and ends of lines are escaped."""
    return text.translate(_CONTROLS)


def _shown(part: _Part, arguments: tuple[object, ...]) -> str:
    if part.is_argument:
        return _argument(part, arguments[0])
    text = part.template % arguments
    return repr(text) if part.is_value else text


def _argument(part: _Part, argument: object) -> str:
    text = part.template % (argument,)
    if argument is None or isinstance(argument, int | float):
        return text
    if isinstance(argument, str) and (part.template.endswith("r") or not part.is_value):
        return text
    return repr(text)


@lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[_Part, ...]:
    keys = list(KEY.finditer(template))
    ends = [key.start() for key in keys] + [len(template)]
    parts = _pieces(template[: ends[0]], is_value=False)
    for key, end in zip(keys, ends[1:], strict=True):
        value = template[key.end() : end]
        stripped = value.rstrip(" ")
        parts.append(_Part(f"{key[1]}=", 0, is_value=False, is_argument=False))
        first = CONVERSION.match(stripped)
        if first and first[1] and stripped[first.end() : first.end() + 1] in ("", *":,;"):
            parts += _pieces(stripped, is_value=True)
        else:
            count = sum(bool(found[1]) for found in CONVERSION.finditer(stripped))
            parts.append(_Part(stripped, count, is_value=True, is_argument=False))
        parts.append(_Part(value[len(stripped) :], 0, is_value=False, is_argument=False))
    return tuple(parts)


def _pieces(template: str, *, is_value: bool) -> list[_Part]:
    """Return the conversions of a part, each by itself, and what stands between them."""
    parts = []
    start = 0
    for found in CONVERSION.finditer(template):
        if found[1]:
            parts.append(_Part(template[start : found.start()], 0, False, False))
            parts.append(_Part(found[0], 1, is_value, True))
            start = found.end()
    return [*parts, _Part(template[start:], 0, False, False)]
