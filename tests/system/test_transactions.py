"""Class tx on a real server: what is held back, what a commit and what a rollback do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from amqp_server.limits import Limits
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Start one server for all tests that do not stop it."""
    with RunningServer(tmp_path_factory.mktemp("tx") / "data") as server:
        yield server.start()
    assert not server.faults, "".join(server.messages)


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    """Open a transactional channel, with the queues `q` and `other`."""
    with transactional(server) as client:
        for queue in ("q", "other"):
            client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
            client.declare(queue)
        yield client


@pytest.fixture
def watcher(server: RunningServer) -> Iterator[AmqpClient]:
    """Open a channel of somebody else."""
    with connect(server.address) as client:
        client.open_channel()
        yield client


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


def test_published_messages_are_there_after_the_commit_and_not_before(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    client.publish(b"1", "q")
    client.publish(b"2", "other")
    client.publish(b"3", "q", properties=TRANSIENT)
    assert client.get("q") is None
    assert (watcher.ready_count("q"), watcher.ready_count("other")) == (0, 0)
    commit(client)
    assert [watcher.ready_count("q"), watcher.ready_count("other")] == [2, 1]
    assert [getattr(watcher.get("q"), "body", None) for _ in range(3)] == [b"1", b"3", None]


def test_a_rollback_drops_the_publishes(client: AmqpClient, watcher: AmqpClient) -> None:
    client.publish(b"dropped", "q")
    roll_back(client)
    commit(client)
    assert watcher.ready_count("q") == 0
    fill(client, "q", b"kept")
    assert watcher.ready_count("q") == 1


def test_an_empty_transaction_is_committed(client: AmqpClient) -> None:
    commit(client)
    roll_back(client)
    commit(client)


@pytest.mark.parametrize("frame_max", [4096, None])
def test_a_message_of_many_frames_and_an_empty_one_are_committed(
    server: RunningServer, frame_max: int | None
) -> None:
    body = bytes(range(256)) * 4000
    with connect(server.address, frame_max=frame_max) as client:
        client.open_channel()
        client.declare("large")
        client.call(Tx.Select(), Tx.SelectOk)
        fill(client, "large", body, b"")
        assert [getattr(client.get("large"), "body", None) for _ in range(2)] == [body, b""]


def test_a_consumer_gets_the_messages_after_the_commit(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    watcher.consume("q", no_ack=True)
    client.publish(b"held", "q")
    expect_nothing(client)
    expect_nothing(watcher)
    commit(client)
    assert watcher.expect_delivery().body == b"held"


def test_select_twice_is_once(client: AmqpClient) -> None:
    client.publish(b"1", "q")
    client.call(Tx.Select(), Tx.SelectOk)
    commit(client)
    assert client.ready_count("q") == 1


@pytest.mark.parametrize(("method", "number"), [(Tx.Commit(), 20), (Tx.Rollback(), 30)])
def test_without_select_there_is_nothing_to_end(
    server: RunningServer, method: Tx.Commit | Tx.Rollback, number: int
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(method)
        close = client.expect_channel_close(406)
        assert close.reply_text == "PRECONDITION_FAILED - channel is not transactional"
        assert (close.class_id, close.method_id) == (90, number)


def test_a_transactional_channel_cannot_have_confirms(client: AmqpClient) -> None:
    client.send(Confirm.Select())
    close = client.expect_channel_close(406)
    assert close.reply_text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    assert (close.class_id, close.method_id) == (85, 10)


def test_a_channel_with_confirms_cannot_be_transactional(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.send(Tx.Select())
        close = client.expect_channel_close(406)
        assert close.reply_text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
        assert (close.class_id, close.method_id) == (90, 10)


def test_a_missing_exchange_is_an_error_at_once_and_discards_the_rest(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    client.publish(b"discarded", "q")
    client.publish(b"nowhere", "q", "missing")
    assert client.expect_channel_close(404).method_id == 40
    assert watcher.ready_count("q") == 0


def test_mandatory_messages_come_back_at_the_commit_before_its_answer(client: AmqpClient) -> None:
    client.publish(b"back", "missing", mandatory=True)
    client.publish(b"there", "q", mandatory=True)
    expect_nothing(client)
    client.send(Tx.Commit())
    returned = client.expect_return()
    assert (returned.body, getattr(returned.method, "reply_code", 0)) == (b"back", 312)
    client.expect(Tx.CommitOk)
    roll_back(client)
    expect_nothing(client)


def test_a_message_is_routed_when_it_is_published(client: AmqpClient) -> None:
    client.call(Exchange.Declare(exchange="x", exchange_type="fanout"), Exchange.DeclareOk)
    client.call(Queue.Bind(queue="q", exchange="x", routing_key=""), Queue.BindOk)
    client.publish(b"1", "", "x")
    client.call(Queue.Unbind(queue="q", exchange="x", routing_key=""), Queue.UnbindOk)
    client.call(Queue.Bind(queue="other", exchange="x", routing_key=""), Queue.BindOk)
    client.publish(b"2", "", "x")
    client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
    commit(client)
    assert getattr(client.get("q"), "body", None) == b"1"
    assert getattr(client.get("other"), "body", None) == b"2"
    assert client.get("q") is None


def test_a_queue_that_is_gone_at_the_commit_is_no_queue(client: AmqpClient) -> None:
    client.publish(b"back", "q", mandatory=True)
    client.publish(b"lost", "q")
    client.publish(b"there", "other")
    client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
    client.send(Tx.Commit())
    assert client.expect_return().body == b"back"
    client.expect(Tx.CommitOk)
    assert client.ready_count("other") == 1


def test_a_method_behind_a_commit_sees_what_it_published(client: AmqpClient) -> None:
    client.declare("q", durable=True)
    client.publish(b"x", "q", properties=Basic.Properties(delivery_mode=2))
    client.send(Tx.Commit())
    client.send(Queue.Delete(queue="q", if_empty=True))
    client.expect(Tx.CommitOk)
    close = client.expect_channel_close(406)
    assert close.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"


def test_a_queue_that_was_declared_again_gets_the_messages(client: AmqpClient) -> None:
    client.publish(b"1", "q")
    client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
    client.declare("q")
    commit(client)
    assert client.ready_count("q") == 1


@pytest.mark.parametrize("multiple", [False, True])
def test_acks_count_from_the_commit_on(
    client: AmqpClient, watcher: AmqpClient, multiple: bool
) -> None:
    fill(client, "q", b"1", b"2", b"3")
    tags = [getattr(client.get("q", no_ack=False), "tag", 0) for _ in range(3)]
    if multiple:
        client.send(Basic.Ack(tags[1], multiple=True))
    else:
        client.send(Basic.Ack(tags[0]))
        client.send(Basic.Ack(tags[1]))
    commit(client)
    client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
    assert watcher.ready_count("q") == 1
    left = watcher.get("q")
    assert left is not None
    assert (left.body, left.redelivered) == (b"3", True)


def test_acks_that_were_not_committed_are_nothing_when_the_channel_closes(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    fill(client, "q", b"1", b"2")
    for _ in range(2):
        client.get("q", no_ack=False)
    client.send(Basic.Ack(0, multiple=True))
    client.publish(b"discarded", "other")
    client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
    assert (watcher.ready_count("q"), watcher.ready_count("other")) == (2, 0)
    messages = [watcher.get("q") for _ in range(2)]
    assert [(m.body, m.redelivered) for m in messages if m] == [(b"1", True), (b"2", True)]


def test_acks_that_were_rolled_back_are_outstanding_again_and_not_redelivered(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    fill(client, "q", b"1", b"2", b"3")
    tags = [getattr(client.get("q", no_ack=False), "tag", 0) for _ in range(3)]
    client.send(Basic.Ack(tags[1]))
    client.send(Basic.Nack(tags[2], requeue=True))
    roll_back(client)
    assert watcher.ready_count("q") == 0
    client.send(Basic.Ack(tags[1], multiple=True))
    commit(client)
    client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
    assert watcher.ready_count("q") == 1
    assert getattr(watcher.get("q"), "body", None) == b"3"


@pytest.mark.parametrize("answer", [Basic.Ack(1), Basic.Reject(1, requeue=False)])
def test_a_tag_is_answered_once_in_a_transaction(
    client: AmqpClient, watcher: AmqpClient, answer: Basic.Ack | Basic.Reject
) -> None:
    fill(client, "q", b"1")
    client.get("q", no_ack=False)
    client.send(answer)
    client.send(Basic.Ack(1))
    assert client.expect_channel_close(406).reply_text.endswith("unknown delivery tag 1")
    assert watcher.ready_count("q") == 1


def test_an_unknown_tag_is_an_error_at_once(client: AmqpClient) -> None:
    client.send(Basic.Ack(7))
    close = client.expect_channel_close(406)
    assert close.reply_text == "PRECONDITION_FAILED - unknown delivery tag 7"


@pytest.mark.parametrize(("requeue", "ready"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("kind", [Basic.Nack, Basic.Reject])
def test_nacks_and_rejects_count_from_the_commit_on(
    client: AmqpClient,
    watcher: AmqpClient,
    kind: type[Basic.Nack | Basic.Reject],
    requeue: bool,
    ready: int,
) -> None:
    fill(client, "q", b"1")
    message = client.get("q", no_ack=False)
    assert message is not None
    client.send(kind(delivery_tag=message.tag, requeue=requeue))
    expect_nothing(client)
    assert watcher.ready_count("q") == 0
    commit(client)
    assert watcher.ready_count("q") == ready


def test_recover_leaves_out_what_was_answered(client: AmqpClient) -> None:
    fill(client, "q", b"1", b"2")
    tags = [getattr(client.get("q", no_ack=False), "tag", 0) for _ in range(2)]
    client.send(Basic.Ack(tags[0]))
    client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
    assert client.ready_count("q") == 1
    roll_back(client)
    client.call(Basic.Recover(requeue=True), Basic.RecoverOk)
    assert client.ready_count("q") == 2


@pytest.mark.parametrize("is_global", [False, True])
def test_credit_comes_with_the_commit_and_after_its_answer(
    client: AmqpClient, is_global: bool
) -> None:
    fill(client, "q", b"1", b"2", b"3", b"4")
    client.call(Basic.Qos(prefetch_count=2, global_=is_global), Basic.QosOk)
    client.consume("q")
    tags = [client.expect_delivery().tag for _ in range(2)]
    client.send(Basic.Ack(tags[0]))
    client.send(Basic.Nack(tags[1], requeue=False))
    expect_nothing(client)
    commit(client)
    assert [client.expect_delivery().body for _ in range(2)] == [b"3", b"4"]


def test_a_no_ack_delivery_is_not_part_of_the_transaction(client: AmqpClient) -> None:
    fill(client, "q", b"1")
    assert client.get("q", no_ack=True) is not None
    roll_back(client)
    assert client.ready_count("q") == 0


def test_channels_have_transactions_of_their_own(client: AmqpClient) -> None:
    client.open_channel(2)
    client.call(Tx.Select(), Tx.SelectOk, 2)
    client.publish(b"1", "q")
    client.publish(b"2", "q", channel=2)
    client.call(Tx.Commit(), Tx.CommitOk, 2)
    roll_back(client)
    assert getattr(client.get("q"), "body", None) == b"2"
    assert client.get("q") is None


def test_a_transaction_over_durable_and_transient_queues_is_one(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    client.declare("memory", durable=False)
    client.declare("own", exclusive=True)
    for queue in ("q", "memory", "own"):
        client.publish(b"1", queue)
    commit(client)
    assert [client.ready_count(queue) for queue in ("q", "memory", "own")] == [1, 1, 1]


def test_a_commit_that_a_full_queue_refuses_does_nothing_at_all(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    fill(client, "q", b"1")
    client.declare("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    assert client.get("q", no_ack=False) is not None
    client.send(Basic.Ack(1))
    client.publish(b"2", "other")
    for _ in range(3):
        client.publish(b"3", "full")
    client.send(Tx.Commit())
    close = client.expect_channel_close(406)
    assert close.reply_text == (
        "PRECONDITION_FAILED - transaction not committed: queue 'full' in vhost '/' is full"
    )
    assert (close.class_id, close.method_id) == (90, 20)
    assert [watcher.ready_count(queue) for queue in ("q", "other", "full")] == [1, 0, 0]
    client.open_channel()
    client.call(Tx.Select(), Tx.SelectOk)
    fill(client, "full", b"1", b"2")
    assert watcher.ready_count("full") == 2


def test_a_commit_drops_the_heads_of_a_queue_that_becomes_too_long(client: AmqpClient) -> None:
    client.declare("short", arguments={"x-max-length": 2})
    fill(client, "short", *[b"%d" % number for number in range(5)])
    assert client.ready_count("short") == 2
    assert [getattr(client.get("short"), "body", None) for _ in range(2)] == [b"3", b"4"]


def test_a_reject_makes_a_dead_letter_at_the_commit(client: AmqpClient) -> None:
    dead_letter = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"}
    client.declare("letters", arguments=dead_letter)
    fill(client, "letters", b"1")
    assert client.get("letters", no_ack=False) is not None
    client.send(Basic.Reject(1, requeue=False))
    expect_nothing(client)
    assert client.ready_count("other") == 0
    client.consume("other", no_ack=True)
    commit(client)
    assert client.expect_delivery().body == b"1"
    assert client.ready_count("letters") == 0


def test_an_answer_to_an_asker_is_sent_at_the_commit(
    client: AmqpClient, watcher: AmqpClient
) -> None:
    watcher.consume("amq.rabbitmq.reply-to", no_ack=True)
    asking = Basic.Properties(reply_to="amq.rabbitmq.reply-to")
    watcher.publish(b"question", "q", properties=asking)
    expect_nothing(watcher)
    question = client.get("q")
    assert question is not None
    assert question.properties.reply_to is not None
    client.publish(b"rolled back", question.properties.reply_to)
    roll_back(client)
    client.publish(b"answer", question.properties.reply_to, mandatory=True)
    expect_nothing(client)
    expect_nothing(watcher)
    commit(client)
    assert watcher.expect_delivery().body == b"answer"


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


def test_the_journal_is_empty_after_a_clean_stop(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    with transactional(server) as client:
        client.declare("q")
        fill(client, "q", *[b"%d" % number for number in range(100)])
        assert list((server.storage_path / "transactions").iterdir())
    server.terminate()
    assert not list((server.storage_path / "transactions").iterdir())


def test_a_transaction_larger_than_allowed_is_refused_and_forgotten(tmp_path: Path) -> None:
    limits = Limits(transaction_bytes_per_channel_max=20_000, transaction_bytes_max=25_000)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        transactional(server) as client,
        transactional(server) as other,
    ):
        client.declare("q")
        client.publish(b"x" * 15_000, "q")
        client.publish(b"x" * 5_000, "q")
        close = client.expect_channel_close(406)
        text = "PRECONDITION_FAILED - transaction is larger than configured max size 20000"
        assert close.reply_text == text
        # What was given back can be used again; many small messages take room too.
        other.publish(b"x" * 15_000, "q")
        expect_nothing(other)
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        for _ in range(200):
            client.publish(b"", "q")
        text = client.expect_channel_close(406).reply_text
        assert text.startswith("PRECONDITION_FAILED - transactions of all connections hold ")
        commit(other)
        assert other.ready_count("q") == 1
        other.publish(b"x" * 15_000, "q")
        roll_back(other)
        assert server.call(lambda: server.server.broker.transaction_budget.held_bytes) == 0
