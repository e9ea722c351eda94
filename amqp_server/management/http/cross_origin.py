"""Pages of other servers that may use the API (CORS), and those that may not (CSRF)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amqp_server.management.http.host_names import Authority, parse_authority

CSRF_HEADER: Final = "X-CSRF-Token"
"""Header with the token of a session. The page sends it with everything that changes something."""
_READING: Final = ("GET", "HEAD", "OPTIONS")
_OWN: Final = ("none", "same-origin")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
SECONDS: Final = 1800
"""Seconds for which a browser remembers the answer to OPTIONS."""


def is_from_elsewhere(origins: tuple[str, ...], method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin tries to change something that it may not.

    A browser sends the password of the user, which it remembers, with such a request too. It says
    where the request comes from: by `Sec-Fetch-Site`, or, over plain HTTP to a name that is not of
    this machine, by `Origin` alone. Programs send neither.

    Args:
        origins: Origins that may; `*` for all.
        method: HTTP method.
        headers: Headers of the request.
    """
    if method in _READING or _is_own(headers):
        return False
    return not ("*" in origins or headers.get("Origin") in origins)


def _is_own(headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a program, or from a page of this server."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in _OWN
    origin = headers.get("Origin")
    if origin is None:
        return True
    # A browser sends such a header for a page of another origin only if OPTIONS has allowed it. So
    # the page also works behind a proxy that gives us another Host.
    return CSRF_HEADER in headers or _is_origin_of_host(origin, headers)


def _is_origin_of_host(origin: str, headers: Mapping[str, str]) -> bool:
    """Return whether an origin has the host and port that the request was sent to.

    The scheme is not compared: behind a proxy with TLS nothing says which one the client uses. A
    proxy may name the host of the client in `X-Forwarded-Host`, which no page of another origin can
    send without being allowed.
    """
    scheme, _, authority = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme.lower())
    wanted = parse_authority(authority)
    if port is None or wanted is None:
        # Also `null`, of pages that hide where they come from.
        return False
    reached = (headers.get("Host", ""), headers.get("X-Forwarded-Host", "").partition(",")[0])
    return any(_is_same(wanted, parse_authority(text), port) for text in reached)


def _is_same(one: Authority, other: Authority | None, default_port: int) -> bool:
    if other is None or one.host != other.host:
        return False
    return (one.port or default_port) == (other.port or default_port)


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
        asked = headers.get("Access-Control-Request-Headers", "")
        # Octets that are no text cannot be sent back.
        if asked and asked.isascii():
            found["access-control-allow-headers"] = asked
        found["access-control-max-age"] = str(SECONDS)
    return found
