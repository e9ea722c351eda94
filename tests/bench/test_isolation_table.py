"""The isolation benchmark: medians of runs, bars, table, JSON file and command."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.brokers import OURS, RABBITMQ
from bench.command import main
from bench.isolation import command
from bench.isolation.attack import Attack, Stage
from bench.isolation.attacks import ATTACKS
from bench.isolation.bars import judge
from bench.isolation.figures import ProbeFigures, Probes, Result, Run
from bench.isolation.measuring import TimeLimits
from bench.isolation.methods import purge_queue
from bench.isolation.report import format_head, format_notes, format_row
from bench.isolation.session import IsolationSession

CONTROL = Probes(
    ProbeFigures(100, 0.2, 1.0, 4.0, 0, 0.1), ProbeFigures(100, 0.5, 2.0, 5.0, 0, 0.1), 0.01
)
LIMITS = TimeLimits(setup_seconds=15, attack_seconds=15)


def a_run(
    *,
    worst_ms: float = 24.0,
    p99_ms: float = 4.0,
    durable_ms: float = 4.0,
    seconds: float = 1.0,
    is_finished: bool = True,
    unanswered: int = 0,
    others_cores: float = 0.0,
) -> Run:
    loop = ProbeFigures(100, 0.3, p99_ms, worst_ms, unanswered, 0.1)
    durable = ProbeFigures(100, 0.6, durable_ms, 9.0, 0, 0.1)
    return Run(
        setup_seconds=0.1,
        attack_seconds=seconds,
        is_finished=is_finished,
        server_cpu_seconds=0.5,
        attacker_cpu_seconds=0.1,
        written_bytes=4096,
        peak_rss_bytes=50 * 2**20,
        peak_anon_bytes=40 * 2**20,
        others_cores=others_cores,
        stop_seconds=0.2,
        probes=Probes(loop, durable, 0.02),
        control=CONTROL,
    )


def a_result(*runs: Run, broker: str = OURS, is_timed: bool = True) -> Result:
    return Result("purge", broker, list(runs), is_timed=is_timed)


@pytest.mark.parametrize(
    ("run", "marks"),
    [
        (a_run(), "...--"),
        (a_run(worst_ms=24.1), "L..--"),
        (a_run(p99_ms=4.1), ".l.--"),
        (a_run(durable_ms=4.1), "..d--"),
    ],
)
def test_bars_are_relative_to_the_control(run: Run, marks: str) -> None:
    assert judge(a_result(run), None) == marks


@pytest.mark.parametrize(
    ("theirs", "marks"),
    [
        (a_run(), "....."),
        (a_run(seconds=0.9), "...t."),
        (a_run(worst_ms=23.9), "....w"),
        (a_run(p99_ms=3.9), "....w"),
        (a_run(durable_ms=3.9), "....w"),
        (a_run(seconds=2.0, is_finished=False), "....."),
    ],
)
def test_ours_must_not_be_worse_than_rabbitmq(theirs: Run, marks: str) -> None:
    assert judge(a_result(a_run()), a_result(theirs, broker=RABBITMQ)) == marks


def test_an_attack_that_was_cut_off_is_not_as_fast() -> None:
    ours = a_result(a_run(is_finished=False))
    assert judge(ours, a_result(a_run(), broker=RABBITMQ)) == "...t."


def test_a_duration_that_says_nothing_is_not_judged() -> None:
    ours = a_result(a_run(seconds=1.1), is_timed=False)
    assert judge(ours, a_result(a_run(), broker=RABBITMQ)) == "...-."


def test_a_broker_that_failed_is_no_measure() -> None:
    assert judge(a_result(a_run()), a_result(broker=RABBITMQ)) == "...--"


def test_figures_are_medians_of_the_runs() -> None:
    result = a_result(
        a_run(worst_ms=1, seconds=5), a_run(worst_ms=90, seconds=1), a_run(worst_ms=7, seconds=2)
    )

    assert result.probes().loop.worst_ms == 7
    assert result.attack_seconds() == 2
    row = format_row(result, None)
    assert row.split() == [
        *("purge", "ours", "2.00", "0.50", "50", "40", "0.2", "|"),
        *("0.3", "4.0", "1.0", "7.0", "4.0", "|"),
        *("0.6", "4.0", "2.0", "9.0", "5.0", "|", "...--"),
    ]
    assert len(format_head().splitlines()[1]) <= len(row)


def test_what_makes_figures_doubtful_is_said() -> None:
    cut_off = a_result(a_run(is_finished=False, unanswered=3))
    busy = a_result(a_run(others_cores=0.3), broker=RABBITMQ)
    failed = replace(a_result(), fault="it went away")

    assert ">1.00" in format_row(cut_off, None)
    assert format_row(failed, None).split(maxsplit=2) == ["purge", "ours", "it went away"]
    notes = "\n".join(format_notes([cut_off, busy, failed]))
    assert "purge, ours: 3 round trips had no answer" in notes
    assert notes.endswith("busy with other programs; measure again: purge (rabbitmq)")


def test_the_command_lists_attacks_with_their_sizes() -> None:
    found = CliRunner().invoke(main, ["isolation", "--list"])

    assert found.exit_code == 0
    assert [line.partition(":")[0] for line in found.output.splitlines()] == list(ATTACKS)
    assert "purge: a queue with two priorities is purged (messages 500,000)" in found.output
    quick = CliRunner().invoke(main, ["isolation", "--list", "--quick", "--attacks", "purge"])
    assert quick.output == "purge: a queue with two priorities is purged (messages 50,000)\n"


def test_an_unknown_attack_is_refused() -> None:
    found = CliRunner().invoke(main, ["isolation", "--attacks", "purge,kindness"])

    assert found.exit_code == 2
    assert "kindness; there are carbon-copies," in found.output


def test_the_command_measures_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(ATTACKS["purge"], quick={"messages": 1_000})
    monkeypatch.setattr(command, "ATTACKS", {"purge": small})
    file = tmp_path / "figures.json"
    options = ["--quick", "--attacks", "purge", "--brokers", OURS]

    found = CliRunner().invoke(
        main, ["isolation", *options, "--data-dir", str(tmp_path), "--json", str(file)]
    )

    assert found.exit_code == 0, found.output
    assert [
        line.split()[:2] for line in found.output.splitlines() if line.startswith("purge ")
    ] == [["purge", OURS]]
    report = json.loads(file.read_text())
    assert report["is_quick"]
    [result] = report["results"]
    [run] = result["runs"]
    assert run["is_finished"]
    for probes in (run["probes"], run["control"]):
        for probe in (probes["loop"], probes["durable"]):
            # Half a second behind the attack counts too.
            assert probe["count"] >= 90
            assert 0 < probe["p50_ms"] <= probe["p99_ms"] <= probe["worst_ms"]
            assert probe["unanswered"] == 0
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_an_interrupted_command_writes_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(session: IsolationSession, attack: Attack, _: object) -> list[Result]:
        session.results.append(replace(a_result(a_run()), attack=attack.name))
        raise KeyboardInterrupt

    monkeypatch.setattr(IsolationSession, "run", interrupt)
    file = tmp_path / "figures.json"
    options = ["--attacks", "chain,purge", "--brokers", OURS, "--json", str(file)]

    found = CliRunner().invoke(main, ["isolation", *options])

    assert found.exit_code == 130
    assert [each["attack"] for each in json.loads(file.read_text())["results"]] == ["chain"]


def attack_for_ever(stage: Stage) -> Iterator[None]:
    yield
    while True:
        time.sleep(1)


def purge_nothing(stage: Stage) -> Iterator[None]:
    yield
    stage.attacker.ask([purge_queue("nothing")], (50, 31))


def test_an_attack_is_cut_off_once_and_a_refused_one_fails(tmp_path: Path) -> None:
    lines: list[str] = []
    limits = replace(LIMITS, attack_seconds=0.2)
    with IsolationSession([OURS], 2, tmp_path, limits, lines.append) as session:
        [endless] = session.run(Attack("endless", "has no end", attack_for_ever, {}, {}), {})
        [refused] = session.run(Attack("refused", "fails", purge_nothing, {}, {}), {})

    [run] = endless.runs
    assert not run.is_finished
    assert run.attack_seconds >= 0.2
    assert run.probes.loop.count > 0
    assert not endless.fault
    assert not refused.runs
    assert "no queue 'nothing'" in refused.fault
    assert lines[:2] == ["endless: ours, run 1 of 2", "refused: ours, run 1 of 2"]
