"""The rule finds patches that would do nothing if their name were gone, and nothing else."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.lint.silent_patches import silent_patches

IMPORTS = """\
import sys
from unittest import mock
import amqp_server.base.time_slice
from amqp_server.base import time_slice
from amqp_server.base import time_slice as slices
from amqp_server.base.time_slice import TimeSlice
from tests import limits
"""


def found(line: str) -> list[str]:
    patches = silent_patches(f"{IMPORTS}{line}\n")
    assert {patch.line for patch in patches} <= {IMPORTS.count("\n") + 1}
    return [patch.fault for patch in patches]


@pytest.mark.parametrize(
    "line",
    [
        "monkeypatch.setattr(time_slice, 'SLICE_SECONDS', 0, raising=False)",
        "monkeypatch.setattr(time_slice, 'SLICE_SECONDS', 0, False)",
        "monkeypatch.setattr(TimeSlice, 'is_over', False, raising=False)",
        "monkeypatch.setattr(limits, 'HANG_SECONDS', 0, raising=False)",
        "monkeypatch.setattr('amqp_server.base.time_slice.SLICE_SECONDS', 0, raising=False)",
        "monkeypatch.setattr(f'{package}.SLICE_SECONDS', 0, raising=False)",
        "monkeypatch.setattr(module, 'SLICE_SECONDS', 0, raising=False)",
        "monkeypatch.delattr(time_slice, 'SLICE_SECONDS', raising=False)",
        "monkeypatch.delattr(time_slice, 'SLICE_SECONDS', False)",
        "monkeypatch.delattr('amqp_server.base.time_slice.SLICE_SECONDS', raising=False)",
        "pytest.MonkeyPatch().setattr(time_slice, 'SLICE_SECONDS', 0, raising=False)",
    ],
)
def test_a_patch_that_raises_nothing_is_found(line: str) -> None:
    assert [fault.rpartition(" with ")[2] for fault in found(line)] == ["raising=False"]


@pytest.mark.parametrize(
    "line",
    [
        "mock.patch('amqp_server.base.time_slice.SLICE_SECONDS', 0, create=True)",
        "mock.patch.object(time_slice, 'SLICE_SECONDS', 0, create=True)",
        "mock.patch.multiple(time_slice, create=True, SLICE_SECONDS=0)",
        "with patch.object(slices, 'SLICE_SECONDS', 0, create=True): pass",
        "mocker.patch(name, 0, create=True)",
    ],
)
def test_a_patch_that_creates_its_name_is_found(line: str) -> None:
    assert [fault.rpartition(" with ")[2] for fault in found(line)] == ["create=True"]


@pytest.mark.parametrize(
    "line",
    [
        "time_slice.SLICE_SECOND = 0",
        "slices.SLICE_SECOND = 0",
        "amqp_server.base.time_slice.SLICE_SECOND = 0",
        "time_slice.SLICE_SECOND: float = 0",
        "time_slice.SLICE_SECOND, x = 0, 1",
        "setattr(time_slice, 'SLICE_SECOND', 0)",
        "TimeSlice.is_ended = True",
        "time_slice.TimeSlice.is_ended = True",
        "time_slice.Gone.is_over = True",
        "def cut(): time_slice.SLICE_SECOND = 0",
        "def cut(): import amqp_server.gone; amqp_server.gone.X = 0",  # may be missing: an example
        "def f(x):\n"  # may be missing: an example
        "    from amqp_server.base import time_slice as x; x.SLICE_SECOND = 0",
        "CODE = 'from amqp_server.base import time_slice; time_slice.SLICE_SECOND = 0'",
    ],
)
def test_an_assignment_to_a_name_that_is_gone_is_found(line: str) -> None:
    patches = silent_patches(f"{IMPORTS}{line}\n")
    assert [" has no attribute " in patch.fault for patch in patches] == [True]


def test_the_fault_names_the_place_that_has_lost_the_name() -> None:
    (fault,) = found("slices.SLICE_SECOND = 0")
    assert fault == "amqp_server.base.time_slice has no attribute 'SLICE_SECOND'"


@pytest.mark.parametrize(
    "line",
    [
        "monkeypatch.setattr(time_slice, 'SLICE_SECONDS', 0)",
        "monkeypatch.setattr(time_slice, 'SLICE_SECONDS', 0, raising=True)",
        "monkeypatch.setattr('sys.stderr.isatty', truth, raising=False)",
        "monkeypatch.setattr(sys.stderr, 'isatty', truth, raising=False)",
        "monkeypatch.delenv('AMQP_SERVER_STORAGE_PATH', raising=False)",
        "mock.patch.object(time_slice, 'SLICE_SECONDS', 0)",
        "mock.patch('sys.stderr', create=True)",
        "SharedMemory(create=True, size=8)",
        "time_slice.SLICE_SECONDS = 0",
        "setattr(time_slice, 'SLICE_SECONDS', 0)",
        "setattr(time_slice, name, 0)",
        "sys.gone = 0",
        "self.SLICE_SECOND = 0",
        "def cut(time_slice): time_slice.SLICE_SECOND = 0",
        "def cut():\n    time_slice = Fake(); time_slice.SLICE_SECOND = 0",
        "x = time_slice.SLICE_SECOND",
        "TEXT = 'Imports say import and time_slice.SLICE_SECOND = 0'",
        "time_slice.SLICE_SECOND = 0  # may be missing: older versions have no slices",
    ],
)
def test_anything_else_is_left_alone(line: str) -> None:
    assert silent_patches(f"{IMPORTS}{line}\n") == []


def test_methods_of_classes_are_looked_at() -> None:
    line = "def test(self):\n    time_slice.SLICE_SECOND = 0"
    source = f"{IMPORTS}class TestSlices:\n{indent(line, '    ')}\n"
    assert len(silent_patches(source)) == 1
