"""The footprint of a server at rest, measured small: everything is there after each start."""

from pathlib import Path

from click.testing import CliRunner

from bench.footprint import main


def test_memory_and_starts_are_printed_and_nothing_is_lost(tmp_path: Path) -> None:
    arguments = ["--queues", "5", "--backlog", "1001", "--data-dir", str(tmp_path)]

    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line for line in lines if line.startswith("LOST")] == ["LOST 0", "LOST 0"]
    assert sum(line.startswith("start, ") for line in lines) == 3
    assert sum(line.startswith("RssAnon, ") for line in lines) == 5
