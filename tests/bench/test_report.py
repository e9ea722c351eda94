"""The table and the JSON report."""

import json
from dataclasses import replace

from bench.latency import LatencySummary
from bench.machine import Machine
from bench.measurement import Measurement
from bench.report import format_table, to_json
from bench.session import Outcome
from bench.workloads import QUICK

MEASUREMENT = Measurement(
    published=1_000_000,
    confirmed=1_000_000,
    nacked=0,
    received=1_000_000,
    lost=0,
    publish_seconds=1.0,
    consume_seconds=2.0,
    wall_seconds=2.0,
    server_cpu_seconds=1.5,
    publisher_cpu_seconds=0.3,
    consumer_cpu_seconds=0.2,
    others_cores=0.01,
    peak_rss_bytes=64 * 2**20,
    rss_anon_bytes_max=32 * 2**20,
)


def row(table: str, label: str) -> list[str]:
    """Return the cells of the row with this label."""
    (line,) = [each for each in table.splitlines() if each.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


def test_the_table_shows_figures_and_their_ratio_to_rabbitmq() -> None:
    slow = replace(MEASUREMENT, publish_seconds=10.0, consume_seconds=20.0)
    table = format_table(
        [Outcome("acks", "ours", [MEASUREMENT]), Outcome("acks", "rabbitmq", [slow])]
    )

    assert row(table, "published, msg/s") == ["1,000,000", "100,000", "10.00"]
    assert row(table, "consumed, msg/s") == ["500,000", "50,000", "10.00"]
    assert row(table, "server CPU, s per million msg") == ["1.50", "1.50", "1.00"]
    assert row(table, "LOST") == ["0", "0"]
    assert "latency" not in table
    assert "DO NOT COUNT" not in table


def test_figures_are_medians_but_losses_are_the_worst() -> None:
    runs = [
        replace(MEASUREMENT, publish_seconds=seconds, lost=lost)
        for seconds, lost in ((1.0, 0), (2.0, 7), (10.0, 0))
    ]
    table = format_table([Outcome("acks", "ours", runs)])

    assert row(table, "published, msg/s") == ["500,000"]
    assert row(table, "LOST") == ["7"]
    assert "ours: THESE FIGURES DO NOT COUNT" in table


def test_a_broker_that_failed_is_named_with_its_fault() -> None:
    table = format_table(
        [Outcome("acks", "ours", [MEASUREMENT]), Outcome("acks", "rabbitmq", [], "it\nwent away")]
    )

    assert row(table, "published, msg/s") == ["1,000,000", "-", "-"]
    assert "rabbitmq: THESE FIGURES DO NOT COUNT: went away" in table


def test_a_standstill_makes_figures_worthless() -> None:
    assert not Outcome("soak", "ours", [replace(MEASUREMENT, stalled_seconds=1)]).counts
    assert Outcome("soak", "ours", [replace(MEASUREMENT, stalled_seconds=0)]).counts


def test_a_busy_machine_is_reported() -> None:
    busy = Outcome("acks", "ours", [MEASUREMENT, replace(MEASUREMENT, others_cores=0.5)])

    assert "ours: the machine was busy" in format_table([busy])
    assert "busy" not in format_table([Outcome("acks", "ours", [MEASUREMENT])])


def test_the_json_report_holds_every_run_and_what_it_was_measured_on() -> None:
    latency = LatencySummary(0.001, 0.002, 0.003, 0.004)
    outcome = Outcome("latency", "ours", [replace(MEASUREMENT, latency=latency), MEASUREMENT])

    report = to_json(Machine.inspect(), ["bench"], QUICK, [outcome])
    report = json.loads(json.dumps(report))

    assert report["machine"]["cores"] >= 1
    assert report["scale"]["body_bytes"] == 128
    (only,) = report["outcomes"]
    assert only["counts"] is True
    assert [run["published_per_second"] for run in only["runs"]] == [1e6, 1e6]
    assert only["runs"][0]["latency"]["p99"] == 0.002
    assert only["runs"][0]["generator_cpu_seconds"] == 0.5
