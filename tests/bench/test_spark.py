"""The benchmark of the Spark reader."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from appendlog import LogReader
from appendlog.layout.message import decode_message
from appendlog.spark.planning.queues import find_queue
from bench.spark.command import main
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
    assert result.output.split() == ["compiled:", "interpreted:"]
    lines = capfd.readouterr().out.splitlines()
    assert sum("M records/s   LOST 0" in line for line in lines) == 2 * 3
    assert not list(tmp_path.iterdir())
