"""The storage benchmarks: every one runs, and prints a ratio or a bar."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from appendlog import Compression
from bench.storage.command import find_benchmarks, main
from bench.storage.comparison import Comparison
from bench.storage.made_log import LogSize, make_log, segment_files
from bench.storage.overhead import SENT_BYTES, stored_bytes
from bench.storage.read import read_log, read_windows, read_with_reader

SMALL = ["--mebibytes", "1", "--rounds", "1", "--chunk-bytes", "5000"]


def test_the_storage_rooms_have_their_benchmarks() -> None:
    names = {
        "append",
        "checkpoint",
        "encode",
        "flush-rounds",
        "imports",
        "index",
        "opening",
        "read",
        "recover",
        "seek",
        "settlement",
    }
    assert names <= set(find_benchmarks())


@pytest.mark.parametrize("name", ["append", "read", "recover"])
def test_a_storage_benchmark_ends_each_line_with_a_ratio(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [name, *SMALL, "--data-dir", str(tmp_path)])

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines
    assert all(re.search(r"MB/s   ratio \d+\.\d\d$", line) for line in lines), result.output
    assert list(tmp_path.iterdir()) == []


def test_rounds_over_many_logs_are_measured_beside_one_log_at_a_time(tmp_path: Path) -> None:
    options = ["--rounds", "1", "--batch-bytes", "200", "--data-dir", str(tmp_path), "1", "3"]
    result = CliRunner().invoke(main, ["flush-rounds", *options])

    assert result.exit_code == 0, result.output
    assert len(re.findall(r"ratio \d+\.\d\d$", result.output, re.MULTILINE)) == 3
    assert list(tmp_path.iterdir()) == []


def test_the_imports_of_a_start_are_listed() -> None:
    result = CliRunner().invoke(main, ["imports", "--rounds", "1", "--longest", "2"])

    assert result.exit_code == 0, result.output
    first, *longest = result.output.splitlines()
    assert re.fullmatch(r"imports of a start: \d+ modules, \d+ of them ours, \d+\.\d+ s", first)
    assert longest[0].endswith("amqp_server.server_process")
    assert len(longest) == 2


@pytest.mark.parametrize(
    "options",
    [
        ["index", *SMALL],
        ["embedded", "--records", "2000", "--rounds", "1", "--batch", "100"],
        ["encode", "--records", "300", "--rounds", "1"],
        ["seek", "--records", "3000", "--seeks", "100", "--chunk-bytes", "5000"],
        ["opening", "--queues", "2", "--messages", "9000", "--rounds", "1"],
        ["opening", "--queues", "2", "--messages", "9000", "--rounds", "1", "--priorities"],
    ],
    ids=lambda options: " ".join(options[:1] + options[7:]),
)
def test_a_benchmark_of_a_bar_says_whether_it_is_reached(
    options: list[str], tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, [*options, "--data-dir", str(tmp_path)])

    assert result.exit_code == 0, result.output
    assert re.findall(r"bar .*: (reached|MISSED)$", result.output, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("settlement", ["--in-order", "1000", "--at-random", "1000", "--kept", "1000"]),
        ("checkpoint", ["--queues", "20", "--acks", "1000"]),
    ],
)
def test_a_benchmark_of_the_offsets_says_whether_its_bar_is_reached(
    name: str, options: list[str]
) -> None:
    result = CliRunner().invoke(main, [name, *options])

    assert result.exit_code == 0, result.output
    assert re.findall(r"bar .*: (reached|MISSED)$", result.output, re.MULTILINE)


def test_what_is_read_is_the_whole_log(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", LogSize(300_000, body_bytes=100, chunk_bytes=5_000))

    assert sum(path.stat().st_size for path in segment_files(log.directory)) > 300_000
    directory = log.directory
    counts = {
        read_log(log),
        read_windows(log),
        read_with_reader(directory),
        read_with_reader(directory, copies=True),
    }
    assert counts == {log.log_end_offset}
    assert log.log_end_offset > 2_000
    log.close()


def test_a_ratio_above_one_means_faster_than_what_it_is_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = Comparison("ours", "plain", 1_000_000)
    seconds = iter([3.0, 1.5])
    monkeypatch.setattr("bench.storage.comparison.seconds_of", lambda _: next(seconds))

    comparison.round(lambda: None, lambda: None)

    assert comparison.ratio == 2.0


def test_a_message_in_a_batch_costs_less_than_24_bytes_beside_what_was_sent(
    tmp_path: Path,
) -> None:
    bodies = [b"%0128d" % number for number in range(10_000)]

    stored = stored_bytes(tmp_path, bodies, 1_000, Compression.NONE)

    assert stored / len(bodies) - 128 - SENT_BYTES <= 24


def test_the_overhead_of_a_message_depends_on_the_size_of_its_batch(tmp_path: Path) -> None:
    arguments = ["overhead", "--count", "2000", "--lone-count", "50", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0, result.output
    line = r"(?m)^(.+?) +[0-9.]+ B a message +([-+][0-9.]+) B beyond"
    beyond = {name: float(each) for name, each in re.findall(line, result.output)}
    assert len(beyond) == 5
    assert beyond["1,000 a chunk, zstd"] < 0 < beyond["1,000 a chunk"] < beyond["alone"]
