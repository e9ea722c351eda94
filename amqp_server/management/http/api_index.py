"""The list of all paths: `/api/index.html`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from amqp_server.management.http.answers import NOTHING, Answer, AnyAnswer, Octets
from amqp_server.management.http.routes import Route

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call

_PLACE: Final = "/api/index.html"
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>amqp-server HTTP API</title>
<h1>amqp-server HTTP API</h1>
<table><tr><th>path<th>methods<th>who{rows}</table>
</html>
"""
_HEADERS: Final = {"content-security-policy": "default-src 'self'"}


def index_routes(routes: Iterable[Route]) -> list[Route]:
    """Return the routes of the list of all paths.

    Args:
        routes: The routes that the list has.
    """
    page = _PAGE.format(rows="".join(_rows(routes))).encode()

    async def moved(_call: Call) -> AnyAnswer:
        return Answer(HTTPStatus.MOVED_PERMANENTLY, NOTHING, {"location": _PLACE})

    async def show(_call: Call) -> AnyAnswer:
        return Octets(HTTPStatus.OK, "text/html; charset=utf-8", page, _HEADERS)

    return [
        Route("GET", "/api", moved, requires=None, is_json=False, is_for_any_host=True),
        Route("GET", _PLACE, show, requires=None, is_json=False, is_for_any_host=True),
    ]


def _rows(routes: Iterable[Route]) -> list[str]:
    methods: dict[str, list[str]] = {}
    who: dict[str, str] = {}
    for route in routes:
        if not route.path.startswith("/api/"):
            continue
        methods.setdefault(route.path, []).append(route.method)
        needed = "everybody" if route.requires is None else route.requires.name.lower()
        who.setdefault(route.path, needed)
    return [
        f"\n<tr><td>{escape(path)}<td>{' '.join(methods[path])}<td>{who[path]}"
        for path in sorted(methods)
    ]
