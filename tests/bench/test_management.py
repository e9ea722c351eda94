"""The benchmark of the management server: both phases, no loss, and what an open page asks."""

import json
import re
from pathlib import Path

from click.testing import CliRunner

from bench.command import main
from bench.management.page_requests import (
    EVERY_SECONDS,
    HEALTH_SECONDS,
    OVERVIEW_PAGE,
    QUEUE_COLUMNS,
    QUEUES_PAGE,
    SHARE,
    VHOSTS_SECONDS,
)
from bench.management.rounds import queue_names
from bench.management.spread_blocks import SpreadBlocks

PAGE = Path(__file__).parents[2] / "amqp_server" / "management" / "page"


def test_both_phases_lose_nothing_and_are_judged(tmp_path: Path) -> None:
    data, report = tmp_path / "data", tmp_path / "report.json"
    data.mkdir()
    options = ["--queues", "20", "--spread", "7", "--rate", "200", "--seconds", "1"]
    options += ["--rounds", "1", "--warm-up", "0", "--data-dir", str(data), "--json", str(report)]
    result = CliRunner().invoke(main, ["management", *options])

    assert result.exit_code == 0, result.output
    assert result.output.count("LOST 0") == 2
    assert list(data.iterdir()) == []
    found = json.loads(report.read_text())
    alone, busy = found["phases"]
    assert (alone["has_clients"], busy["has_clients"]) == (False, True)
    for phase in (alone, busy):
        assert (phase["published"], phase["lost"], phase["repeated"]) == (200, 0, 0)
        assert phase["broker_rss_bytes"] > 0
        assert phase["management_rss_bytes"] > 0
    assert alone["http"] == {}
    assert set(busy["http"]) == {"list", "metrics", "page", "page's queues"}
    assert found["idle_management_bytes"] > 0
    assert len(found["bars"]) == 5


def test_blocks_go_to_all_queues_in_turn() -> None:
    names = queue_names(6)
    blocks = SpreadBlocks(1, names, body_bytes=16, block_messages=4)
    octets = b"".join(blocks.encode(number, 0) for number in range(3))
    assert [name.decode() for name in re.findall(rb"q\d", octets)] == names * 2


def test_the_pages_ask_what_the_page_asks() -> None:
    columns = re.search(r"const COLUMNS = \[(.*?)\]", _read("app/queue_list.js"), re.DOTALL)
    assert columns is not None
    assert tuple(re.findall(r'"([^"]+)"', columns[1])) == QUEUE_COLUMNS
    polling = _read("app/polling.js")
    assert f"const EVERY_MS = {EVERY_SECONDS * 1000:.0f};" in polling
    assert f"const SHARE = {SHARE};" in polling
    names = ("views/overview", "views/queues", "parts/shell", "app/chosen_vhost", "app/totals")
    overview, queues, shell, chosen, totals = (_read(f"{name}.js") for name in names)
    # The paths that stand in the views as they are, and their intervals.
    asked = {poll.path.removeprefix("/api/") for poll in (*OVERVIEW_PAGE, *QUEUES_PAGE)}
    views = overview + queues + shell + chosen + totals
    written = set(re.findall(r'usePolled\((?:mayAs\([^)]*\) \? )?"([^"]+)"', views))
    assert written <= asked
    assert {"nodes", "health/checks/alarms", "vhosts?columns=name"} <= written
    assert f'"health/checks/alarms", {HEALTH_SECONDS * 1000:.0f})' in overview
    assert f"const EVERY_MS = {VHOSTS_SECONDS * 1000:,.0f};".replace(",", "_") in chosen


def _read(name: str) -> str:
    return (PAGE / name).read_text()
