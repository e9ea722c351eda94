"""All rows of the traffic table, and of its native clients.

No list names the files of `bench/traffic/rows`: this module imports all of them and takes the tuple
`ROWS` of each.
"""

import importlib
import pkgutil
from typing import Final

import bench.traffic.rows
from bench.traffic.row import TrafficRow

NATIVE: Final = "native"
"""Family of the rows whose clients are libraries of other projects."""

_ORDER: Final = ("services", "bodies", "fanout", "celery", "rpc", "gets", "declares", "native")
"""Files from top to bottom; a file that is not named here stands below them."""


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _find_rows() -> tuple[TrafficRow, ...]:
    names = [module.name for module in pkgutil.iter_modules(bench.traffic.rows.__path__)]
    found: list[TrafficRow] = []
    for name in sorted(names, key=_place):
        found += importlib.import_module(f"bench.traffic.rows.{name}").ROWS
    return tuple(found)


ROWS: Final = _find_rows()
"""All rows, from top to bottom."""
