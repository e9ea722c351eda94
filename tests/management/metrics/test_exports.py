"""Exports on the pages of metrics: what they have noted, and how far behind they are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from amqp_server.management.broker_client import BrokerAway, BrokerClient
from amqp_server.management.mirror.clock import SystemClock
from amqp_server.management.mirror.exports import KEPT_SECONDS, Exports
from appendlog.export_records import begin_record, end_record
from tests.management.conftest import ManagementServer
from tests.management.metrics.samples import samples

ENDED_SECONDS: Final = 1_700_000_000
_PREFIX: Final = "amqp_server_detailed_export"


def test_the_pages_show_when_each_queue_was_exported(management_server: ManagementServer) -> None:
    server = management_server
    assert server.put("/api/queues/%2F/q", {"durable": True}).status == 201
    message = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    for _ in range(5):
        assert server.post("/api/exchanges/%2F/amq.default/publish", message).json["routed"]
    found = server.ask("queues.stats", vhost="/", queue="q", after="", limit=1)["queues"][0]
    row = {"vhost": "/", "queue": "q", "incarnation": found["incarnation"]}
    gone = {**row, "queue": "gone", "status": "failed", "error": "x"}
    record = begin_record(server.storage_path, "s3://lake", {}, 1)
    rows = [{**row, "status": "exported", "end": 2, "rows": 2}, gone]
    end_record(server.storage_path, record, rows, 1, ENDED_SECONDS * 10**9)

    page = server.get(
        "/metrics/detailed?family=export_metrics", user=None, url=server.metrics_url
    ).body
    shown = {
        (name.removeprefix(f"{_PREFIX}_"), each.labels["queue"]): each.value
        for name, found_samples in samples(page).items()
        for each in found_samples
        if name.startswith(_PREFIX)
    }
    assert shown == {
        ("last_run_timestamp_seconds", "q"): ENDED_SECONDS,
        ("last_run_timestamp_seconds", "gone"): ENDED_SECONDS,
        ("failed", "q"): 0,
        ("failed", "gone"): 1,
        ("behind_messages", "q"): 3,
    }
    assert b'vhost="/",queue="q",output="s3://lake"' in page
    sums = server.get("/metrics", user=None, url=server.metrics_url).body.decode()
    assert "\namqp_server_export_failed 1\n" in sums
    assert "\namqp_server_export_behind_messages 3\n" in sums
    assert "export_last_run" not in sums


class _Broker:
    """Counts how often it was asked, as `BrokerClient`."""

    def __init__(self) -> None:
        self.asked = 0

    async def call(self, command: str) -> dict[str, object]:
        assert command == "exports.list"
        self.asked += 1
        return {"exports": []}


class _Clock:
    now = 0.0

    def seconds(self) -> float:
        return self.now

    async def until(self, at_seconds: float) -> None:
        raise NotImplementedError


async def test_the_broker_is_not_asked_with_each_scrape() -> None:
    broker, clock = _Broker(), _Clock()
    exports = Exports(broker, clock)  # type: ignore[arg-type]
    for now in (0.0, 1.0, KEPT_SECONDS - 1, KEPT_SECONDS, KEPT_SECONDS + 1):
        clock.now = now
        await exports.refresh()

    assert broker.asked == 2


async def test_a_broker_that_is_away_is_asked_again_at_once(tmp_path: Path) -> None:
    exports = Exports(BrokerClient(tmp_path), SystemClock())
    for _ in range(2):
        with pytest.raises(BrokerAway):
            await exports.refresh()
