"""Percentiles."""

from bench.latency import LatencySummary


def test_percentiles_are_latencies_that_were_there() -> None:
    latencies_ns = [1_000_000 * place for place in range(1_000, 0, -1)]

    assert LatencySummary.of(latencies_ns) == LatencySummary(
        p50=0.5, p99=0.99, p999=0.999, worst=1.0
    )


def test_a_single_latency_is_every_percentile() -> None:
    assert LatencySummary.of([5]) == LatencySummary(5e-9, 5e-9, 5e-9, 5e-9)


def test_no_latency_has_no_summary() -> None:
    assert LatencySummary.of([]) is None
