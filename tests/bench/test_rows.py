"""The rows of the benchmark table and the experiments that fill them."""

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.consumer import ConsumeResult
from bench.errors import BenchError
from bench.our_server import start_our_server
from bench.rows import topic
from bench.rows.many_clients import spread_percent
from bench.run import passed_between_marks
from bench.startable_broker import StartableBroker
from bench.table.experiment import FULL, QUICK_EFFORT, Effort, Experiment
from bench.table.rows import EXPERIMENTS, ROWS

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results" / "2026-11-29-c94ae1f7.json"

TINY = Effort(seconds=0.2, warm_up_seconds=0.05, share=0.0004, is_quick=True)


def test_each_row_is_filled_by_one_experiment() -> None:
    filled = Counter(row.key for experiment in EXPERIMENTS for row in experiment.rows)

    assert filled == Counter({row.key: 1 for row in ROWS})
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS)


def test_each_row_has_a_bar_and_what_it_is_compared_with_is_measured() -> None:
    for experiment in EXPERIMENTS:
        for row in experiment.rows:
            assert row.bar is not None or row.ratio_bar is not None
            assert row.ratio_bar is None or experiment.rabbitmq_seconds is not None


def test_lower_figures_reach_a_bar_where_lower_is_better() -> None:
    rows = {row.key: row for row in ROWS}

    assert rows["latency-p99"].reaches(0.5, 0.5)
    assert not rows["latency-p99"].reaches(0.51, 0.5)
    assert rows["transient"].reaches(12.1, 12)
    assert not rows["transient"].reaches(11.9, 12)


def test_the_rows_stand_in_the_order_of_earlier_results() -> None:
    """A new row stands below them; nothing but its own file names it."""
    earlier = [row["key"] for row in json.loads(RESULTS.read_text())["rows"]]

    assert [row.key for row in ROWS][: len(earlier)] == earlier


def test_fairness_is_what_each_queue_gave_between_the_marks() -> None:
    def seen(*received_at: tuple[int, ...]) -> ConsumeResult:
        return ConsumeResult((90, 90), 180, 0, 0, 0.0, array("q"), received_at)

    assert passed_between_marks(seen((10, 20), (40, 80))) == (30, 60)
    assert passed_between_marks(seen((10, 20))) == ()
    with pytest.raises(BenchError, match="ended before"):
        spread_percent(())


def test_a_spread_is_the_distance_of_the_extremes_by_the_mean() -> None:
    assert spread_percent([90, 100, 110]) == 20
    assert spread_percent([5, 5]) == 0
    assert spread_percent([0, 0]) == 0


def test_each_routing_key_of_the_topic_exchange_matches_one_binding() -> None:
    keys = topic.routing_keys()
    patterns = [
        re.compile(
            topic.pattern(line)
            .replace(".", r"\.")
            .replace("*", "[^.]+")
            .replace(r"\.#", r"(\..*)?")
            .replace(r"#\.", r"(.*\.)?")
        )
        for line in range(topic.LINES)
    ]

    assert len(set(keys)) == len(keys) == 10_000
    for key in keys[::97]:
        assert sum(bool(each.fullmatch(key)) for each in patterns) == 1


def test_an_effort_gives_its_part_of_a_count() -> None:
    assert FULL.count(5_000_000) == 5_000_000
    assert FULL.for_slower(0.1).count(5_000_000) == 500_000
    assert QUICK_EFFORT.for_slower(0.1).count(1_000, least=100) == 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartableBroker]:
    # Interpreted: the test must also run where the kernels are not compiled.
    with StartableBroker(
        "ours",
        lambda directory: start_our_server("ours", directory, is_pure=True),
        tmp_path_factory.mktemp("servers"),
    ) as startable:
        yield startable


@pytest.mark.interop
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_each_experiment_fills_its_rows_and_loses_nothing(
    broker: StartableBroker, experiment: Experiment
) -> None:
    findings = experiment.run(broker, TINY)

    assert findings.lost == 0
    assert set(findings.values) == {row.key for row in experiment.rows}
    # What is better when it is lower may be 0: how unfair the broker is, how much it grew.
    assert all(findings.values[row.key] > 0 or row.is_lower_better for row in experiment.rows)
    json.dumps(dict(findings.details))


@pytest.mark.interop
def test_what_an_experiment_starts_beside_the_one_that_stays_up_is_another_server(
    broker: StartableBroker,
) -> None:
    staying = broker.running()
    with broker.start() as other:
        assert other.pid != staying.pid
        assert broker.running() is staying
