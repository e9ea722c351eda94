"""Tests in the compiled form: what has no effect there is skipped, and what fails fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cutting import STEPS, is_cut
from tests.limits import HANG_SECONDS
from tests.looked_up_names import is_compiled_in, is_read
from tests.servers import REPOSITORY
from tests.system.test_compiled_loop import needs_library

TURN = "amqp_server.broker.turn"
CHANNEL = "amqp_server.broker.channel"

SUITE = """
from types import SimpleNamespace
from unittest import mock

import pytest

from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker import turn as module
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.turn import Turn
from amqp_server.compiled_loop import loop
from offsets.settlement import Settlement


def a_turn():
    return Turn(lambda call: None, lambda seconds, call: None)


def test_passes():
    assert loop.is_used and hasattr(Turn, "__mypyc_attrs__")


def test_fails():
    assert not loop.is_used


def test_has_an_effect(monkeypatch):
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 1_000.0)
    assert not TimeSlice().is_over
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 0.0)
    assert TimeSlice().is_over


def test_gives_an_attribute(monkeypatch):
    turn = a_turn()
    monkeypatch.setattr(turn, "time_slice", TimeSlice())


def test_skipped_constant(monkeypatch):
    monkeypatch.setattr("appendlog.flushing.flusher.PARALLEL_MAX", 1)


def test_skipped_class(monkeypatch):
    monkeypatch.setattr(module, "TimeSlice", object)


def test_skipped_method(monkeypatch):
    monkeypatch.setattr(Turn, "mark", None)


def test_skipped_method_of_one(monkeypatch):
    monkeypatch.setattr(a_turn(), "mark", None)


def test_skipped_method_with_mock():
    with mock.patch.object(Turn, "mark"):
        pass


def test_skipped_stand_in(monkeypatch):
    monkeypatch.setattr(a_turn(), "time_slice", SimpleNamespace())


@pytest.mark.interpreted("weak references")
def test_skipped_mark():
    raise AssertionError


def test_fails_for_a_confusion_of_its_own():
    a_turn().time_slice = Settlement()


@pytest.fixture
def server():
    raise AssertionError


def test_left_out(server):
    pass
"""


@needs_library
def test_patches_without_effect_and_stand_ins_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = interpreted(reason): a reason\n")
    plugins = ["-p", "tests.compiled_form", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-rA", "--tb=line", str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "AMQP_SERVER_PURE_PYTHON": "0"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    lines = done.stdout.splitlines()
    failed = {line.split("::")[1].split(" ")[0] for line in lines if line.startswith("FAILED")}
    skipped = {line.partition(": ")[2] for line in lines if line.startswith("SKIPPED")}

    assert failed == {"test_fails", "test_fails_for_a_confusion_of_its_own"}, done.stdout
    assert skipped == {
        "has a stand-in for amqp_server.base.time_slice.TimeSlice",
        "looks inside: weak references",
        "patches amqp_server.broker.turn.TimeSlice, which is compiled in",
        "patches amqp_server.broker.turn.Turn.mark, which is compiled in",
        "patches appendlog.flushing.flusher.PARALLEL_MAX, which is compiled in",
    }
    assert "2 failed, 3 passed, 7 skipped, 1 deselected" in lines[-1]


@pytest.mark.parametrize("name", STEPS)
def test_a_constant_that_is_cut_is_looked_up_in_both_forms(name: str) -> None:
    assert is_cut(name)


@needs_library
def test_a_server_that_is_cut_runs_the_compiled_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.cutting", "--version"],
        env={**os.environ, "AMQP_SERVER_PURE_PYTHON": "0", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert "; loop: compiled, " in done.stdout


@pytest.mark.parametrize(
    ("module", "name", "is_fixed"),
    [
        (CHANNEL, "MANY_RUNS", False),
        ("amqp_server.connections.handlers.basic", "MANY_RUNS", False),
        ("amqp_server.broker.publishing.publish_targets", "ROUTES_MAX", True),
        (TURN, "Turn", True),
        (CHANNEL, "UnackedRuns", True),
        (CHANNEL, "logging", False),
        (TURN, "nothing", False),
        ("amqp_server.broker", "turn", False),
        ("time", "time_ns", False),
    ],
)
def test_what_is_compiled_in(module: str, name: str, is_fixed: bool) -> None:
    assert is_compiled_in(module, name, {TURN, "amqp_server.broker.consuming.unacked"}) is is_fixed


def test_functions_and_classes_that_are_not_compiled_are_looked_up() -> None:
    assert not is_compiled_in(TURN, "Turn", ())
    # From one that is not compiled, imported by one that is.
    assert not is_compiled_in(CHANNEL, "UnackedRuns", {CHANNEL})


def test_a_name_that_no_function_reads_is_not_read() -> None:
    assert is_read(CHANNEL, "MANY_RUNS")
    assert not is_read(CHANNEL, "nothing")
    assert not is_read("time", "time_ns")
