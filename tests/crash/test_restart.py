"""What a stop, a kill and a start keep, message by message (invariant I10)."""

import signal
from pathlib import Path

import pytest
from pamqp.commands import Basic, Connection, Exchange, Queue, Tx

from appendlog.files.bulk_reads import READS_NATIVELY
from appendlog.recovery.log_recovery import RecoveredLog, recover
from appendlog.recovery.segment_recovery import RecoveryContext
from cli.exit_codes import EXIT_TRY_AGAIN
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.crash.messages import channel_to, drain, flags, publish_confirmed, stop_cleanly
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_clean_stop_closes_connections_with_320_and_exits_with_0(
    server: RunningServer, number: signal.Signals
) -> None:
    with channel_to(server) as client:
        server.signal(number)
        close = client.expect_connection_close(320)
        assert close.reply_text == (
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )
        assert server.wait() == 0


def test_flags_are_exact_after_a_clean_stop(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        client.consume("q", prefetch=5)
        tags = [client.expect_delivery().tag for _ in range(5)]
        client.send(Basic.Ack(tags[0]))
        client.send(Basic.Ack(tags[2]))
        # Two more come for the two that were acknowledged.
        assert [client.expect_delivery().body for _ in range(2)] == [b"5", b"6"]
    # The client is gone without a word: what it had is ready again.
    with channel_to(server) as client:
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        delivered = [(str(number).encode(), True) for number in (1, 3, 4, 5, 6)]
        assert drain(client, "q") == delivered + flags(range(7, 10), redelivered=False)


def test_delivered_and_undelivered_messages_are_distinguished_after_a_clean_stop(
    server: RunningServer,
) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        client.consume("q", prefetch=4)
        for _ in range(4):
            client.expect_delivery()
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        expected = flags(range(4), redelivered=True) + flags(range(4, 10), redelivered=False)
        assert drain(client, "q") == expected


@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_undelivered_messages_are_not_marked_however_often_the_server_stops(
    server: RunningServer, restarts: int
) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(6))
    for _ in range(restarts):
        stop_cleanly(server)
        server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(6), redelivered=False)


def test_flags_stay_exact_over_a_second_stop_with_deliveries_between(
    server: RunningServer,
) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(9))
        first = client.get("q", no_ack=False)
        assert first is not None
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        publish_confirmed(client, "q", range(9, 12))
        client.consume("q", prefetch=3)
        assert [client.expect_delivery().redelivered for _ in range(3)] == [True, False, False]
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        expected = flags(range(3), redelivered=True) + flags(range(3, 12), redelivered=False)
        assert drain(client, "q") == expected


def test_no_settled_message_returns_after_a_clean_stop(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(100))
        client.consume("q")
        tags = [client.expect_delivery().tag for _ in range(100)]
        for tag in tags[::2]:
            client.send(Basic.Ack(tag))
        client.ready_count("q")
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        expected = [(str(number).encode(), True) for number in range(1, 100, 2)]
        assert drain(client, "q") == expected


def test_without_checkpoints_a_kill_brings_settled_messages_back(
    start_server: StartServer,
) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        assert len(drain(client, "q")) == 10
        server.kill()
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(10), redelivered=True)


def test_messages_that_a_checkpoint_settled_do_not_return_after_a_kill(
    start_server: StartServer,
) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with channel_to(server) as client:
        client.declare("q")
        client.declare("other")
        publish_confirmed(client, "q", range(10))
        publish_confirmed(client, "other", range(1))
        client.consume("q")
        tags = [client.expect_delivery().tag for _ in range(10)]
        for tag in (tags[0], tags[1], tags[5]):
            client.send(Basic.Ack(tag))
        # A purge is answered after a checkpoint, which is one for all queues.
        client.call(Queue.Purge(queue="other"), Queue.PurgeOk)
        client.send(Basic.Ack(tags[9]))
        client.ready_count("q")
        server.kill()
    server.restart()
    with channel_to(server) as client:
        expected = [(str(number).encode(), True) for number in (2, 3, 4, 6, 7, 8, 9)]
        assert drain(client, "q") == expected
        assert client.ready_count("other") == 0


