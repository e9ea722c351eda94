"""`amqp-server size`: its sums, what it advises, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from cli import capacity, sizing_advice, unit_costs
from cli.capacity import Load, Need
from cli.display import rough_size
from cli.main import main

MIB = 1 << 20
GIB = 1 << 30
RATE = ("--messages-per-second", "500")
LOAD = Load(
    500.0,
    message_bytes=2048,
    queues=200,
    connections=400,
    fanout=2.0,
    backlog_seconds=60.0,
    retain_seconds=86_400.0,
    peak=3.0,
)


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what the command shows."""
    code = main(["size", *arguments])
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def shown_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(capsys, *arguments, "--json"))
    return found


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line that a wrong command line is refused with."""
    assert main(["size", *arguments]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ").rstrip("\n")


def amounts(need: Need) -> dict[str, float]:
    return {term.name: term.amount for term in need.terms}


def test_the_memory_of_the_broker_is_a_sum_over_what_it_holds() -> None:
    found = amounts(capacity.broker_memory(LOAD))
    octets = 2048 + unit_costs.HEADER_BYTES
    in_rings = 256 * MIB / octets
    assert LOAD.waiting == 180_000  # 500/s x 3 x 2 queues x 60 s
    assert LOAD.messages_in_rings == pytest.approx(in_rings)
    assert found == {
        "broker, empty": unit_costs.BROKER_BYTES,
        "connections": 400 * unit_costs.CONNECTION_BYTES,
        "queues": 200 * unit_costs.QUEUE_BYTES,
        "waiting messages in rings": pytest.approx(
            in_rings * (octets + unit_costs.RING_MESSAGE_BYTES)
        ),
        "waiting messages on the disk only": pytest.approx(
            (180_000 - in_rings) * unit_costs.WAITING_MESSAGE_BYTES
        ),
        "windows of readers": 64 * MIB,
        "freed memory": 64 * MIB,
    }
    assert capacity.broker_memory(LOAD).total == pytest.approx(sum(found.values()))


@pytest.mark.parametrize(
    ("changes", "in_rings"),
    [
        ({"backlog_seconds": 0.0}, 0),
        ({"backlog_seconds": 1.0}, 3000),
        ({"queues": 1, "ring_bytes": MIB}, MIB / (2048 + unit_costs.HEADER_BYTES)),
        ({"queues": 1, "message_bytes": 0, "header_bytes": 0}, 65_536),
        ({"ring_bytes": MIB, "ring_bytes_total": MIB}, MIB / (2048 + unit_costs.HEADER_BYTES)),
    ],
    ids=["none waits", "all fit", "one ring's bytes", "one ring's slots", "all rings' bytes"],
)
def test_rings_hold_what_waits_up_to_their_bounds(changes: dict[str, Any], in_rings: float) -> None:
    assert replace(LOAD, **changes).messages_in_rings == pytest.approx(in_rings)


def test_without_a_backlog_no_message_takes_memory() -> None:
    found = amounts(capacity.broker_memory(replace(LOAD, backlog_seconds=0.0)))
    assert [name for name, amount in found.items() if not amount] == [
        "waiting messages in rings",
        "waiting messages on the disk only",
        "windows of readers",
    ]


def test_the_disk_has_what_waits_what_is_kept_and_files_in_part() -> None:
    message = 2048 + unit_costs.HEADER_BYTES + unit_costs.STORED_MESSAGE_BYTES
    found = amounts(capacity.disk(LOAD))
    assert found == {
        "waiting messages": pytest.approx(500 * 3 * 2 * 60 * message),
        "settled messages that are kept": pytest.approx(500 * 2 * 86_400 * message),
        "files that are needed in part": 200 * 64 * MIB,
        "queues": 200 * unit_costs.STORED_QUEUE_BYTES,
        "the server's own files": 65 * MIB,
    }


def test_a_slow_queue_fills_no_segment_in_its_age() -> None:
    slow = replace(LOAD, messages_per_second=0.2)
    message = 2048 + unit_costs.HEADER_BYTES + unit_costs.STORED_MESSAGE_BYTES
    week = 0.2 * 2 * 7 * 86_400 * message
    assert amounts(capacity.disk(slow))["files that are needed in part"] == pytest.approx(week)


def test_open_files_are_one_for_each_connection_and_caches_for_all_queues() -> None:
    assert amounts(capacity.open_files(LOAD)) == {
        "the server itself": 64,
        "connections": 400,
        "caches of logs": 896,
    }
    more = replace(LOAD, queues=100_000)
    assert capacity.open_files(more).total == capacity.open_files(LOAD).total


def test_the_processor_pays_for_publishes_deliveries_octets_and_heartbeats() -> None:
    found = amounts(capacity.processor(LOAD))
    more_kib = (2048 + unit_costs.HEADER_BYTES) / 1024 - 1
    assert found == {
        "messages": pytest.approx(1500 * unit_costs.WINDOW_US / 1e6),
        "further queues": pytest.approx(1500 * unit_costs.DELIVERY_US / 1e6),
        "octets beyond 1 KiB": pytest.approx(3000 * more_kib * unit_costs.KIB_US / 1e6),
        "heartbeats": pytest.approx(400 / 60 * unit_costs.HEARTBEAT_US / 1e6),
    }
    each = amounts(capacity.processor(replace(LOAD, is_confirm_each=True)))
    assert each["messages"] == pytest.approx(1500 * unit_costs.CONFIRM_EACH_US / 1e6)


def test_top_shows_more_for_few_messages_and_no_more_than_one_process_takes() -> None:
    slow, busy, impossible = (replace(LOAD, messages_per_second=each) for each in (30, 3e3, 3e5))
    # 90 messages a second at the peak come alone.
    assert capacity.shown_cores(slow) == pytest.approx(90 * unit_costs.LONE_US / 1e6)
    assert capacity.shown_cores(busy) == unit_costs.PROCESS_CORES_MAX
    assert capacity.processor(impossible).total > unit_costs.PROCESS_CORES_MAX
    assert capacity.shown_cores(impossible) == unit_costs.PROCESS_CORES_MAX


def test_the_settings_follow_from_the_sums() -> None:
    found = {each.name: each.value for each in sizing_advice.settings(LOAD)}
    broker = capacity.broker_memory(LOAD).total
    memory = int(found["MemoryMax="].removesuffix("M")) * MIB
    # The watermark is a share of what the process may use.
    assert 0 <= memory - broker / 0.6 < 64 * MIB
    volume = sizing_advice.volume_bytes(LOAD)
    assert found["volume"] == f"{volume // GIB}GiB"
    assert volume >= 1.1 * (capacity.disk(LOAD).total + 256 * MIB)
    assert found["LimitNOFILE="] == "10960"
    assert found["--disk-free-limit"] == "256MiB"
    assert found["--retain-for"] == "1d"
    assert "--max-connections" not in found


def test_a_fast_publisher_gets_a_larger_free_limit() -> None:
    fast = replace(LOAD, messages_per_second=20_000.0)
    written = capacity.disk_bytes_per_second(fast)
    assert written == pytest.approx(20_000 * 3 * 2 * fast.stored_bytes)
    assert 0 <= sizing_advice.free_limit(fast) - 10 * written < MIB


def test_the_management_server_counts_unless_there_is_none() -> None:
    alone = amounts(capacity.other_memory(replace(LOAD, has_management=False)))
    assert list(alone) == ["sockets"]
    both = amounts(capacity.other_memory(LOAD))
    assert both == {
        "management server, empty": unit_costs.MANAGEMENT_BYTES,
        "its lists of queues": 200 * unit_costs.MANAGED_QUEUE_BYTES,
        "its lists of connections": 400 * unit_costs.MANAGED_CONNECTION_BYTES,
        **alone,
    }


def test_every_row_of_the_table_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    output = shown(capsys, *RATE, "--message-bytes", "2KiB", "--queues", "200", "--retain", "7d")
    table, settings, _ = output.split("\n\n")
    rows = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]
    assert rows[0] == ["NEED", "AMOUNT", "HOW"]
    load = Load(500.0, message_bytes=2048, queues=200, retain_seconds=7 * 86_400.0)
    total = rough_size(round(capacity.broker_memory(load).total))
    assert ["memory of the broker", total, "the sum of:"] in rows
    queues = rough_size(200 * unit_costs.QUEUE_BYTES)
    assert ["queues", queues, f"200 x {unit_costs.QUEUE_BYTES:,} B"] in rows
    sums = [row[0] for row in rows if row[-1] == "the sum of:"]
    assert sums == ["memory of the broker", "memory beside it", "disk", "open files", "processor"]
    assert all(len(row) == 3 for row in rows)
    assert settings.startswith("SET")
    assert "warning" not in output
    assert "`python -m bench traffic`" in output


def test_json_has_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown_json(capsys, *RATE, "--durability", "write", "--confirm-each", "--backlog", "2m")
    assert found["load"]["messages_per_second"] == 500
    assert found["load"]["is_confirm_each"] is True
    assert found["load"]["is_synced"] is False
    assert found["load"]["backlog_seconds"] == 120
    for need in found["needs"]:
        assert need["total"] == pytest.approx(sum(each["amount"] for each in need["terms"]))
    load = Load(**found["load"])
    assert found["needs"][2]["total"] == pytest.approx(capacity.disk(load).total)
    assert found["memory_max_bytes"] == sizing_advice.memory_max(load)
    assert found["volume_bytes"] == sizing_advice.volume_bytes(load)
    assert found["open_files_limit"] == 10_960
    assert found["warnings"] == []


def test_the_defaults_of_the_command_are_those_of_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert Load(**shown_json(capsys, *RATE)["load"]) == Load(500.0)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--messages-per-second", "100000"), r"takes \d\.\d\d of the one core .* over 4 brokers"),
        ((*RATE, "--connections", "12000"), r"--max-connections 13200 and LimitNOFILE=14160"),
        ((*RATE, "--queues", "100001"), r"at most 100,000 queues"),
        ((*RATE, "--message-bytes", "200MiB", "--backlog", "0"), r"refused above --max-message"),
        ((*RATE, "--queues", "2000", "--backlog", "0"), r"a smaller --segment-bytes"),
    ],
    ids=["core", "connections", "queues", "bodies", "segments"],
)
def test_what_one_broker_cannot_do_is_said_with_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str
) -> None:
    output = shown(capsys, *arguments)
    (line,) = [each for each in output.splitlines() if re.search(part, each)]
    assert line.startswith("warning: ")
    assert any(re.search(part, each) for each in shown_json(capsys, *arguments)["warnings"])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "messages-per-second"),
        (("--messages-per-second", "many"), "'many' is not a valid float"),
        (("--messages-per-second", "-1"), "-1"),
        (("--messages-per-second", "nan"), "--messages-per-second: write a number"),
        ((*RATE, "--message-bytes", "5M"), "'5M' is not a size"),
        ((*RATE, "--message-bytes", "1GiB"), "--message-bytes: 1GiB is out of bounds"),
        ((*RATE, "--header-bytes", "2MiB"), "--header-bytes: 2MiB is out of bounds"),
        ((*RATE, "--queues", "0"), "queues"),
        ((*RATE, "--connections", "-1"), "connections"),
        ((*RATE, "--fanout", "-1"), "fanout"),
        ((*RATE, "--peak", "0.5"), "peak"),
        ((*RATE, "--peak", "nan"), "--peak: write a number"),
        ((*RATE, "--backlog", "5"), "'5' has no unit"),
        ((*RATE, "--retain", "40000d"), "--retain: it is out of bounds: write 0 to 36500d"),
        ((*RATE, "--durability", "some"), "durability"),
        ((*RATE, "--ring-bytes", "1KiB"), "write 64KiB to 64GiB"),
        ((*RATE, "--ring-bytes-total", "8MiB"), "must be at least --ring-bytes"),
        ((*RATE, "--segment-bytes", "4GiB"), "write 64KiB to 2GiB"),
        ((*RATE, "more"), "more"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str
) -> None:
    assert part in complaint(capsys, *arguments)


def test_the_largest_load_has_finite_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    most = {
        "--messages-per-second": "100000000",
        "--message-bytes": "512MiB",
        "--header-bytes": "1MiB",
        "--queues": "10000000",
        "--connections": "1000000",
        "--fanout": "100000",
        "--backlog": "36500d",
        "--retain": "36500d",
        "--peak": "1000",
    }
    arguments = [word for pair in most.items() for word in pair]
    assert shown_json(capsys, *arguments)["needs"][2]["total"] > 1e30
    assert "TiB" in shown(capsys, *arguments)
