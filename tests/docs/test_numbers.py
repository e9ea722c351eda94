"""The tables of numbers in README.md and docs/benchmarks.md quote the results that they link to."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
BENCHMARKS = REPOSITORY / "docs" / "benchmarks.md"
OURS, RABBITMQ, INTERPRETED = "ours", "rabbitmq", "ours-pure"

README_ROWS = (
    ("durable",),
    ("pika",),
    ("latency-p99", "latency-durable-p99"),
)
"""Keys of the figures in each row of the README's table of alike messages, in its order."""
README_TRAFFIC = (
    "services-4x200-few",
    "services-4x200-unbounded",
    "services-16x50-few",
    "single-writes",
    "confirm-each",
    "celery",
    "rpc",
    "gets-varied",
    "bodies-64k",
)
"""Rows of the README's table of real traffic, in its order."""


def linked_results(page: Path) -> dict[str, Any]:
    """Return the results whose picture a page shows or links to."""
    (stem,) = set(re.findall(r"bench/results/([\w-]+)\.png", page.read_text()))
    results: dict[str, Any] = json.loads(
        (REPOSITORY / "bench" / "results" / f"{stem}.json").read_text()
    )
    return results


def figures(row: dict[str, Any]) -> tuple[float | None, float | None, float | None, float | None]:
    """Return what a row of the results has: ours, RabbitMQ's, their ratio, ours interpreted."""
    ours, theirs, pure = (
        row["figures"].get(broker, {}).get("value") for broker in (OURS, RABBITMQ, INTERPRETED)
    )
    return ours, theirs, row["ratio"], pure


