"""The benchmarks of the Spark reader."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from appendlog import LogReader
from appendlog.layout.message import decode_message
from appendlog.spark.planning.queues import find_queue
from bench.spark.command import main
from bench.spark.copy import COPY, FUSED, READ, SOURCE, SOURCE_READ, show
from bench.spark.made_queue import QUEUE, VHOST, make_queue


def test_the_queue_that_is_made_has_as_many_different_messages(tmp_path: Path) -> None:
    directory = make_queue(tmp_path, 250)
    assert find_queue(tmp_path, VHOST, QUEUE).directory == directory
    with LogReader(directory) as reader:
        messages = [message for batch in reader.read() for message in batch.messages]
    assert len(set(messages)) == len(messages) == 250
    assert {len(message) + 12 for message in messages} == {455}
    assert len({decode_message(message).properties for message in messages}) == 250


def test_the_decoder_is_measured_in_both_builds_and_loses_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--messages", "500", "--rounds", "1", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(main, ["decode", *options])
    assert result.exit_code == 0, result.output
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(":")] == ["compiled:", "interpreted:"]
    assert sum("M records/s   LOST 0" in line for line in lines) == 2 * 3
    assert not list(tmp_path.iterdir())


def test_a_hundred_offsets_cost_one_segment_and_two_chunks(tmp_path: Path) -> None:
    options = ["--messages", "20000", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(main, ["small-range", *options])
    assert result.exit_code == 0, result.output
    line = result.output.splitlines()[-1]
    assert "opened 1 segment" in line
    assert line.endswith("LOST 0")
    chunks = float(line.split(" chunks")[0].rpartition(" ")[2])
    assert 0 < chunks <= 2.01


def test_a_way_is_shown_with_its_ratio_to_what_it_stands_beside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(False, 3_000, {COPY: 3.0, READ: 1.0, FUSED: 1.0, SOURCE: 4.0, SOURCE_READ: 0.5})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "compiled:"
    assert lines[1].split() == [*COPY.split(), "1", "k", "rows/s"]
    assert lines[3].endswith(f"3.00 x {COPY} (at least 2.5: reached)")
    assert lines[4].endswith(f"0.75 x {COPY} (at least 0.85: missed)")
    assert lines[5].endswith(f"2.00 x {READ} (at least 1.0: reached)")
