"""The target of a request line: segments of the path and fields of the query, decoded once.

Frameworks decode the whole path and then split it, so that a name with a slash is two segments.
Here the raw path is split first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from amqp_server.management.http.answers import ApiError

FIELDS_MAX: Final = 100
"""Fields of a query; one more is refused."""
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Target:
    """What a request line names.

    Attributes:
        path: Raw path, not decoded, without the query.
        segments: Segments of the path, decoded once; an empty last one is left out.
        query: Fields of the query by name; of several with one name the last.
    """

    path: str
    segments: tuple[str, ...]
    query: dict[str, str]


def parse_target(target: str) -> Target:
    """Split a request target, then decode its parts.

    Args:
        target: As in the request line: `/api/queues/%2F?page=1`, or a whole URL.

    Raises:
        ApiError: 400 without a body: a part is not UTF-8, or the query has too many fields.
    """
    if not target.startswith("/"):
        # The form for proxies: http://host/path
        _, _, rest = target.partition("://")
        target = "/" + rest.partition("/")[2]
    target = target.partition("#")[0]
    path, _, query = target.partition("?")
    raw = path.split("/")[1:]
    if raw and not raw[-1]:
        raw.pop()
    try:
        segments = tuple(_decode(each) for each in raw)
        fields = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST) from error
    return Target(path, segments, dict(fields))


def _decode(segment: str) -> str:
    """Return a decoded segment.

    Raises:
        ValueError: It is not encoded as URLs are, or not UTF-8.
    """
    if _BAD_ESCAPE.search(segment):
        raise ValueError(segment)
    return unquote_to_bytes(segment).decode()
