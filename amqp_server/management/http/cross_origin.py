"""Pages of other servers that may use the API (CORS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_READING: Final = ("GET", "HEAD", "OPTIONS")
_OWN: Final = ("none", "same-origin")
SECONDS: Final = 1800
"""Seconds for which a browser remembers the answer to OPTIONS."""


def is_from_elsewhere(origins: tuple[str, ...], method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin tries to change something that it may not.

    A browser sends the password of the user, which it remembers, with such a request too. It says
    by itself where the request comes from; programs say nothing.

    Args:
        origins: Origins that may; `*` for all.
        method: HTTP method.
        headers: Headers of the request.
    """
    if method in _READING or headers.get("Sec-Fetch-Site", "none") in _OWN:
        return False
    return not ("*" in origins or headers.get("Origin") in origins)


def cross_origin_headers(
    origins: tuple[str, ...], headers: Mapping[str, str], allow: str = ""
) -> dict[str, str]:
    """Return the headers that let a page of another origin read the answer.

    Args:
        origins: Origins that may; `*` for all.
        headers: Headers of the request.
        allow: Methods of the path, in the answer to OPTIONS; else empty.
    """
    origin = headers.get("Origin")
    if origin is None or not ("*" in origins or origin in origins):
        return {}
    found = {"access-control-allow-origin": "*" if "*" in origins else origin}
    if "*" not in origins:
        found["access-control-allow-credentials"] = "true"
    if allow:
        found["access-control-allow-methods"] = allow
        if asked := headers.get("Access-Control-Request-Headers"):
            found["access-control-allow-headers"] = asked
        found["access-control-max-age"] = str(SECONDS)
    return found
