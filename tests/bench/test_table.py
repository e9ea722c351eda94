"""The benchmark table: figures of runs, plan, text, files, and one of its rows for real."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.broker_url import BrokerUrl
from bench.brokers import OURS, OURS_PURE, RABBITMQ, STARTERS
from bench.command import main
from bench.errors import BenchError
from bench.machine import Machine, file_system_of
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker
from bench.table import command, measuring
from bench.table.curves import SizePoint, TimeCurve
from bench.table.experiment import FULL, QUICK_EFFORT, Effort, Experiment, Findings, Row
from bench.table.outcome import Figure, Outcome, Run, one_line
from bench.table.picture import draw
from bench.table.plan import SECONDS_MAX, Clock, PlannedExperiment, plan_experiments
from bench.table.report import Report
from bench.table.results_files import write_all
from bench.table.row_result import RowResult
from bench.table.rows import ROWS
from bench.table.table_session import TableSession
from bench.table.text import ALIKE, format_notes, format_row
from bench.table.time_limit import TookTooLongError, time_limit
from bench.worker import Counters

RATE = Row("rate", "messages", "msg/s", bar=100, ratio_bar=10, interpreted_bar=20)
DELAY = Row(
    "delay",
    "delay",
    "ms",
    is_lower_better=True,
    durability="synced",
    bar=1.0,
    ratio_bar=0.5,
    decimals=2,
)
MEMORY = Row("memory", "memory", "MB", is_lower_better=True, bar=60)
MACHINE = Machine("a processor", 2, 2**30, "Linux 6", "3.11", "abc1234+")


def give(_broker: StartableBroker, _effort: Effort) -> Findings:
    return Findings({"rate": 100.0})


def experiment(
    run: Callable[[StartableBroker, Effort], Findings] = give,
    *,
    name: str = "an experiment",
    rows: tuple[Row, ...] = (RATE,),
    rabbitmq_seconds: float | None = 1,
    runs_max: int | None = None,
) -> Experiment:
    return Experiment(
        name,
        rows,
        run,
        seconds=1,
        rabbitmq_seconds=rabbitmq_seconds,
        runs_max=runs_max,
    )


def run(broker: str, value: float, *, lost: int = 0, others_cores: float = 0.0) -> Run:
    return Run(broker, 1.0, Findings({"rate": value, "delay": value}, lost, others_cores))


def measured(row: Row, **figures: float) -> RowResult:
    brokers = {"ours": OURS, "theirs": RABBITMQ, "pure": OURS_PURE}
    return RowResult(row, {brokers[name]: Figure(value) for name, value in figures.items()})


def session(say: Callable[[str], None] = lambda _: None) -> TableSession:
    """Return a session whose brokers do not exist; its experiments must not connect to them."""

    @contextmanager
    def start(_directory: Path, _ring_slots: int | None) -> Iterator[RunningBroker]:
        yield RunningBroker("none", BrokerUrl("127.0.0.1", 1, "guest", "guest", "/"), None)

    return TableSession({OURS: start, RABBITMQ: start}, Path(), Clock(100), say, keeps_brokers=True)


def plan(*experiments: Experiment, runs: int = 3) -> list[PlannedExperiment]:
    return plan_experiments(experiments, [OURS, RABBITMQ], runs, QUICK_EFFORT)


# Figures of several runs.


def test_a_figure_is_the_median_but_what_was_lost_is_the_worst() -> None:
    figure = Figure.of("rate", [run(OURS, 5), run(OURS, 1, lost=7), run(OURS, 2)])

    assert figure.value == 2
    assert figure.lost == 7


def test_runs_beside_other_programs_are_left_out_as_long_as_there_are_others() -> None:
    busy = run(OURS, 1, others_cores=0.5)

    assert Figure.of("rate", [busy, run(OURS, 8), run(OURS, 9)]) == Figure(8.5)
    assert Figure.of("rate", [busy, busy]) == Figure(1, is_busy=True)


def test_a_run_that_failed_leaves_the_figure_of_the_others_and_its_fault() -> None:
    figure = Figure.of("rate", [run(OURS, 5), Run(OURS, 1.0, fault="it went away")])

    assert (figure.value, figure.fault) == (5, "it went away")


def test_a_fault_is_reported_by_its_last_line_and_without_directories() -> None:
    error = BenchError("publish failed:\nTraceback\nNo such file: /some/where/else/log.txt\n")

    assert one_line(error) == "No such file: .../log.txt"
    assert one_line(KeyError()) == "KeyError"


# Bars and doubts.


def test_each_bar_is_judged_by_itself_the_ratio_first() -> None:
    result = measured(RATE, ours=99, theirs=9, pure=21)

    assert [(each.name, each.is_met) for each in result.judgements] == [
        ("ratio", True),
        ("figure", False),
        ("interpreted", True),
    ]


def test_where_lower_is_better_a_lower_ratio_meets_its_bar() -> None:
    assert all(each.is_met for each in measured(DELAY, ours=0.5, theirs=1.0).judgements)
    assert not any(each.is_met for each in measured(DELAY, ours=1.1, theirs=1.0).judgements)


def test_what_is_not_measured_is_not_judged() -> None:
    assert [each.name for each in measured(RATE, theirs=9).judgements] == []
    assert measured(RATE, ours=5).ratio is None


def test_lost_messages_and_faults_and_busy_machines_are_doubts() -> None:
    figures = {
        OURS: Figure(100, lost=3),
        RABBITMQ: Figure(1, is_busy=True),
        OURS_PURE: Figure(None, fault="it went away"),
    }
    result = RowResult(RATE, figures)

    assert result.faults == ["ours: LOST 3", "ours-pure failed: it went away"]
    assert result.doubts == [*result.faults, "busy machine (rabbitmq)"]


def test_in_memory_only_what_promises_durability_is_in_doubt() -> None:
    assert RowResult(DELAY, {OURS: Figure(1)}, is_in_memory=True).doubts == ["data in memory"]
    assert RowResult(RATE, {OURS: Figure(1)}, is_in_memory=True).doubts == []


# Plan and runs.


def test_brokers_take_turns_run_by_run() -> None:
    with session() as running:
        outcome = running.run(plan(experiment(), runs=2)[0])

    assert [each.broker for each in outcome.runs] == [OURS, RABBITMQ, OURS, RABBITMQ]
    assert all(each.findings for each in outcome.runs)


def test_an_error_stops_one_broker_of_one_experiment_and_is_reported() -> None:
    def break_ours(broker: StartableBroker, effort: Effort) -> Findings:
        broker.running()
        return 1 / 0 if broker.name == OURS else give(broker, effort)  # type: ignore[return-value]

    said: list[str] = []
    broken, whole = plan(experiment(break_ours), experiment(name="another"), runs=2)
    with session(said.append) as running:
        outcomes = [running.run(each) for each in (broken, whole)]

    assert [(each.broker, each.fault) for each in outcomes[0].runs] == [
        (OURS, "division by zero"),
        (RABBITMQ, ""),
        (RABBITMQ, ""),
    ]
    assert "an experiment: ours failed: division by zero" in said
    assert len(outcomes[1].runs) == 4


def test_when_time_runs_out_each_broker_gets_one_run() -> None:
    with session() as running:
        running.clock = Clock(SECONDS_MAX + 100)
        outcome = running.run(plan(experiment(), runs=3)[0])

    assert [each.broker for each in outcome.runs] == [OURS, RABBITMQ]


def test_a_busy_run_is_repeated_once_when_figures_are_to_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.table.table_session.wait_until_quiet", lambda _seconds: True)
    busy = experiment(lambda _broker, _effort: Findings({"rate": 1.0}, others_cores=1.0))
    (planned,) = plan_experiments([busy], [OURS], 1, FULL)

    with session() as running:
        outcome = running.run(planned)

    assert len(outcome.runs) == 2


def test_a_broker_that_is_not_compared_is_left_out() -> None:
    alone = experiment(rows=(MEMORY,), rabbitmq_seconds=None, runs_max=1)
    brokers = [OURS, RABBITMQ, OURS_PURE]

    planned = plan_experiments([alone, experiment()], brokers, 3, FULL)

    assert [(each.brokers, each.runs) for each in planned] == [([OURS], 1), (brokers, 3)]
    assert plan_experiments([alone], [RABBITMQ], 3, FULL) == []


def test_slower_brokers_get_smaller_counts() -> None:
    (planned,) = plan_experiments([experiment()], [OURS, RABBITMQ], 1, FULL)

    assert planned.effort_for(OURS).count(1_000) == 1_000
    assert planned.effort_for(RABBITMQ).count(1_000) == 100
    assert planned.effort_for(RABBITMQ).seconds == FULL.seconds


def test_a_run_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(TookTooLongError, match="not done after"), time_limit(0.01):
        time.sleep(10)


def test_the_time_that_is_left_follows_how_it_went() -> None:
    clock = Clock(100)
    assert clock.left_seconds() == 100
    clock.advance(50)
    assert clock.left_seconds() < 1


# Text, JSON and picture.


def test_a_row_shows_figures_ratio_bars_and_verdict() -> None:
    line = format_row(measured(RATE, ours=99, theirs=9, pure=21))

    assert line.split() == [
        *("messages", "msg/s", "99", ">=100", "9", "11.00x", ">=10x", "21", ">=20"),
        *("MISSED:", "figure;", "met:", "ratio,", "interpreted"),
    ]


def test_a_long_title_goes_over_several_lines() -> None:
    row = replace(RATE, title="many words " * 6 + "at last")

    above, last = format_row(measured(row, ours=1)).splitlines()

    assert above.startswith("many words many words")
    assert "at last" in last
    assert ">=100" in last


def test_a_row_without_rabbitmq_shows_what_there_is() -> None:
    line = format_row(measured(MEMORY, ours=59))

    assert line.split() == ["memory", "MB", "59", "<=60", "-", "-", "-", "met"]


def test_a_row_in_doubt_has_no_verdict() -> None:
    line = format_row(RowResult(RATE, {OURS: Figure(1_000, lost=1)}))

    assert line.endswith("DOES NOT COUNT: ours: LOST 1")


def test_rough_figures_are_not_judged() -> None:
    assert "MISSED" not in format_row(measured(RATE, ours=1), is_judged=False)
    assert not any("bars met" in line for line in format_notes([], is_judged=False))


def test_below_the_table_stand_durability_and_how_many_bars_are_met() -> None:
    notes = list(format_notes([measured(RATE, ours=100, theirs=1), measured(DELAY, ours=2)]))

    assert notes == [
        "transient: rate",
        "synced: delay",
        ALIKE,
        "rows: 2, not counting: 0",
        "bars met: ratio 1 of 1, figure 1 of 2",
    ]


def test_runs_on_both_sides_of_a_bar_are_listed() -> None:
    def notes(*figures: float) -> list[str]:
        outcome = Outcome(experiment(), [run(OURS, figure) for figure in figures])
        return list(format_notes([RowResult.of(DELAY, outcome)]))

    note = "not every run of ours reaches the bar: delay"
    assert f"{note} 2.00; 0.50; 0.25 ms" in notes(2.0, 0.5, 0.25)
    assert f"{note} 0.50; 2.00; 3.00 ms" in notes(0.5, 2.0, 3.0)
    assert not any(note in line for line in (*notes(0.5, 0.6), *notes(2.0, 3.0)))


def report(*results: RowResult, is_quick: bool = False) -> Report:
    outcome = Outcome(experiment(), [run(OURS, 5), Run(OURS, 1.0, fault="it went away")])
    return Report(
        "2031-02-03",
        MACHINE,
        "ext4",
        is_quick,
        {OURS: "amqp-server 1", RABBITMQ: "RabbitMQ 3"},
        results,
        [outcome],
        [SizePoint("transient", OURS, size, 1e9 / size) for size in (16, 1024)],
        [TimeCurve("durable", OURS, [0.2, 0.4], [1e5, 2e5])],
    )


def test_the_json_holds_every_run_the_machine_and_the_commit() -> None:
    document = json.loads(json.dumps(report(measured(RATE, ours=99, theirs=9)).to_json()))

    assert (document["commit"], document["is_dirty"]) == ("abc1234", True)
    assert document["machine"]["processor"] == "a processor"
    (row,) = document["rows"]
    assert (row["key"], row["ratio"], row["figures"]["ours"]["value"]) == ("rate", 11.0, 99)
    assert row["judgements"][0] == {"name": "ratio", "value": 11.0, "bar": 10, "is_met": True}
    runs = document["experiments"][0]["runs"]
    assert [each["fault"] for each in runs] == ["", "it went away"]
    assert runs[0]["values"]["rate"] == 5
    assert document["sizes"][0]["body_bytes"] == 16
    assert document["over_time"][0]["messages_per_second"] == [1e5, 2e5]


def test_a_report_counts_with_missed_bars_but_not_with_lost_messages() -> None:
    lost = RowResult(RATE, {OURS: Figure(1, lost=1)})
    busy = RowResult(RATE, {OURS: Figure(1, is_busy=True)})

    assert report(measured(RATE, ours=1, theirs=1)).counts
    assert not report(lost).counts
    assert not report(busy).counts
    assert report(busy, is_quick=True).counts
    assert not report(lost, is_quick=True).counts


def test_results_are_three_files_named_by_date_and_commit(tmp_path: Path) -> None:
    results = [measured(RATE, ours=99, theirs=9), measured(DELAY, ours=1, theirs=4)]

    files = write_all(report(*results, measured(MEMORY, ours=5)), tmp_path / "results")

    assert [file.name for file in files] == [
        f"2031-02-03-abc1234-dirty.{suffix}" for suffix in ("json", "txt", "png")
    ]
    assert files[2].read_bytes().startswith(b"\x89PNG")
    assert "messages" in files[1].read_text()
    assert not any(str(tmp_path).encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize("ours", [-1.0, 0.0, 1e-6])
def test_figures_around_nothing_can_be_drawn(tmp_path: Path, ours: float) -> None:
    draw(report(measured(DELAY, ours=ours, theirs=1), RowResult(RATE, {})), tmp_path / "it.png")

    assert (tmp_path / "it.png").stat().st_size


def test_a_picture_without_figures_is_a_picture_too(tmp_path: Path) -> None:
    empty = Report("2031-02-03", MACHINE, "ext4", is_quick=False)

    draw(empty, tmp_path / "empty.png")

    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")


def test_points_over_time_are_rates_since_the_last_until_nothing_is_published_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curve, counters, now = TimeCurve("durable", OURS), Counters(), [10.0]
    monkeypatch.setattr("bench.table.curves.time.monotonic", lambda: now[0])
    for at, received in ((10.0, 0), (11.0, 100), (11.1, 150), (11.5, 300), (12.0, 300)):
        now[0], counters.received.value = at, received
        curve.look(counters)
    counters.expected.value = 500
    now[0] = 13.0
    curve.look(counters)

    assert curve.seconds == [0.5, 1.0]
    assert curve.messages_per_second == [400.0, 0.0]


def test_the_file_system_of_a_directory_is_known() -> None:
    assert file_system_of(Path("/proc/self")) == "proc"
    assert file_system_of(Path("/dev/null").parent) != "unknown"


# The command.


@pytest.mark.interop
def test_the_command_measures_a_row_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "QUICK_EFFORT", Effort(0.1, 0.05, 0.0005, is_quick=True))
    monkeypatch.setattr(measuring, "BODY_SIZES", (16,))
    monkeypatch.setattr(measuring, "SIZE_WORKLOADS", ("durable",))
    monkeypatch.setattr("bench.table.curves.TIME_SECONDS", 6.0)
    # Interpreted: the test must also run where the kernels are not compiled.
    monkeypatch.setattr(measuring, "STARTERS", {OURS: STARTERS[OURS_PURE]})
    file = tmp_path / "figures.json"
    arguments = ["table", "--quick", "--brokers", OURS, "--rows", "acks,sizes,over-time"]

    result = CliRunner().invoke(main, [*arguments, "--json", str(file)])

    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    assert [row["key"] for row in document["rows"]] == ["acks"]
    assert document["rows"][0]["figures"]["ours"]["value"] > 0
    assert document["brokers"][OURS].startswith("amqp-server")
    assert [each["lost"] for each in document["sizes"]] == [0]
    assert document["over_time"][0]["lost"] == 0
    assert any(line.startswith("transient, acks") for line in result.stdout.splitlines())


def test_ctrl_c_keeps_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_at_the_second(broker: StartableBroker, _effort: Effort) -> Findings:
        if broker.name == RABBITMQ:
            raise KeyboardInterrupt
        return Findings({"transient": 42.0})

    transient = next(row for row in ROWS if row.key == "transient")
    only = experiment(stop_at_the_second, rows=(transient,))
    monkeypatch.setattr(measuring, "EXPERIMENTS", [only])
    file = tmp_path / "figures.json"
    arguments = ["table", "--quick", "--brokers", f"{OURS},{RABBITMQ}", "--rows", "transient"]

    result = CliRunner().invoke(main, [*arguments, "--json", str(file)])

    assert result.exit_code == 130
    document = json.loads(file.read_text())
    assert document["faults"] == ["interrupted"]
    assert document["rows"][0]["figures"]["ours"]["value"] == 42
    assert any(line.startswith("transient, no acks") for line in result.stdout.splitlines())


def test_options_before_the_commands_name_are_refused() -> None:
    result = CliRunner().invoke(main, ["--quick", "table"])

    assert result.exit_code == 2
    assert "--quick belongs behind the command's name" in result.output


def test_rows_that_do_not_exist_are_refused() -> None:
    result = CliRunner().invoke(main, ["table", "--rows", "speed"])

    assert result.exit_code == 2
    assert "speed; there are transient" in result.output
