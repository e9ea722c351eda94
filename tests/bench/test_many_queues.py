"""Starts and stops with many queues, measured small: all messages are there after each start."""

from pathlib import Path

from click.testing import CliRunner

from bench.many_queues import main


def test_each_step_has_its_figure_and_nothing_is_lost(tmp_path: Path) -> None:
    arguments = ["--queues", "7", "--messages", "3", "--runs", "1"]

    result = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path)])

    assert result.exit_code == 0, result.output
    steps = [line.split(":")[0] for line in result.output.splitlines()]
    assert steps == [
        "start after SIGKILL, never stopped before",
        "from then to the first confirm",
        "start after a clean stop",
        "start after SIGKILL under load",
        "start with the `end` files of before the load",
        "clean stop",
    ]
