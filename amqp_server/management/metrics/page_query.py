"""Reads the address of a page, and whether the client takes its format."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

PAGES: Final = ("default", "per-object", "detailed", "memory-breakdown")
"""Pages by the last segment of their path; `default` has none as well."""
FIELDS_MAX: Final = 1000
"""Most fields in the query of an address."""
_ACCEPTED: Final = ("text/plain", "text/*", "*/*")


class PageRefusedError(Exception):
    """There is no such page.

    Attributes:
        status: HTTP status.
        text: Body of the answer.
    """

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page a client wants.

    Attributes:
        page: One of `PAGES`.
        families: Names of groups of metrics, for the page `detailed`.
        vhosts: Names of virtual hosts to show, some of which may not exist; None for all.
        queue_pattern: Regular expression for names of queues; empty for all.
    """

    page: str
    families: tuple[str, ...] = ()
    vhosts: tuple[str, ...] | None = None
    queue_pattern: str = ""


def parse_page_query(path: str, query: str) -> PageQuery:
    """Return what an address names.

    Args:
        path: Decoded path, from `/metrics` on.
        query: Query as it was sent, without the question mark.

    Raises:
        PageRefusedError: There is no such page, or its query is wrong.
    """
    parts = path.strip("/").split("/")
    page = parts[1] if len(parts) > 1 else "default"
    if parts[0] != "metrics" or len(parts) > 2 or page not in PAGES:
        raise PageRefusedError(HTTPStatus.NOT_FOUND, "Unknown Registry")
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise PageRefusedError(HTTPStatus.BAD_REQUEST, "too many fields in the query") from error
    patterns = [value for name, value in fields if name == "queue"]
    if len(patterns) > 1:
        raise PageRefusedError(
            HTTPStatus.BAD_REQUEST, "Only one 'queue' query parameter is allowed"
        )
    if page != "detailed":
        return PageQuery(page)
    vhosts = tuple(dict.fromkeys(value for name, value in fields if name == "vhost"))
    return PageQuery(
        page,
        tuple(dict.fromkeys(value for name, value in fields if name == "family")),
        vhosts if any(name == "vhost" for name, _ in fields) else None,
        patterns[0] if patterns else "",
    )


def check_accepts_text(accept: str) -> None:
    """Check that a client takes plain text, by its header `Accept`; empty: it sent none.

    Raises:
        PageRefusedError: It does not, such as one that takes OpenMetrics only.
    """
    if accept.strip() and not any(
        kind in _ACCEPTED and not _is_refused(parameters)
        for kind, parameters in map(_media_range, accept.split(","))
    ):
        raise PageRefusedError(HTTPStatus.NOT_ACCEPTABLE, "")


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a client takes a compressed body."""
    return any(
        coding in ("gzip", "*") and not _is_refused(parameters)
        for coding, parameters in map(_media_range, accept_encoding.split(","))
    )


def _media_range(text: str) -> tuple[str, str]:
    kind, _, parameters = text.partition(";")
    return kind.strip().lower(), parameters.replace(" ", "").lower()


def _is_refused(parameters: str) -> bool:
    """Return whether the weight is 0, such as `q=0.0`."""
    weights = [each[2:] for each in parameters.split(";") if each.startswith("q=")]
    return any(weight.strip("0.") == "" for weight in weights)
