"""Routes: which handler serves a method and a path, and what a user must be for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from amqp_server.management.http.answers import AnyAnswer
from amqp_server.management.http.call import Call, Tag

Handler = Callable[[Call], Awaitable[AnyAnswer]]

_METHODS: Final = ("GET", "PUT", "POST", "DELETE")
"""Methods in the order in which `allow` names them."""


@dataclass(frozen=True, slots=True)
class Route:
    """What serves one method of one path.

    Attributes:
        method: `GET` (serves HEAD, too), `PUT`, `POST` or `DELETE`.
        path: Path with names of segments: `/api/queues/{vhost}/{name}`.
        handler: Serves the request.
        requires: What a user must be; None: no login is needed.
        checks_vhost: Whether the segment `vhost` must exist and be visible to the user. None: where
            any management user may come, and the path has such a segment.
        is_json: Whether the answer is JSON, so that a client that does not accept it gets 406.
        is_for_any_host: Whether a client without a login gets it by any name of the server
            (`HostRule`): it tells nothing.
    """

    method: str
    path: str
    handler: Handler
    requires: Tag | None = Tag.MANAGEMENT
    checks_vhost: bool | None = None
    is_json: bool = True
    is_for_any_host: bool = False

    @property
    def is_vhost_checked(self) -> bool:
        """Whether the virtual host in the path is checked before the handler is called."""
        if self.checks_vhost is not None:
            return self.checks_vhost
        return self.requires is Tag.MANAGEMENT and "/{vhost}" in self.path


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    names: tuple[str, ...] = ()
    routes: dict[str, Route] = field(default_factory=dict)
    rest: Route | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """The routes of one path.

    Attributes:
        routes: By method.
        segments: Decoded segments by name.
        is_rest: Whether the path is only one of those that have no route of their own.
    """

    routes: dict[str, Route]
    segments: dict[str, str]
    is_rest: bool = False

    @property
    def allow(self) -> str:
        """The methods that work, as the header names them."""
        methods = ["HEAD"] if "GET" in self.routes else []
        methods += [each for each in _METHODS if each in self.routes]
        return ", ".join([*methods, "OPTIONS"])


class RouteTable:
    """All routes, by the segments of their paths.

    A literal segment comes before a named one. A last segment `{name...}` after literal ones stands
    for any number of segments, joined by slashes.

    Args:
        routes: The routes; no two with the same method and path.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        self.routes = tuple(routes)
        for route in self.routes:
            self._add(route)

    def find(self, segments: tuple[str, ...]) -> Match | None:
        """Return the routes of a path; None if there are none."""
        found = _find(self._root, segments, 0, ())
        if found is None:
            return None
        node, values = found
        if node.routes:
            return Match(node.routes, dict(zip(node.names, values, strict=True)))
        rest = node.rest
        assert rest is not None, "found only with one of the two"
        begin = rest.path.count("/") - 1
        return Match({rest.method: rest}, {_rest_name(rest): "/".join(segments[begin:])}, True)

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for part in route.path.split("/")[1:]:
            if part.endswith("...}"):
                assert node.rest is None, f"two routes {route.path}"
                node.rest = route
                return
            if part.startswith("{"):
                names.append(part[1:-1])
                node.variable = node.variable or _Node()
                node = node.variable
            elif part:
                node = node.literals.setdefault(part, _Node())
        assert route.method not in node.routes, f"two routes {route.method} {route.path}"
        assert not node.routes or node.names == tuple(names), f"other names: {route.path}"
        node.names = tuple(names)
        node.routes[route.method] = route


def _find(
    node: _Node, segments: tuple[str, ...], place: int, values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    if place == len(segments):
        if node.routes:
            return node, values
    else:
        found = _find_below(node, segments, place, values)
        if found is not None:
            return found
    return (node, values) if node.rest is not None and not values else None


def _find_below(
    node: _Node, segments: tuple[str, ...], place: int, values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    segment = segments[place]
    if segment in node.literals:
        found = _find(node.literals[segment], segments, place + 1, values)
        if found is not None:
            return found
    if node.variable is not None and segment:
        return _find(node.variable, segments, place + 1, (*values, segment))
    return None


def _rest_name(route: Route) -> str:
    return route.path.rpartition("{")[2].removesuffix("...}")
