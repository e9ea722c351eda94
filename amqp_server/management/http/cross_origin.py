"""Pages of other servers that may use the API (CORS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SECONDS: Final = 1800
"""Seconds for which a browser remembers the answer to OPTIONS."""


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
