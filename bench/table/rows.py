"""The rows of the table in their order, and the experiments that fill them.

No list names the files of `bench/rows`: this module imports all of them and takes the tuple
`EXPERIMENTS` of each.
"""

import importlib
import pkgutil
from typing import Final

import bench.rows
from bench.table.experiment import Experiment, Row

_ORDER: Final = (
    "transient",
    "acks",
    "acks-1k",
    "durable",
    "durable-1k",
    "backlog-publish",
    "backlog-drain",
    "transient-cpu",
    "transient-rss",
    "backlog-rss",
    "many-clients",
    "fairness",
    "fanout",
    "topic",
    "single-acks",
    "get",
    "get-ack",
    "pika",
    "latency-p99",
    "latency-p999",
    "latency-durable-p99",
    "latency-confirm-p99",
    "rss-idle",
    "rss-connections",
    "rss-growth",
    "start",
    "connections",
    "declares",
)
"""Keys of the rows from top to bottom; a row that is not named here stands below them."""


def _place(row: Row) -> int:
    return _ORDER.index(row.key) if row.key in _ORDER else len(_ORDER)


def _find_experiments() -> tuple[Experiment, ...]:
    found: list[Experiment] = []
    for module in pkgutil.iter_modules(bench.rows.__path__):
        found += importlib.import_module(f"bench.rows.{module.name}").EXPERIMENTS
    return tuple(sorted(found, key=lambda each: _place(each.rows[0])))


EXPERIMENTS: Final = _find_experiments()
"""All experiments, in the order of their first rows."""

ROWS: Final = tuple(
    sorted((row for experiment in EXPERIMENTS for row in experiment.rows), key=_place)
)
"""All rows, from top to bottom."""
