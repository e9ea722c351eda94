"""The rows of the traffic table against our own server, and the command that runs them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.command import main
from bench.latency import LatencySummary
from bench.our_server import start_our_server
from bench.running_broker import RunningBroker
from bench.traffic import kernel_build
from bench.traffic.figures import TrafficFigures
from bench.traffic.found_rows import ROWS
from bench.traffic.report import format_notes, format_row, ratio_of
from bench.traffic.result import TrafficResult
from bench.traffic.row import TrafficEffort, TrafficRow
from bench.traffic.rows.services import services
from bench.traffic.shape import binding_keys
from bench.traffic.topology import Topology

TINY = TrafficEffort(seconds=0.1, warm_up_seconds=0.0, share=0.001, seed=7)
BY_KEY = {row.key: row for row in ROWS}
FIGURES = TrafficFigures(
    messages=1000,
    seconds=2.0,
    lost=0,
    repeated=0,
    corrupt=0,
    disordered=0,
    latency=LatencySummary(0.001, 0.002, 0.003, 0.004),
    server_cpu_seconds=1.0,
    generator_cpu_seconds=(0.1, 0.2),
    others_cores=0.0,
    seed=1,
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    # Interpreted: the test must also run where the kernels are not compiled.
    with start_our_server("ours", tmp_path_factory.mktemp("server"), is_pure=True) as running:
        yield running


def test_each_row_has_a_key_of_its_own() -> None:
    assert len(BY_KEY) == len(ROWS)
    assert {"services-4x200-few", "services-1x1000-unbounded", "services-16x50-few"} <= set(BY_KEY)


@pytest.mark.interop
@pytest.mark.parametrize(
    "key",
    [
        "services-4x200-unbounded",
        "services-transient",
        "fanout-varied",
        "rpc",
        "gets-varied",
        "declares-varied",
    ],
)
def test_rows_lose_nothing(broker: RunningBroker, key: str) -> None:
    figures = BY_KEY[key].measure(broker, TINY)

    assert figures.faults == 0
    assert figures.messages > 0
    assert figures.per_second > 0
    assert figures.generator_us is not None
    assert figures.generator_us > 0
    assert (figures.latency is None) == (key == "declares-varied")
    json.dumps(figures.to_json())


@pytest.mark.interop
def test_a_run_after_its_warm_up_counts_its_own_messages_only(broker: RunningBroker) -> None:
    effort = replace(TINY, warm_up_seconds=0.1)

    figures = services(2, 20, has_new_keys=False, batch=1)(broker, effort)

    assert figures.faults == 0
    assert figures.messages > 0
    assert figures.latency is not None


@dataclass(frozen=True, slots=True)
class ForgetfulTopology(Topology):
    """Its first queue lacks half of its bindings: the broker confirms and drops those messages."""

    def _keys(self, at: int) -> list[str]:
        return binding_keys(at)[: 50 if at == 0 else None]


@pytest.mark.interop
def test_confirmed_messages_that_do_not_arrive_are_lost(broker: RunningBroker) -> None:
    run = services(2, 50, has_new_keys=True)
    forgetful = replace(run, topology=ForgetfulTopology(run.topology.queues), idle_seconds=0.3)

    assert forgetful(broker, TINY).lost > 0


@pytest.mark.interop
def test_messages_that_come_twice_are_repeated(broker: RunningBroker) -> None:
    run = services(2, 50, has_new_keys=True)
    # Two queues with all bindings of both: each message has two copies.
    twice = replace(run, topology=DoublingTopology(run.topology.queues), idle_seconds=0.3)

    figures = twice(broker, TINY)

    assert figures.repeated > 0


@dataclass(frozen=True, slots=True)
class DoublingTopology(Topology):
    """Each queue gets all messages."""

    def _keys(self, at: int) -> list[str]:
        return ["#"]


def test_the_run_of_services_writes_a_quarter_of_a_small_window() -> None:
    batches = {
        window: services(1, window, has_new_keys=False).batch for window in (0, 1, 50, 200, 1000)
    }
    assert batches == {0: 50, 1: 1, 50: 12, 200: 50, 1000: 50}


def results(ours: list[TrafficFigures], theirs: list[TrafficFigures]) -> list[TrafficResult]:
    row = BY_KEY["services-4x200-few"]
    return [TrafficResult(row, "ours", ours), TrafficResult(row, "rabbitmq", theirs)]


def test_a_row_shows_medians_extremes_counts_and_the_ratio() -> None:
    fast = [replace(FIGURES, messages=count) for count in (3000, 1000, 2000)]
    shown = format_row(results(fast, [FIGURES]))

    assert "1,000" in shown  # the median of 500, 1,000 and 1,500 a second
    assert "(500 - 1,500)" in shown
    assert "6,000" in shown
    assert "ratio" in shown
    assert "2.00x" in shown


@pytest.mark.parametrize("fault", ["lost", "repeated", "corrupt", "disordered"])
def test_a_figure_with_a_fault_does_not_count(fault: str) -> None:
    faulty = replace(FIGURES, **{fault: 1})  # type: ignore[arg-type]
    found = results([faulty], [FIGURES])

    assert found[0].is_wrong
    assert ratio_of(found) is None
    assert "DOES NOT COUNT" in format_row(found)
    assert any("do not count: services-4x200-few (ours)" in each for each in format_notes(found, 1))


def test_a_generator_that_may_be_the_limit_is_named() -> None:
    found = results([replace(FIGURES, generator_cpu_seconds=(1.9, 0.1))], [FIGURES])

    assert "generator-bound" in format_row(found)
    assert any("limit" in each and "(ours)" in each for each in format_notes(found, 1))


def test_a_row_whose_client_is_not_installed_says_which_package_brings_it() -> None:
    row = TrafficRow("key", "title", BY_KEY["rpc"].measure, try_missing=lambda: "install it")
    missing = TrafficResult(row, "ours", fault=row.try_missing(), is_missing=True)

    assert "not measured: install it" in format_row([missing])
    assert not missing.is_wrong


@pytest.mark.interop
def test_the_command_measures_and_writes_all_figures_with_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "traffic.json"
    arguments = [
        "traffic",
        "--quick",
        "--seconds",
        "0.1",
        "--rows",
        "rpc",
        "--brokers",
        "ours-pure",
    ]

    done = CliRunner().invoke(main, [*arguments, "--seed", "99", "--json", str(file)])

    assert done.exit_code == 0, done.output
    assert "seed 99" in done.output
    report = json.loads(file.read_text())
    assert report["seed"] == 99
    (result,) = report["results"]
    assert (result["row"], result["broker"]) == ("rpc", "ours-pure")
    assert result["runs"][0]["lost"] == 0


def test_a_row_that_does_not_exist_is_refused_with_those_that_do() -> None:
    done = CliRunner().invoke(main, ["traffic", "--rows", "nothing"])

    assert done.exit_code == 2
    assert "services-4x200-few" in done.output


def test_without_a_compiler_the_kernel_is_interpreted_and_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_directory: Path) -> Path:
        raise ImportError("No module named 'Cython'")

    monkeypatch.setattr(kernel_build, "_build", fail)
    monkeypatch.setattr(kernel_build, "compiled_file", lambda: tmp_path / "kernel" / "file.so")

    done = CliRunner().invoke(main, ["traffic", "--list"])

    assert done.exit_code == 0
    assert "cannot be compiled: No module named 'Cython': it runs interpreted" in done.output


def test_the_rows_are_listed() -> None:
    done = CliRunner().invoke(main, ["traffic", "--list"])

    assert done.exit_code == 0
    assert "rpc: RPC" in done.output
