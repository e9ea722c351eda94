"""A start after a commit that is not in all its logs: repeated, hindered, or with missing files."""

import random
from contextlib import suppress
from pathlib import Path

import pytest
from crc32c import crc32c
from pamqp.commands import Basic, Channel, Tx

from amqp_server.base.errors import StartupError
from amqp_server.broker.storing.storage_settings import StorageSettings
from appendlog import LogOptions
from appendlog.reclaim.leases import HeldLease
from tests.amqp_client import connect
from tests.crash.moving import (
    MESSAGES,
    committed_in_the_journal_only,
    is_there,
    prepare,
    serve,
    take_all,
    transactional,
)
from tests.crash.power import Power, powered
from tests.limits import HANG_SECONDS

OPERATIONS_MAX = 400

pytestmark = pytest.mark.crash


def test_a_start_that_ends_at_any_operation_can_be_repeated(tmp_path: Path) -> None:
    for step in range(OPERATIONS_MAX):
        power = powered(tmp_path / str(step))
        committed_in_the_journal_only(power)
        again = Power(power.root)
        again.fail_at = step
        is_over = False
        server = serve(again)
        with suppress(StartupError), server:
            is_over = len(again.operations) <= step
            again.unplug()
            server.abandon()
        again.lose(random.Random(step) if step % 2 else None)
        with serve(Power(power.root)) as server:
            assert is_there(server.address)
        if is_over:
            assert step > 5
            return
    raise AssertionError


def test_an_unrecovered_queue_gets_its_part_of_a_commit_when_it_is_recovered(power: Power) -> None:
    committed_in_the_journal_only(power)
    (document,) = power.root.glob("metadata/queues/*/right.json")
    content = document.read_bytes()
    document.write_bytes(b"{")
    for _ in range(2):
        with serve(Power(power.root)) as server, connect(server.address) as client:
            client.open_channel()
            assert len(take_all(client, "left")) == 1 + MESSAGES
            client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
    document.write_bytes(content)
    with serve(Power(power.root)) as server:
        assert is_there(server.address)
    assert not list((power.root / "transactions").iterdir())


def test_a_commit_is_possible_while_a_part_of_the_journal_waits_for_its_queue(
    power: Power,
) -> None:
    """Both wanted the same file, and the first commit after such a start failed."""
    committed_in_the_journal_only(power)
    (document,) = power.root.glob("metadata/queues/*/right.json")
    content = document.read_bytes()
    document.write_bytes(b"{")
    with serve(Power(power.root)) as server, transactional(server) as client:
        client.publish(b"new", "source")
        client.call(Tx.Commit(), Tx.CommitOk)
    document.write_bytes(content)
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        assert take_all(client, "source")[-1] == b"new"
        assert len(take_all(client, "right")) == 1 + MESSAGES


def test_a_damaged_journal_is_kept_and_its_readable_records_are_applied(power: Power) -> None:
    committed_in_the_journal_only(power)
    (journal,) = (power.root / "transactions").iterdir()
    whole = journal.read_bytes()
    journal.write_bytes(b"damage" + whole)
    with serve(Power(power.root)) as server:
        assert is_there(server.address)
    (kept,) = (power.root / "transactions").iterdir()
    assert (kept.suffix, kept.read_bytes()) == (".damaged", b"damage" + whole)


def test_a_journal_of_a_later_version_stops_the_start(power: Power) -> None:
    committed_in_the_journal_only(power)
    (journal,) = (power.root / "transactions").iterdir()
    octets = bytearray(journal.read_bytes())
    octets[16] += 1
    octets[4:8] = crc32c(bytes(octets[8:])).to_bytes(4, "little")
    journal.write_bytes(octets)
    with pytest.raises(StartupError, match="version 2 found, 1 supported"):
        serve(Power(power.root)).__enter__()
    assert journal.read_bytes() == octets


@pytest.mark.parametrize("lease_from", [None, 12])
def test_a_log_keeps_its_part_of_a_commit_until_all_logs_have_theirs(
    power: Power, monkeypatch: pytest.MonkeyPatch, lease_from: int | None
) -> None:
    """Else a start would take it for missing, and append it again.

    A reader in another process may need less of the log: that changes nothing.
    """
    small = LogOptions(segment_bytes=8192)
    monkeypatch.setattr(StorageSettings, "log_options", lambda *_: small)
    with serve(power) as server:
        with connect(server.address) as client:
            prepare(client)
            power.broken = "/right/"
            client.call(Tx.Commit(), Tx.CommitOk)
            queues = server.call(lambda: server.server.broker.vhosts["/"].queues)
            server.wait_until(lambda: queues["right"].store.is_failed)
            if lease_from is not None:
                HeldLease.take(power.root, "/", "left", queues["left"].incarnation, lease_from)
            client.open_channel(2, confirms=True)
            for _ in range(10):
                client.publish(b"later" * 600, "left", channel=2)
                client.expect_confirmed(2)
                while client.get("left", channel=2) is not None:
                    pass
                server.run(server.server.checkpointer.write_round)
            assert len(list(power.root.glob("logs/*/left/*/*.log"))) > 2
            power.unplug()
        server.abandon()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        assert take_all(client, "left") == []
        assert len(take_all(client, "right")) == 1 + MESSAGES
        server.run(server.server.checkpointer.write_round)
        assert server.call(server.server.committer.kept_from) == {}


def test_the_journal_keeps_a_commit_until_the_logs_have_it_on_the_disk(power: Power) -> None:
    """A queue of durability `write` has written it long before."""
    with serve(power) as server:
        with transactional(server) as client:
            client.declare("q", arguments={"x-durability": "write"})
            power.sync_gate.clear()
            client.publish(b"committed", "q")
            client.call(Tx.Commit(), Tx.CommitOk)
            queue = server.server.broker.vhosts["/"].queues["q"]
            server.wait_until(lambda: queue.store.written_end == 1)
            server.run(server.server.checkpointer.write_round)
            assert power.sync_waiting.wait(HANG_SECONDS)
            power.unplug()
        server.abandon()
    power.lose()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        assert take_all(client, "q") == [b"committed"]


def test_messages_settled_by_a_commit_hide_no_later_ones(power: Power) -> None:
    """The record names offsets; they must never be those of other messages after a crash."""
    with serve(power) as server:
        with connect(server.address) as client, connect(server.address) as consumer:
            client.open_channel()
            client.declare("q")
            consumer.open_channel()
            consumer.call(Tx.Select(), Tx.SelectOk)
            power.sync_gate.clear()
            # Delivered, and acknowledged in the transaction, before the disk has them.
            client.publish(b"1", "q")
            client.publish(b"2", "q")
            assert power.sync_waiting.wait(HANG_SECONDS)
            consumer.consume("q")
            tags = [consumer.expect_delivery().tag for _ in range(2)]
            consumer.send(Basic.Ack(tags[-1], multiple=True))
            consumer.publish(b"3", "q")
            consumer.send(Tx.Commit())
            client.call(Channel.Flow(active=True), Channel.FlowOk)
            power.unplug()
        server.abandon()
    power.lose()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"new", "q")
        client.publish(b"new too", "q")
        client.expect_confirmed()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        assert take_all(client, "q") == [b"new", b"new too"]