def table_below(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its two head lines."""
    text = page.read_text().partition(heading)[2]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    return [line.strip("|").split("|") for line in table[0].splitlines()[2:]]


def check_quoted(cell: str, value: float | None) -> None:
    """Check that a cell shows a value, rounded to the last digit that it shows; or shows none."""
    found = re.search(r"\d[\d,]*(?:\.(\d+))?", cell)
    if found is None:
        assert cell.strip(" -*") == ""
        return
    assert value is not None, f"{cell}: nothing was measured"
    shown = found[0].replace(",", "")
    places = len(found[1]) if found[1] else len(shown.rstrip("0")) - len(shown)
    assert abs(float(shown) - value) <= 0.5 * 10**-places, f"{cell} is {value}"


@pytest.mark.parametrize(
    ("cell", "value"),
    [("4,250,000", 4_245_501), (" 0.49 ms", 0.492), ("**11.5**", 11.51), ("204 MB", 203.6)],
)
def test_a_rounded_figure_is_recognized(cell: str, value: float) -> None:
    check_quoted(cell, value)
    for other in (value * 1.11, value / 1.11, None):
        with pytest.raises(AssertionError):
            check_quoted(cell, other)


def test_the_readme_quotes_its_results() -> None:
    rows = {row["key"]: row for row in linked_results(README)["rows"]}
    table = table_below(README, "### Alike messages")

    assert len(table) == len(README_ROWS)
    for (_, *cells), keys in zip(table, README_ROWS, strict=True):
        by_column = zip(*(figures(rows[key]) for key in keys), strict=True)
        for cell, values in zip(cells, by_column, strict=True):
            parts = cell.split(";")
            assert len(parts) in {1, len(keys)}, cell
            for part, value in zip(parts, values, strict=False):
                check_quoted(part, value)


def test_the_page_of_benchmarks_quotes_every_row_of_its_results() -> None:
    rows = linked_results(BENCHMARKS)["rows"]
    table = table_below(BENCHMARKS, "### The table")

    assert [cells[0].strip() for cells in table] == [row["title"] for row in rows]
    for cells, row in zip(table, rows, strict=True):
        shown = (cells[2], cells[4], cells[5], cells[7])
        for cell, value in zip(shown, figures(row), strict=True):
            check_quoted(cell, value)


MEASURED = re.compile(
    r"Measured on (\d{4}-\d\d-\d\d) at commit (\w+), medians of (\d+) alternating runs"
)


def test_the_readme_says_when_and_on_which_commit_its_figures_were_measured() -> None:
    text = README.read_text().partition("## Numbers")[2].replace("\n", " ")
    real, alike = MEASURED.findall(text)
    (name,) = set(re.findall(r"([\w-]+)-traffic\.json", BENCHMARKS.read_text()))
    runs = {len(each["runs"]) for each in real_traffic(BENCHMARKS).values()}
    assert real == (name[:10], name[11:], str(max(runs)))
    results = linked_results(README)
    counts = {len(figure["runs"]) for row in results["rows"] for figure in row["figures"].values()}
    assert alike == (results["date"], results["commit"], str(max(counts)))


def runs_of(results: dict[str, Any], experiment: str) -> list[dict[str, Any]]:
    """Return the runs of an experiment, of all brokers."""
    (found,) = [each["runs"] for each in results["experiments"] if each["name"] == experiment]
    runs: list[dict[str, Any]] = found
    return runs


def cores_used(results: dict[str, Any], experiment: str, broker: str) -> list[float]:
    """Return how many cores a broker used in each run of an experiment."""
    details = [run["details"] for run in runs_of(results, experiment) if run["broker"] == broker]
    return [each["server_cpu_seconds"] / each["wall_seconds"] for each in details]


def spread(results: dict[str, Any], experiments: tuple[str, ...], broker: str) -> str:
    """Return the fewest and the most cores in some experiments, as pages say them."""
    found = [cores for name in experiments for cores in cores_used(results, name, broker)]
    fewest, most = f"{min(found):.1f}", f"{max(found):.1f}"
    return fewest if fewest == most else f"{fewest} to {most}"


def test_figures_that_the_readme_quotes_in_words_stand_on_the_page_of_benchmarks() -> None:
    quoted = README.read_text().partition("### Alike messages")[2].partition("\n## ")[0]
    quoted = quoted.replace("\n", " ")
    page = BENCHMARKS.read_text()
    results = linked_results(BENCHMARKS)
    large = {
        each["broker"]: f"{each['messages_per_second']:,.0f}"
        for each in results["sizes"]
        if each["workload"] == "durable" and each["body_bytes"] == 65_536
    }
    assert f"of 64 KiB: {large[OURS]} a second beside {large[RABBITMQ]}" in quoted
    for figure in large.values():
        assert figure in page
    (cores,) = {f"{each:.1f}" for each in cores_used(results, "durable", RABBITMQ)}
    assert f"({cores} of the two in the first row)" in quoted
    assert f"All {len(results['rows'])} rows" in quoted


def test_the_page_of_benchmarks_says_how_much_both_brokers_did_and_how_runs_differ() -> None:
    page = BENCHMARKS.read_text().replace("\n ", "")
    results = linked_results(BENCHMARKS)
    published = [run["details"]["published"] for run in runs_of(results, "backlog")]
    fewer, more = sorted(set(published))
    assert f"RabbitMQ had {fewer:,} messages in its backlog, this server {more:,}" in page
    transient, durable = ("transient", "acks", "acks-1k"), ("durable", "durable-1k")
    theirs = [spread(results, names, RABBITMQ) for names in (transient, durable)]
    ours = [spread(results, names, OURS) for names in (transient, durable)]
    cores = f"{theirs[0]} of the two cores in the first three rows, and {theirs[1]} in the durable"
    assert f"RabbitMQ used {cores}" in page
    assert f"This server used {ours[0]}, and {ours[1]}." in page


def real_traffic(page: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the results of real traffic that a page links to, by row and broker."""
    (name,) = set(re.findall(r"bench/results/([\w-]+-traffic\.json)", page.read_text()))
    found = json.loads((REPOSITORY / "bench" / "results" / name).read_text())
    return {(each["row"], each["broker"]): each for each in found["results"]}


def server_us(result: dict[str, Any]) -> float:
    """Return the median of the broker's CPU for a message, in microseconds."""
    value: float = statistics.median(run["server_us"] for run in result["runs"])
    return value


def check_real_row(cells: list[str], row: str, results: dict[tuple[str, str], Any]) -> None:
    """Check rate, RabbitMQ's, their ratio, and the CPU of both for a message."""
    ours, theirs = results[row, OURS], results[row, RABBITMQ]
    rates = ours["per_second"], theirs["per_second"]
    expected = (*rates, rates[0] / rates[1], server_us(ours), server_us(theirs))
    for cell, value in zip(cells, expected, strict=True):
        check_quoted(cell, value)


def test_the_page_of_benchmarks_quotes_every_row_of_real_traffic() -> None:
    results = real_traffic(BENCHMARKS)
    table = table_below(BENCHMARKS, "### Results of real traffic")

    assert [cells[0].strip(" `") for cells in table] == list(
        dict.fromkeys(row for row, _ in results)
    )
    for cells in table:
        check_real_row(cells[2:7], cells[0].strip(" `"), results)
    faults = ("lost", "repeated", "corrupt", "disordered")
    assert not any(
        run[fault] for each in results.values() for run in each["runs"] for fault in faults
    )


def test_the_readme_quotes_real_traffic() -> None:
    results = real_traffic(BENCHMARKS)
    table = table_below(README, "## Numbers")

    assert len(table) == len(README_TRAFFIC)
    for cells, row in zip(table, README_TRAFFIC, strict=True):
        check_real_row(cells[1:], row, results)
