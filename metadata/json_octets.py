r"""JSON as octets, by orjson; what it refuses, the standard library's parser takes.

Names that were not UTF-8 on the wire live in memory as surrogate escapes, which JSON can write
(`\udc80`) but orjson will not. Where orjson is not installed, as in Spark's workers, which only
read, the standard library does all of it.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

try:
    import orjson
except ImportError:
    HAS_ORJSON = False
else:
    HAS_ORJSON = True


def dump(fields: dict[str, Any]) -> bytes:
    """Return indented JSON and one final newline.

    Raises:
        TypeError: Something has no JSON.
        ValueError: A number has none, or something holds itself.
    """
    if HAS_ORJSON:
        try:
            return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            pass
    return json.dumps(fields, indent=2, allow_nan=False).encode("ascii") + b"\n"


def canonical(fields: dict[str, Any]) -> bytes:
    """Return the one JSON text of these members: what a checksum is made of.

    Members by the code points of their names, no spaces, ASCII with escapes for the rest, numbers
    as Python writes them. The standard library's form, for another one would be another checksum.

    Raises:
        TypeError: Something has no JSON.
        ValueError: A number has none, or something holds itself.
        RecursionError: It nests too deep.
    """
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def load(content: bytes) -> Any:  # noqa: ANN401 - JSON is anything until it is checked
    """Return what some JSON says.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It nests too deep.
    """
    if HAS_ORJSON:
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:
            pass
    return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
