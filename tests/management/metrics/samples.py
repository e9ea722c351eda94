"""Reads a page of metrics back, with the parser of Prometheus' own library."""

from __future__ import annotations

from functools import cache

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


@cache
def samples(page: bytes) -> dict[str, list[Sample]]:
    """Return the values of a page by their names."""
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(page.decode("utf-8")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def value(page: bytes, name: str, **labels: str) -> float:
    """Return the only value of a metric with some labels."""
    (sample,) = (
        sample for sample in samples(page).get(name, []) if labels.items() <= sample.labels.items()
    )
    return sample.value


@cache
def types(page: bytes) -> dict[str, str]:
    """Return the types of metrics by their names, as the page has them."""
    lines = page.decode("utf-8").splitlines()
    return dict(line.split(" ")[2:4] for line in lines if line.startswith("# TYPE "))


@cache
def helps(page: bytes) -> dict[str, str]:
    """Return the helps of metrics by their names."""
    lines = page.decode("utf-8").splitlines()
    return dict(line.split(" ", 3)[2:4] for line in lines if line.startswith("# HELP "))
