"""What strangers cost a user of the HTTP API: figures and bars."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from bench.command import main
from bench.logins.bars import Answered, judge


def test_each_percentile_has_its_bar() -> None:
    alone = Answered((0.001,) * 100)
    slow = Answered((0.001,) * 95 + (0.102,) * 5)
    hanging = Answered((0.001,) * 99 + (0.252,))

    assert [each.is_reached for each in judge("x", alone, alone)] == [True, True]
    assert [each.is_reached for each in judge("x", alone, slow)] == [False, True]
    assert [each.is_reached for each in judge("x", alone, hanging)] == [True, False]


def test_a_short_run_has_figures_and_verdicts(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    options = ["--connections", "4", "--seconds", "0.3", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(main, ["logins", *options, "--json", str(figures)])

    # A busy machine may miss a bar.
    assert result.exit_code in (0, 1), result.output
    assert len(json.loads(figures.read_text())["bars"]) == 4
    for word in ("wrong passwords", "silent back end", "alone", "attacked", "p95", " x 401"):
        assert word in result.output
