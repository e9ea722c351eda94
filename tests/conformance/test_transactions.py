"""tx.select, tx.commit and tx.rollback."""

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

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
from tests.conformance.dead_letters import to
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs
from tests.conformance.polling import eventually
from tests.conformance.queues import await_ready_count, leave, take
from tests.conformance.routing import bind_queue, declare_exchange, expect_unroutable


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
    def test_a_channel_may_be_selected_twice(self, transactional: AmqpClient, name: str) -> None:
        transactional.declare(name)
        transactional.publish(b"x", name)
        transactional.call(Tx.Select(), Tx.SelectOk)
        commit(transactional)
        assert drain(transactional, name) == [b"x"]

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
    @pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
    def test_they_are_in_the_queue_after_the_commit_in_their_order(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str, mode: int
    ) -> None:
        onlooker.declare(name)
        for body in (b"1", b"2", b"3"):
            transactional.publish(body, name, properties=Basic.Properties(delivery_mode=mode))
        assert transactional.ready_count(name) == 0
        assert onlooker.ready_count(name) == 0
        commit(transactional)
        assert onlooker.ready_count(name) == 3
        assert drain(onlooker, name) == [b"1", b"2", b"3"]

    def test_a_consumer_gets_them_after_the_commit(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        onlooker.declare(name)
        consume(onlooker, name, no_ack=True)
        transactional.publish(b"held", name)
        expect_quiet(transactional, name)
        expect_quiet(onlooker, name)
        commit(transactional)
        assert expect_bodies(onlooker, 1) == [b"held"]

    @pytest.mark.parametrize("frame_max", [4096, 131_072])
    def test_they_may_be_empty_or_of_many_frames(
        self, connect: Connect, name: str, frame_max: int
    ) -> None:
        client = connect(frame_max=frame_max)
        client.declare(name)
        client.call(Tx.Select(), Tx.SelectOk)
        body = bytes(range(256)) * 4000
        client.publish(body, name)
        client.publish(b"", name)
        commit(client)
        assert drain(client, name) == [body, b""]

    def test_the_queues_of_one_commit_may_be_durable_transient_or_exclusive(
        self, transactional: AmqpClient, new_name: NewName
    ) -> None:
        queues = [new_name() for _ in range(3)]
        transactional.declare(queues[0])
        transactional.declare(queues[1], durable=False)
        transactional.declare(queues[2], exclusive=True)
        for queue in queues:
            transactional.publish(b"x", queue)
        commit(transactional)
        assert [transactional.ready_count(queue) for queue in queues] == [1, 1, 1]

    def test_a_commit_drops_the_oldest_messages_of_a_queue_that_becomes_too_long(
        self, transactional: AmqpClient, name: str
    ) -> None:
        transactional.declare(name, arguments={"x-max-length": 2})
        for number in range(5):
            transactional.publish(b"%d" % number, name)
        commit(transactional)
        assert drain(transactional, name) == [b"3", b"4"]

    def test_they_are_routed_when_they_are_published(
        self, transactional: AmqpClient, new_name: NewName
    ) -> None:
        exchange, first, second = new_name(), new_name(), new_name()
        declare_exchange(transactional, exchange, "fanout")
        for queue in (first, second):
            transactional.declare(queue)
        bind_queue(transactional, first, exchange)
        transactional.publish(b"1", "", exchange)
        transactional.call(Queue.Unbind(queue=first, exchange=exchange), Queue.UnbindOk)
        bind_queue(transactional, second, exchange)
        transactional.publish(b"2", "", exchange)
        transactional.call(Exchange.Delete(exchange=exchange), Exchange.DeleteOk)
        commit(transactional)
        assert (drain(transactional, first), drain(transactional, second)) == ([b"1"], [b"2"])

    def test_a_queue_that_is_deleted_before_the_commit_gets_none(
        self, transactional: AmqpClient, new_name: NewName
    ) -> None:
        deleted, other = new_name(), new_name()
        transactional.declare(deleted)
        transactional.declare(other)
        transactional.publish(b"back", deleted, mandatory=True)
        transactional.publish(b"lost", deleted)
        transactional.publish(b"there", other)
        transactional.call(Queue.Delete(queue=deleted), Queue.DeleteOk)
        transactional.send(Tx.Commit())
        assert transactional.expect_return().body == b"back"
        transactional.expect(Tx.CommitOk)
        assert drain(transactional, other) == [b"there"]

    def test_a_queue_that_is_declared_again_before_the_commit_gets_them(
        self, transactional: AmqpClient, name: str
    ) -> None:
        transactional.declare(name)
        transactional.publish(b"1", name)
        transactional.call(Queue.Delete(queue=name), Queue.DeleteOk)
        transactional.declare(name)
        commit(transactional)
        assert drain(transactional, name) == [b"1"]

    def test_each_channel_has_its_own(self, connect: Connect, name: str) -> None:
        client = connect(channels=2)
        client.declare(name)
        for channel in (1, 2):
            client.call(Tx.Select(), Tx.SelectOk, channel)
            client.publish(b"%d" % channel, name, channel=channel)
        client.call(Tx.Commit(), Tx.CommitOk, 2)
        rollback(client)
        assert drain(client, name) == [b"2"]

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
        expect_unroutable(transactional)
        transactional.expect(Tx.CommitOk)
        rollback(transactional)

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
        await_ready_count(onlooker, name, 2)  # RabbitMQ requeues them after its close-ok
        messages = [onlooker.get(name) for _ in range(2)]
        assert [(each.body, each.redelivered) for each in messages if each] == [
            (b"0", True),
            (b"1", True),
        ]

    def test_after_a_rollback_the_messages_are_unacknowledged_as_before(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 2)
        take_unacked(transactional, name, 2)
        transactional.send(Basic.Ack(1))
        transactional.send(Basic.Nack(2, requeue=True))
        rollback(transactional)
        commit(transactional)
        assert onlooker.ready_count(name) == 0  # neither settled nor requeued
        transactional.send(Basic.Ack(1))  # and may be acknowledged again
        commit(transactional)
        transactional.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        await_ready_count(onlooker, name, 1)
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

    @pytest.mark.parametrize("requeue", [True, False], ids=["requeue", "discard"])
    @pytest.mark.parametrize("method", [Basic.Nack, Basic.Reject])
    def test_a_message_is_requeued_or_discarded_by_the_commit(
        self,
        transactional: AmqpClient,
        onlooker: AmqpClient,
        name: str,
        method: type[Basic.Nack | Basic.Reject],
        requeue: bool,
    ) -> None:
        fill(onlooker, name, 1)
        take_unacked(transactional, name)
        transactional.send(method(delivery_tag=1, requeue=requeue))
        assert transactional.ready_count(name) == 0
        commit(transactional)
        if requeue:
            assert eventually(lambda: onlooker.ready_count(name)) == 1
            again = onlooker.get(name)
            assert again is not None
            assert again.redelivered
        else:
            leave(transactional)
            assert onlooker.ready_count(name) == 0

    def test_a_rejected_message_becomes_a_dead_letter_at_the_commit(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str, dead_letters: str
    ) -> None:
        fill(onlooker, name, 1, arguments=to(dead_letters))
        take_unacked(transactional, name)
        transactional.send(Basic.Reject(1, requeue=False))
        expect_quiet(transactional, name)
        assert onlooker.ready_count(dead_letters) == 0
        commit(transactional)
        assert take(onlooker, dead_letters).body == b"0"

    def test_recover_leaves_out_answered_deliveries(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 2)
        take_unacked(transactional, name, 2)
        transactional.send(Basic.Ack(1))
        transactional.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        await_ready_count(onlooker, name, 1)
        rollback(transactional)
        transactional.call(Basic.Recover(requeue=True), Basic.RecoverOk)
        await_ready_count(onlooker, name, 2)

    def test_a_delivery_without_acknowledgement_is_not_part_of_a_transaction(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str
    ) -> None:
        fill(onlooker, name, 1)
        assert transactional.get(name, no_ack=True) is not None
        rollback(transactional)
        leave(transactional)
        assert onlooker.ready_count(name) == 0

    def test_an_unknown_tag_is_an_error_at_once(self, transactional: AmqpClient) -> None:
        transactional.send(Basic.Ack(7))
        text = "PRECONDITION_FAILED - unknown delivery tag 7"
        expect_channel_error(transactional, 406, text, Basic.Ack)

    @pytest.mark.parametrize("first", [Basic.Ack(1), Basic.Reject(1, requeue=False)])
    def test_a_tag_may_be_used_once_in_a_transaction(
        self,
        transactional: AmqpClient,
        onlooker: AmqpClient,
        name: str,
        first: Basic.Ack | Basic.Reject,
    ) -> None:
        fill(onlooker, name, 1)
        take_unacked(transactional, name)
        transactional.send(first)
        transactional.send(Basic.Ack(1))
        text = "PRECONDITION_FAILED - unknown delivery tag 1"
        expect_channel_error(transactional, 406, text, Basic.Ack)
        assert eventually(lambda: onlooker.ready_count(name)) == 1

    @pytest.mark.parametrize("globally", [False, True], ids=["consumer", "channel"])
    def test_credit_comes_back_with_the_commit_and_after_commit_ok(
        self, transactional: AmqpClient, onlooker: AmqpClient, name: str, globally: bool
    ) -> None:
        fill(onlooker, name, 4)
        prefetch(transactional, 2, globally=globally)
        consume(transactional, name)
        assert expect_bodies(transactional, 2) == [b"0", b"1"]
        transactional.send(Basic.Ack(1))
        transactional.send(Basic.Nack(2, requeue=False))
        expect_quiet(transactional, name)
        commit(transactional)
        assert expect_bodies(transactional, 2) == [b"2", b"3"]

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
        assert take(onlooker, source).body == b"0"
        assert drain(onlooker, source) == []
        assert drain(onlooker, target) == []


@differs(
    rabbitmq="keeps what the other queues took, and says `partial tx completion`",
    reason="half a transaction is none",
)
def test_a_commit_that_a_full_queue_refuses_does_nothing(
    transactional: AmqpClient, onlooker: AmqpClient, new_name: NewName
) -> None:
    full, other, acked = new_name(), new_name(), new_name()
    onlooker.declare(full, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    onlooker.declare(other)
    fill(onlooker, acked, 1)
    take_unacked(transactional, acked)
    transactional.send(Basic.Ack(1))
    for queue in (other, full, full, full):
        transactional.publish(b"x", queue)
    transactional.send(Tx.Commit())
    text = f"PRECONDITION_FAILED - transaction not committed: queue '{full}' in vhost '/' is full"
    expect_channel_error(transactional, 406, text, Tx.Commit)
    assert [onlooker.ready_count(queue) for queue in (full, other, acked)] == [0, 0, 1]
    transactional.open_channel()
    transactional.call(Tx.Select(), Tx.SelectOk)
    for _ in range(2):
        transactional.publish(b"x", full)
    commit(transactional)
    assert onlooker.ready_count(full) == 2


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
    # In one write: between two, a disk that answers at once could end the commit.
    methods = (Tx.Commit(), Queue.Declare(queue=name, passive=True))
    transactional.send_raw(b"".join(frame.marshal(method, 1) for method in methods))
    transactional.expect(Tx.CommitOk)
    assert transactional.expect(Queue.DeclareOk).message_count == 50
