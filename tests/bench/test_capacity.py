"""The constants of `amqp-server size`, measured small: nothing is lost, all are printed."""

import json
from pathlib import Path

from click.testing import CliRunner

from bench.command import main


def test_each_constant_is_printed_beside_the_one_of_the_model(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--connections", "5", "--queues", "5", "--waiting", "10000", "--rate", "200"]
    options += ["--seconds", "0.1", "--data-dir", str(tmp_path), "--json", str(report)]
    result = CliRunner().invoke(main, ["capacity", *options])

    assert result.exit_code == 0, result.output
    assert "LOST 0" in result.output
    assert list(tmp_path.iterdir()) == [report]
    figures = {
        (each["name"], each["unit"]): each for each in json.loads(report.read_text())["figures"]
    }
    assert len(figures) == 18
    assert all(name in result.output for name, _ in figures)
