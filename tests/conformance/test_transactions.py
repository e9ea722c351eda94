"""Section 6: tx.select, commit and rollback."""

import pytest
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import (
    consume,
    drain,
    expect_bodies,
    expect_quiet,
    fill,
    prefetch,
    take_unacked,
)
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs
from tests.conformance.polling import eventually
from tests.conformance.queues import leave


@pytest.fixture
def onlooker(connect: Connect) -> AmqpClient:
    """Open another connection, which sees what is done."""
    return connect()


@pytest.fixture
def transactional(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 is transactional."""
    client = connect()
    client.call(Tx.Select(), Tx.SelectOk)
    return client


def commit(client: AmqpClient) -> None:
    client.call(Tx.Commit(), Tx.CommitOk)


def rollback(client: AmqpClient) -> None:
    client.call(Tx.Rollback(), Tx.RollbackOk)


class TestSelecting:
    def test_a_channel_may_be_selected_twice(self, transactional: AmqpClient) -> None:
        transactional.call(Tx.Select(), Tx.SelectOk)

    @pytest.mark.parametrize("method", [Tx.Commit, Tx.Rollback])
    def test_a_channel_must_be_selected(
        self, client: AmqpClient, method: type[Tx.Commit | Tx.Rollback]
    ) -> None:
        client.send(method())
        text = "PRECONDITION_FAILED - channel is not transactional"
        expect_channel_error(client, 406, text, method)

    def test_it_concerns_its_channel_only(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        client.call(Tx.Select(), Tx.SelectOk)
        client.declare(name, channel=2)
        client.publish(b"", name, channel=2)
        assert eventually(lambda: client.ready_count(name, channel=2)) == 1

    def test_nothing_may_be_committed_or_rolled_back(self, transactional: AmqpClient) -> None:
        commit(transactional)
        rollback(transactional)
        commit(transactional)

    def test_a_transactional_channel_cannot_switch_to_confirms(self, client: AmqpClient) -> None:
        client.call(Tx.Select(), Tx.SelectOk)
        client.send(Confirm.Select())
        text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
        expect_channel_error(client, 406, text, Confirm.Select)

    def test_a_confirming_channel_cannot_switch_to_transactions(self, connect: Connect) -> None:
        client = connect(confirms=True)
        client.send(Tx.Select())
        text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
        expect_channel_error(client, 406, text, Tx.Select)


class TestPublishes:
    def test_they_are_there_after_the_commit_in_their_order(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        onlooker.declare(name)
        for body in (b"1", b"2", b"3"):
            transactional.publish(body, name)
        assert transactional.ready_count(name) == 0
        assert onlooker.ready_count(name) == 0
        commit(transactional)
        assert onlooker.ready_count(name) == 3
        assert drain(onlooker, name) == [b"1", b"2", b"3"]

    def test_they_are_gone_after_a_rollback(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        onlooker.declare(name)
        transactional.publish(b"never", name)
        rollback(transactional)
        commit(transactional)
        transactional.publish(b"kept", name)
        commit(transactional)
        assert drain(onlooker, name) == [b"kept"]

    def test_they_are_gone_when_the_channel_closes_without_a_commit(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        onlooker.declare(name)
        transactional.publish(b"never", name)
        transactional.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        transactional.open_channel()
        transactional.call(Tx.Select(), Tx.SelectOk)
        commit(transactional)
        assert onlooker.ready_count(name) == 0

    def test_they_are_gone_when_the_connection_is_lost(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        transactional.declare(name)
        transactional.publish(b"never", name)
        assert transactional.ready_count(name) == 0  # the publish has arrived
        leave(transactional)
        assert onlooker.ready_count(name) == 0

    def test_a_mandatory_one_comes_back_at_the_commit_before_commit_ok(
        self, transactional: AmqpClient, name: str
    ) -> None:
        transactional.publish(b"back", name, mandatory=True)
        transactional.call(Channel.Flow(active=True), Channel.FlowOk)
        transactional.send(Tx.Commit())
        assert transactional.expect_return().body == b"back"
        transactional.expect(Tx.CommitOk)

    def test_a_mandatory_one_that_is_rolled_back_does_not_come_back(
        self, transactional: AmqpClient, name: str
    ) -> None:
        transactional.publish(b"never", name, mandatory=True)
        rollback(transactional)
        commit(transactional)

    def test_one_to_a_missing_exchange_closes_the_channel_at_once(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        onlooker.declare(name)
        transactional.publish(b"never", name)
        transactional.publish(b"", "key", name)
        text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
        expect_channel_error(transactional, 404, text, Basic.Publish)
        assert onlooker.ready_count(name) == 0

    def test_an_invalid_one_closes_the_channel_at_once(
        self, transactional: AmqpClient, name: str
    ) -> None:
        transactional.publish(b"", name, properties=Basic.Properties(user_id="somebody"))
        transactional.expect_channel_close(406)


class TestAcknowledgements:
    def test_they_hold_from_the_commit_on(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 3)
        assert take_unacked(transactional, name, 3) == [b"0", b"1", b"2"]
        transactional.send(Basic.Ack(2, True))
        transactional.send(Basic.Reject(3, False))
        commit(transactional)
        transactional.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        assert onlooker.ready_count(name) == 0

    def test_the_channel_closes_without_a_commit_and_the_messages_are_ready_again(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 2)
        take_unacked(transactional, name, 2)
        transactional.send(Basic.Ack(0, True))
        assert transactional.ready_count(name) == 0
        transactional.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        assert drain(onlooker, name) == [b"0", b"1"]

    def test_after_a_rollback_the_messages_are_unacknowledged_as_before(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 2)
        take_unacked(transactional, name, 2)
        transactional.send(Basic.Ack(1))
        rollback(transactional)
        commit(transactional)
        assert onlooker.ready_count(name) == 0  # neither settled nor requeued
        transactional.send(Basic.Ack(1))  # and may be acknowledged again
        commit(transactional)
        transactional.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        assert drain(onlooker, name) == [b"1"]

    def test_after_a_rollback_they_stand_in_their_old_order(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        """`multiple` reaches what lies below it."""
        fill(onlooker, name, 4)
        take_unacked(transactional, name, 4)
        for tag in (3, 1, 2):
            transactional.send(Basic.Ack(tag))
        rollback(transactional)
        transactional.send(Basic.Ack(2, True))
        commit(transactional)
        transactional.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        assert drain(transactional, name) == [b"2", b"3"]

    @pytest.mark.parametrize(
        "method", [Basic.Nack(1, False, True), Basic.Reject(1, True)], ids=["nack", "reject"]
    )
    def test_a_message_is_requeued_by_the_commit(
        self,
        transactional: AmqpClient,
        onlooker: AmqpClient,
        name: str,
        method: Basic.Nack | Basic.Reject,
    ) -> None:
        fill(onlooker, name, 1)
        take_unacked(transactional, name)
        transactional.send(method)
        assert transactional.ready_count(name) == 0
        commit(transactional)
        assert eventually(lambda: onlooker.ready_count(name)) == 1
        again = onlooker.get(name)
        assert again is not None
        assert again.redelivered

    def test_an_unknown_tag_is_an_error_at_once(self, transactional: AmqpClient) -> None:
        transactional.send(Basic.Ack(7))
        text = "PRECONDITION_FAILED - unknown delivery tag 7"
        expect_channel_error(transactional, 406, text, Basic.Ack)

    def test_a_tag_may_be_used_once_in_a_transaction(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 1)
        take_unacked(transactional, name)
        transactional.send(Basic.Ack(1))
        transactional.send(Basic.Ack(1))
        text = "PRECONDITION_FAILED - unknown delivery tag 1"
        expect_channel_error(transactional, 406, text, Basic.Ack)
        assert eventually(lambda: onlooker.ready_count(name)) == 1

    def test_credit_comes_back_with_the_commit(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 2)
        prefetch(transactional, 1)
        consume(transactional, name)
        assert expect_bodies(transactional, 1) == [b"0"]
        transactional.send(Basic.Ack(1))
        expect_quiet(transactional, name)
        commit(transactional)
        assert expect_bodies(transactional, 1) == [b"1"]

    def test_those_from_before_the_selection_hold_without_a_commit(
        self, client: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 1)
        take_unacked(client, name)
        client.send(Basic.Ack(1))
        client.call(Tx.Select(), Tx.SelectOk)
        rollback(client)
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        assert onlooker.ready_count(name) == 0


class TestBoth:
    def test_a_message_is_moved_by_one_commit(
        self, transactional: AmqpClient, onlooker: AmqpClient, new_name: NewName
    ) -> None:
        source, target = new_name(), new_name()
        fill(onlooker, source, 3)
        onlooker.declare(target)
        for tag, body in enumerate(take_unacked(transactional, source, 3), 1):
            transactional.publish(body, target)
            transactional.send(Basic.Ack(tag))
        commit(transactional)
        leave(transactional)
        assert drain(onlooker, source) == []
        assert drain(onlooker, target) == [b"0", b"1", b"2"]

    def test_a_rollback_undoes_both(
        self, transactional: AmqpClient, onlooker: AmqpClient, new_name: NewName
    ) -> None:
        source, target = new_name(), new_name()
        fill(onlooker, source, 1)
        onlooker.declare(target)
        (body,) = take_unacked(transactional, source)
        transactional.publish(body, target)
        transactional.send(Basic.Ack(1))
        rollback(transactional)
        leave(transactional)
        assert drain(onlooker, source) == [b"0"]
        assert drain(onlooker, target) == []


@differs(
    rabbitmq="keeps what the other queues took, and says `partial tx completion`",
    reason="half a transaction is none",
)
def test_a_commit_that_a_full_queue_refuses_does_nothing(
    transactional: AmqpClient, onlooker: AmqpClient, new_name: NewName
) -> None:
    full, other = new_name(), new_name()
    onlooker.declare(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    onlooker.declare(other)
    for queue in (other, full, full):
        transactional.publish(b"x", queue)
    transactional.send(Tx.Commit())
    text = f"PRECONDITION_FAILED - transaction not committed: queue '{full}' in vhost '/' is full"
    expect_channel_error(transactional, 406, text, Tx.Commit)
    assert [onlooker.ready_count(queue) for queue in (full, other)] == [0, 0]


@differs(
    rabbitmq="closes the connection: 504, unexpected command while processing 'tx.commit'",
    reason="methods may be sent ahead behind any other method that waits for the disk",
)
def test_methods_may_follow_a_commit_before_its_answer(
    transactional: AmqpClient, name: str
) -> None:
    transactional.call(Queue.Declare(queue=name, durable=True), Queue.DeclareOk)
    for _ in range(50):
        transactional.publish(b"x", name, properties=Basic.Properties(delivery_mode=2))
    transactional.send(Tx.Commit())
    transactional.send(Queue.Declare(queue=name, passive=True))
    transactional.expect(Tx.CommitOk)
    assert transactional.expect(Queue.DeclareOk).message_count == 50
