"""The headers table of a message as one JSON text that preserves every value.

Strings, numbers, booleans, null, arrays and objects are themselves in JSON; integers and times are
whole numbers. Every other value is an object with one member:

    bytes: byte arrays, long strings that are not UTF-8    {"$bytes": "<base64>"}
    decimals                                               {"$decimal": "3.14"}
    NaN and infinities                                     {"$double": "NaN"}

Octets of the table that cannot be decoded are a member of its own: "$malformed": "<base64>".

So that no other object looks like one of these, a key that begins with `$` gets a second `$` before
it. A key that was sent twice is in the object twice, in the order of the table; most JSON readers
use the last one.
"""

import base64
import json
import math
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Final

from appendlog.layout.headers import MALFORMED_KEY, HeaderPairs, HeaderValue, decode_header_pairs

_MARK: Final = "$"


def headers_as_json(table: bytes, malformed: bytes = b"") -> str:
    """Return a headers table as the text of a JSON object, without spaces.

    Args:
        table: Octets after the table's length; not kept.
        malformed: Octets of the table that cannot be decoded: the value of `MALFORMED_KEY`.

    Raises:
        MalformedHeadersError: As for `decode_headers`.
    """
    members = [_member(key, value) for key, value in decode_header_pairs(table).pairs]
    if malformed:
        members.append(f'"{MALFORMED_KEY}":"{_base64(malformed)}"')
    return f"{{{','.join(members)}}}"


def _json(value: HeaderValue) -> str:
    kind = type(value)
    if kind is str:
        return encode_basestring(value)  # type: ignore[arg-type]
    if kind is int:
        return str(value)
    if isinstance(value, HeaderPairs):
        return f"{{{','.join(_member(key, each) for key, each in value.pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, bytes):
        return f'{{"$bytes":"{_base64(value)}"}}'
    if isinstance(value, Decimal):
        return f'{{"$decimal":"{value}"}}'
    if isinstance(value, float) and not math.isfinite(value):
        return f'{{"$double":"{"NaN" if math.isnan(value) else json.dumps(value)}"}}'
    return json.dumps(value)


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _member(key: str, value: HeaderValue) -> str:
    name = f"{_MARK}{key}" if key.startswith(_MARK) else key
    return f"{encode_basestring(name)}:{_json(value)}"
