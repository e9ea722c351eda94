"""What a lone message costs the system is counted from outside the server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench import system_trace
from bench.errors import BenchError


def can_count() -> bool:
    """Return whether perf is there and may count system calls."""
    command = ["perf", "stat", "-e", "raw_syscalls:sys_enter", "true"]
    return (
        shutil.which("perf") is not None
        and not subprocess.run(command, capture_output=True, check=False).returncode
    )


@pytest.mark.skipif(not can_count(), reason="perf is missing, or may not count")
def test_each_leg_reads_and_writes_and_a_confirm_is_synced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(system_trace, "_MESSAGES_BEFORE", 5)
    monkeypatch.setattr(system_trace, "_MESSAGES", 50)

    system_trace.show_system_costs()

    head, *lines = capsys.readouterr().out.splitlines()
    columns = head.split()
    figures = {
        leg: dict(zip(columns, map(float, values), strict=True))
        for leg, *values in (line.split() for line in lines)
    }
    assert set(figures) == {"confirm", "get", "call"}
    assert all(each["read"] > 0 and each["write"] > 0 for each in figures.values())
    assert {leg for leg, each in figures.items() if each["pwritev2"] > 0} == {"confirm"}


def test_without_perf_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="perf is not installed"):
        system_trace.show_system_costs()


def test_a_perf_that_may_not_count_ends_it_with_what_perf_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho 'No permission to enable events.' >&2\nexit 255\n")
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    with pytest.raises(BenchError, match="No permission to enable events"):
        system_trace.show_system_costs()
