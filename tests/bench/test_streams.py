"""The benchmark of streams against a server of ours."""

from pathlib import Path

from click.testing import CliRunner

from bench.broker_url import BrokerUrl
from bench.streams import QUEUE, STREAM, StreamBench, main
from tests.servers import RunningServer


def test_every_consumer_of_a_stream_gets_all_of_it(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    bench = StreamBench(url, server.pid, server.storage_path, 2_000, 128)
    bench.fill()
    drained = bench.read("queue", QUEUE, 1, 100)
    read = bench.read("stream", STREAM, 2, 100)
    assert (drained.lost, read.lost) == (0, 0)
    assert read.messages_per_second > 0
    assert read.rss_anon_bytes > 0


def test_the_command_says_what_was_lost_and_which_bars_are_reached(tmp_path: Path) -> None:
    options = ["--count", "1000", "--consumers", "2", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    assert result.output.count("LOST 0") == 3
    assert "mappings of each sealed segment" in result.output
    assert list(tmp_path.iterdir()) == []
