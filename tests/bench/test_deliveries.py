"""The benchmark of deliveries: both builds print a figure for every way."""

import re

from click.testing import CliRunner

from bench.deliveries import main


def test_every_way_has_a_figure_for_lists_and_for_buffers() -> None:
    result = CliRunner().invoke(main, ["--run", "5", "--rounds", "1"])

    assert result.exit_code == 0, result.output
    lines = re.findall(
        r"^(compiled|interpreted), .*, (plain|with offset|filtered) +[0-9.]+ +[0-9.]+$",
        result.output,
        re.MULTILINE,
    )
    assert len(lines) == 12
    assert len(set(lines)) == 6
