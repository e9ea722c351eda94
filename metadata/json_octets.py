r"""JSON as octets, by orjson, or by the standard library for what orjson refuses.

Names that were not UTF-8 on the wire contain surrogate escapes in memory. JSON can express these
(`\udc80`), but orjson refuses them. Spark's workers only read and have no orjson: there the
standard library does everything.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

try:
    import orjson
except ImportError:
    HAS_ORJSON = False
else:
    HAS_ORJSON = True


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def dump(fields: dict[str, Any]) -> bytes:
    """Return indented JSON and one final newline.

    Raises:
        TypeError: A value has no JSON form.
        ValueError: A number has no JSON form, or a value contains itself.
    """
    if HAS_ORJSON:
        try:
            return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            pass
    return json.dumps(fields, indent=2, allow_nan=False).encode("ascii") + b"\n"


def canonical(fields: dict[str, Any]) -> bytes:
    """Return the canonical JSON text of these members, from which the checksum is computed.

    Members are sorted by the code points of their names. There are no spaces, characters beyond
    ASCII are escaped, and numbers are written as Python does. The standard library writes it,
    because any other form would change the checksum.

    Raises:
        TypeError: A value has no JSON form.
        ValueError: A number has no JSON form, or a value contains itself.
        RecursionError: The value nests too deep.
    """
    return _CANONICAL.encode(fields).encode("ascii")


def orjson_canonical(fields: dict[str, Any]) -> bytes:
    """Return what orjson makes of these members; empty if it refuses them, or one may be null.

    That is their canonical text, unless there are floats or characters beyond ASCII in it, and is
    made in a tenth of the time. A checksum that fits it is right; one that does not may be.
    """
    if HAS_ORJSON:
        try:
            octets = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            return b""
        # It also writes numbers so that JSON does not have.
        return b"" if b"null" in octets else octets
    return b""


def load(content: bytes) -> Any:  # noqa: ANN401 - JSON is anything until it is checked
    """Return the value of a JSON text.

    Raises:
        ValueError: The content is not JSON.
        RecursionError: The value nests too deep.
    """
    if HAS_ORJSON:
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:
            pass
    return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
