"""Retention and compaction wait for the leases of readers in other processes."""

import time
from pathlib import Path

import pytest

from appendlog.reclaim import leases
from appendlog.reclaim.leases import HeldLease
from tests.amqp_client import connect
from tests.system.test_retention import do_rounds, files, fill, take
from tests.threaded_server import ThreadedServer


@pytest.mark.parametrize("ends", ["released", "expired"])
def test_retention_waits_for_a_lease_and_goes_on_when_it_ends(
    tmp_path: Path, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, {})
        queue = server.server.broker.vhosts["/"].queues["q"]
        with HeldLease.take(tmp_path, "/", "q", queue.incarnation, 20) as held:
            take(client, server, 61)
            do_rounds(server)
            # The segment with the offset 20 begins at 18.
            assert queue.store.log.log_start_offset == 18
            assert files(tmp_path) == 8
            if ends == "by itself":
                monkeypatch.setattr(leases, "LEASE_SECONDS", 0)
                held.renew()
                do_rounds(server)
                assert files(tmp_path) == 1
        do_rounds(server)
        assert files(tmp_path) == 1


@pytest.mark.parametrize("step_seconds", [-7200, 7200])
def test_retention_waits_for_a_lease_though_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_seconds: int
) -> None:
    real_ns = time.time_ns
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, {})
        queue = server.server.broker.vhosts["/"].queues["q"]
        with HeldLease.take(tmp_path, "/", "q", queue.incarnation, 20):
            monkeypatch.setattr(time, "time_ns", lambda: real_ns() + step_seconds * 10**9)
            take(client, server, 61)
            do_rounds(server)
            assert queue.store.log.log_start_offset == 18
        do_rounds(server)
        assert files(tmp_path) == 1


def test_compaction_waits_for_a_lease_and_goes_on_when_it_ends(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        fill(client, 61, {})
        # The first message stays with its consumer, and pins all that follow.
        assert client.get("q", no_ack=False) is not None
        assert client.get("q", no_ack=True) is not None
        queue = server.server.broker.vhosts["/"].queues["q"]
        with HeldLease.take(tmp_path, "/", "q", queue.incarnation, 0):
            for _ in range(59):
                client.get("q", no_ack=True)
            server.wait_until(lambda: queue.settlement.settled_above_floor == 60)
            do_rounds(server)
            assert queue.store.log.reclaim.compacted_segments == 0
        do_rounds(server, 12)
        assert queue.store.log.reclaim.compacted_segments == 10
        assert files(tmp_path) == 11
