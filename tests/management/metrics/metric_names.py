"""The names of all metrics that there are, from the tables of which the pages are made."""

from __future__ import annotations

from functools import cache

from amqp_server.management.metrics.collector import HistogramCollector, Identity, IdentityCollector
from amqp_server.management.metrics.families.memory_families import MEMORY_BREAKDOWN
from amqp_server.management.metrics.pages import CHOSEN_BY_NAME, GROUPS
from tests.management.metrics.mirror_rows import FixedMirror

_PARTS_OF_HISTOGRAMS = ("_bucket", "_count", "_sum")


@cache
def metric_names() -> frozenset[str]:
    """Return the names of all metrics on all pages, and of what histograms consist of."""
    names = {
        prefix + family.name
        for group in (*GROUPS, *CHOSEN_BY_NAME.values(), MEMORY_BREAKDOWN)
        for prefix in (group.prefix, group.detailed_prefix)
        for family in group.families
    }
    histograms = [family.name for family in HistogramCollector(FixedMirror()).collect()]
    names.update(name + part for name in histograms for part in ("", *_PARTS_OF_HISTOGRAMS))
    identity = IdentityCollector(FixedMirror(), Identity(), "").collect()
    names.update(family.name for family in identity)
    return frozenset(names)