def test_after_a_kill_every_recovered_message_is_marked_and_no_new_one(
    server: RunningServer,
) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(5))
        server.kill()
    server.restart()
    with channel_to(server) as client:
        publish_confirmed(client, "q", range(5, 8))
        expected = flags(range(5), redelivered=True) + flags(range(5, 8), redelivered=False)
        assert drain(client, "q") == expected


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_transient_messages_of_a_durable_queue_are_lost_at_a_stop(
    server: RunningServer, is_clean: bool
) -> None:
    with channel_to(server) as client:
        client.declare("q")
        for number in range(0, 12, 3):
            publish_confirmed(client, "q", range(number, number + 1))
            publish_confirmed(client, "q", range(number + 1, number + 3), persistent=False)
        assert client.ready_count("q") == 12
        if is_clean:
            stop_cleanly(server, client)
        else:
            server.kill()
    server.restart()
    with channel_to(server) as client:
        assert client.ready_count("q") == 4
        assert [body for body, _ in drain(client, "q")] == [b"0", b"3", b"6", b"9"]
    # The offsets of dropped messages are not used again, as a second restart shows.
    with channel_to(server) as client:
        publish_confirmed(client, "q", range(20, 23))
    stop_cleanly(server)
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(20, 23), redelivered=False)


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "options",
    [{"durable": False}, {"exclusive": True}, {"durable": False, "auto_delete": True}],
    ids=["transient", "exclusive", "auto-delete"],
)
def test_transient_queues_leave_no_file(
    start_server: StartServer, options: dict[str, bool], is_clean: bool
) -> None:
    server = start_server("--ring-size", "1024")
    logs, spilled = server.storage_path / "logs", server.storage_path / "spill"
    with channel_to(server) as client:
        client.declare("kept")
        publish_confirmed(client, "kept", range(1))
        client.declare("passing", **options)
        publish_confirmed(client, "passing", range(3000))
        assert len({path.parent for path in spilled.rglob("*.log")}) == 1, "it did not spill"
        if is_clean:
            stop_cleanly(server, client)
        else:
            server.kill()
    server.restart()
    assert len({path.parent for path in logs.rglob("*.log")}) == 1
    assert not any(spilled.iterdir())
    with channel_to(server) as client:
        client.send(Queue.Declare(queue="passing", passive=True))
        client.expect_channel_close(404)


