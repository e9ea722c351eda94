"""Transactions: what a stop and a kill keep, and how large a transaction may be."""

from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Tx

from amqp_server.base.limits import Limits
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

TRANSIENT = Basic.Properties(delivery_mode=1)


def transactional(server: RunningServer | ThreadedServer) -> AmqpClient:
    """Return a client whose channel 1 is transactional."""
    client = connect(server.address)
    client.open_channel()
    client.call(Tx.Select(), Tx.SelectOk)
    return client


def commit(client: AmqpClient) -> None:
    client.call(Tx.Commit(), Tx.CommitOk)


def roll_back(client: AmqpClient) -> None:
    client.call(Tx.Rollback(), Tx.RollbackOk)


def fill(client: AmqpClient, queue: str, *bodies: bytes) -> None:
    """Put messages into a queue, in a transaction of their own."""
    for body in bodies:
        client.publish(body, queue)
    commit(client)


def expect_nothing(client: AmqpClient) -> None:
    """Check that nothing came up to now, with a question that is answered."""
    client.call(Channel.Flow(active=True), Channel.FlowOk)


def test_committed_transactions_survive_a_stop_of_any_kind(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with transactional(server) as client:
        client.declare("q")
        client.declare("other")
        fill(client, "q", b"1", b"2", b"3")
        client.get("q", no_ack=False)
        client.get("q", no_ack=False)
        client.send(Basic.Ack(2, multiple=True))
        client.publish(b"4", "other")
        client.publish(b"gone at a restart", "other", properties=TRANSIENT)
        commit(client)
        client.publish(b"not committed", "q")
        expect_nothing(client)
        server.kill()
    for is_killed in (True, False, False):
        server.restart()
        with transactional(server) as client:
            assert (client.ready_count("q"), client.ready_count("other")) == (1, 1)
            server.kill() if is_killed else server.terminate()
    server.restart()
    with transactional(server) as client:
        assert getattr(client.get("q"), "body", None) == b"3"
        assert getattr(client.get("other"), "body", None) == b"4"


@pytest.mark.parametrize("durability", ["fsync", "write"])
def test_a_committed_ack_is_safe_also_of_a_message_that_was_only_written(
    start_server: StartServer, durability: str
) -> None:
    """It is synced first: the record of the commit names messages that are on the disk."""
    server = start_server("--offset-checkpoint-interval", "0")
    with transactional(server) as client:
        client.declare("q", arguments={"x-durability": durability})
        client.open_channel(2, confirms=True)
        for body in (b"1", b"2"):
            client.publish(body, "q", channel=2)
        client.expect_confirmed(2)
        client.get("q", no_ack=False)
        client.send(Basic.Ack(1))
        commit(client)
        server.kill()
    server.restart()
    with transactional(server) as client:
        assert getattr(client.get("q"), "body", None) == b"2"
        assert client.ready_count("q") == 0


def test_the_journal_is_empty_after_a_clean_stop(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with transactional(server) as client:
        client.declare("q")
        fill(client, "q", *[b"%d" % number for number in range(100)])
        assert list((server.storage_path / "transactions").iterdir())
    server.terminate()
    assert not list((server.storage_path / "transactions").iterdir())


def test_a_transaction_larger_than_allowed_is_refused_and_discarded(tmp_path: Path) -> None:
    limits = Limits(transaction_bytes_per_channel_max=24_000, transaction_bytes_max=25_000)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        transactional(server) as client,
        transactional(server) as other,
    ):
        client.declare("q")
        client.publish(b"x" * 15_000, "q")
        client.publish(b"x" * 9_000, "q")
        close = client.expect_channel_close(406)
        text = "PRECONDITION_FAILED - transaction is larger than configured max size 24000"
        assert close.reply_text == text
        budget = server.server.broker.transaction_budget
        # Behind the answer it is freed in steps.
        server.wait_until(lambda: not budget.held_bytes)
        # Released room can be used again; many small messages take room too.
        other.publish(b"x" * 15_000, "q")
        expect_nothing(other)
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        # 12 to 50 kB, as they are cut into reads. What does not fit into the last 10 kB is one read
        # at most, 12 kB: it does not reach the limit of a channel.
        for _ in range(150):
            client.publish(b"", "q")
        text = client.expect_channel_close(406).reply_text
        assert text.startswith("PRECONDITION_FAILED - transactions of all connections hold ")
        commit(other)
        assert other.ready_count("q") == 1
        other.publish(b"x" * 15_000, "q")
        roll_back(other)
        server.wait_until(lambda: not budget.held_bytes)
