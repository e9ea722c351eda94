"""The resources of the HTTP API: one module for each, with a function `routes`.

A module is found by its place: no list names it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.http.routes import Route


def all_routes(parts: Parts) -> list[Route]:
    """Return the routes of every module here that has a function `routes`.

    Args:
        parts: What the handlers use.
    """
    found: list[Route] = []
    for module in pkgutil.iter_modules(__path__):
        routes = getattr(importlib.import_module(f"{__name__}.{module.name}"), "routes", None)
        if routes is not None:
            found += routes(parts)
    return found