def test_a_deleted_queue_stays_deleted_after_a_kill_at_delete_ok(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        server.kill()
    server.restart()
    with channel_to(server) as client:
        client.send(Queue.Declare(queue="q", passive=True))
        client.expect_channel_close(404)
        client.open_channel()
        client.declare("q")
        assert client.ready_count("q") == 0
    assert not list((server.storage_path / "logs").rglob("*.log"))


def test_a_queue_that_is_declared_again_is_empty(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        client.declare("q")
        publish_confirmed(client, "q", range(50, 53))
        server.kill()
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(50, 53), redelivered=True)


def test_a_purged_queue_stays_purged_after_a_kill_at_purge_ok(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(10))
        unacked = [client.get("q", no_ack=False) for _ in range(2)]
        assert all(unacked)
        purged = client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
        assert purged.message_count == 8
        publish_confirmed(client, "q", range(10, 12))
        server.kill()
    server.restart()
    with channel_to(server) as client:
        expected = flags(range(2), redelivered=True) + flags(range(10, 12), redelivered=True)
        assert drain(client, "q") == expected


def test_a_purge_at_commit_ok_holds_for_messages_without_a_slot(start_server: StartServer) -> None:
    """Of a commit larger than the ring, a purge had the part only that had found a slot."""
    options = ("--ring-size", "1024", "--ring-bytes", "64KiB")
    server = start_server("--offset-checkpoint-interval", "0", *options)
    with connect(server.address) as client, channel_to(server) as watcher:
        client.open_channel()
        client.declare("q")
        client.call(Tx.Select(), Tx.SelectOk)
        for number in range(20_000):
            client.publish(b"%d" % number, "q")
        client.call(Tx.Commit(), Tx.CommitOk)
        assert watcher.ready_count("q") == 20_000
        assert watcher.call(Queue.Purge(queue="q"), Queue.PurgeOk).message_count == 20_000
        server.kill()
    server.restart()
    with channel_to(server) as client:
        assert client.ready_count("q") == 0


def test_a_purge_of_unconfirmed_messages_holds_too(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        for number in range(500):
            client.publish(str(number).encode(), "q")
        client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
        server.kill()
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == []


def test_definitions_survive_a_kill_at_their_declare_ok(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
        client.call(Exchange.Declare(exchange="gone", durable=True), Exchange.DeclareOk)
        client.declare("q")
        client.call(Queue.Bind(queue="q", exchange="x", routing_key="a"), Queue.BindOk)
        client.call(Queue.Bind(queue="q", exchange="x", routing_key="b"), Queue.BindOk)
        client.call(Queue.Unbind(queue="q", exchange="x", routing_key="b"), Queue.UnbindOk)
        client.call(Exchange.Delete(exchange="gone"), Exchange.DeleteOk)
        server.kill()
    server.restart()
    with channel_to(server) as client:
        client.publish(b"bound", "a", "x", mandatory=True)
        client.expect(Basic.Ack)
        client.publish(b"unbound", "b", "x", mandatory=True)
        assert client.expect_return().body == b"unbound"
        client.expect(Basic.Ack)
        client.send(Exchange.Declare(exchange="gone", passive=True))
        client.expect_channel_close(404)


def test_a_second_signal_ends_the_server_at_once(server: RunningServer) -> None:
    with channel_to(server) as client:
        # A client that does not answer connection.close holds up a clean stop for a while.
        server.signal(signal.SIGTERM)
        client.expect(Connection.Close, 0)
        server.signal(signal.SIGTERM)
        assert server.wait() == 1
    assert server.restart().is_running


def test_a_second_server_on_the_directory_is_refused_with_the_process_that_uses_it(
    server: RunningServer,
) -> None:
    with RunningServer(server.storage_path) as second:
        second.begin()
        assert second.wait() == EXIT_TRY_AGAIN
        assert len(second.messages) == 1
        assert str(server.pid) in second.messages[0]
        assert str(server.storage_path) in second.messages[0]
    assert server.is_running
    server.kill()
    assert server.restart().is_running


def test_a_port_in_use_stops_the_start_with_one_line_and_an_exit_code_of_its_own(
    server: RunningServer, start_server: StartServer
) -> None:
    storage_path = server.storage_path.parent / "second"
    with RunningServer(storage_path, "--port", str(server.port)) as second:
        second.begin()
        assert second.wait() == EXIT_TRY_AGAIN
        assert len(second.messages) == 1
        assert str(server.port) in second.messages[0]
    # It gave its directory back.
    assert start_server(storage_path=storage_path).is_running


def test_a_start_on_a_port_in_use_leaves_a_clean_stop_clean(
    server: RunningServer, start_server: StartServer
) -> None:
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(6))
    stop_cleanly(server)
    with RunningServer(server.storage_path, "--port", str(start_server().port)) as hindered:
        hindered.begin()
        assert hindered.wait() == EXIT_TRY_AGAIN
    server.restart()
    with channel_to(server) as client:
        assert drain(client, "q") == flags(range(6), redelivered=False)


@pytest.mark.skipif(not READS_NATIVELY, reason="without a compiled kernel there are no images")
def test_a_start_opens_logs_that_are_as_they_were_by_their_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for number in range(80):
            client.declare(f"q{number}")
            publish_confirmed(client, f"q{number}", range(2))
    (torn,) = tmp_path.glob("logs/*/q40/*/*.log")
    torn.write_bytes(torn.read_bytes() + b"torn")
    recovered: list[str] = []

    def watched(context: RecoveryContext) -> RecoveredLog:
        recovered.append(context.identity.queue)
        return recover(context)

    monkeypatch.setattr("appendlog.opening.recover", watched)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        for queue in ("q7", "q40", "q79"):
            assert drain(client, queue) == flags(range(2), redelivered=False)
    assert recovered == ["q40"]
