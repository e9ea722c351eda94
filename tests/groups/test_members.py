"""Consumer groups of streams: members share, groups do not."""

import pytest
from pamqp.commands import Basic, Channel, Queue, Tx

from tests.amqp_client import connect
from tests.groups.streams import StreamClients, finish, header_of, offset_of, take


def test_members_share_the_messages_of_a_stream_by_credit(stream: StreamClients) -> None:
    stream.publish(6)
    first = stream.member("g", 2, stream_offset="first")
    second = stream.member("g", 3)
    took = take(first, 0, 1)
    take(second, 2, 3, 4)
    stream.expect_nothing(first)
    first.send(Basic.Ack(took[0].tag))
    take(first, 5)


def test_equal_members_take_turns(stream: StreamClients) -> None:
    stream.publish(0)
    clients = [stream.member("g", 10) for _ in range(3)]
    stream.publish(9)
    offsets = [offset_of(client.expect_delivery()) for client in clients for _ in range(3)]
    assert sorted(offsets) == list(range(9))


def test_members_of_a_higher_priority_go_first(stream: StreamClients) -> None:
    stream.publish(0)
    low = stream.member("g", 10, priority=1)
    high = stream.member("g", 2, priority=5)
    stream.publish(4)
    took = take(high, 0, 1)
    take(low, 2, 3)
    high.send(Basic.Ack(took[-1].tag, multiple=True))
    stream.publish(1, first=4)
    take(high, 4)


def test_groups_and_plain_consumers_know_nothing_of_one_another(stream: StreamClients) -> None:
    stream.publish(3)
    one = stream.member("one", stream_offset="first")
    other = stream.member("other", stream_offset="first")
    with connect(stream.server.address) as plain:
        plain.open_channel()
        plain.consume(stream.name, prefetch=10, arguments={"x-stream-offset": "first"})
        for client in (one, other, plain):
            messages = take(client, 0, 1, 2)
            client.send(Basic.Ack(messages[-1].tag, multiple=True))
    stream.publish(1, first=3)
    take(one, 3)
    take(other, 3)


def test_what_is_acked_in_any_order_does_not_come_again(stream: StreamClients) -> None:
    stream.publish(6)
    client = stream.member("g", stream_offset="first")
    messages = take(client, 0, 1, 2, 3, 4, 5)
    for number in (4, 1, 0):
        client.send(Basic.Ack(messages[number].tag))
    finish(client)
    again = take(stream.member("g"), 2, 3, 5)
    assert all(message.redelivered for message in again)


def test_what_a_member_leaves_behind_goes_to_the_others_in_its_place(stream: StreamClients) -> None:
    stream.publish(4)
    client = stream.member("g", 2, stream_offset="first")
    take(client, 0, 1)
    other = stream.member("g", 10)
    take(other, 2, 3)
    client.socket.close()
    for message in take(other, 0, 1):
        assert message.redelivered
        assert header_of(message, "x-delivery-count") == 1


def test_what_is_given_back_says_how_often(stream: StreamClients) -> None:
    stream.publish(2)
    client = stream.member("g", 1, stream_offset="first")
    (message,) = take(client, 0)
    assert not message.redelivered
    assert header_of(message, "x-delivery-count") is None
    for count in (1, 2):
        client.send(Basic.Nack(message.tag, requeue=True))
        (message,) = take(client, 0)
        assert message.redelivered
        assert header_of(message, "x-delivery-count") == count
    client.call(Basic.Recover(True), Basic.RecoverOk)
    (message,) = take(client, 0)
    assert header_of(message, "x-delivery-count") == 3


def test_what_is_rejected_is_done_for_the_whole_group(stream: StreamClients) -> None:
    stream.publish(2)
    client = stream.member("g", 1, stream_offset="first")
    (message,) = take(client, 0)
    client.send(Basic.Reject(message.tag, requeue=False))
    take(client, 1)
    finish(client)
    take(stream.member("g"), 1)


def test_a_group_lives_on_without_members(stream: StreamClients) -> None:
    stream.publish(1)
    client = stream.member("g", stream_offset="first")
    client.send(Basic.Ack(take(client, 0)[0].tag))
    finish(client)
    stream.publish(2, first=1)
    take(stream.member("g", stream_offset="first"), 1, 2)


def test_a_cancelled_member_keeps_what_it_has(stream: StreamClients) -> None:
    stream.publish(2)
    with connect(stream.server.address) as client:
        client.open_channel()
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        ok = client.call(stream.consume("g", stream_offset="first"), Basic.ConsumeOk)
        (message,) = take(client, 0)
        client.call(Basic.Cancel(str(ok.consumer_tag)), Basic.CancelOk)
        other = stream.member("g")
        take(other, 1)
        client.send(Basic.Ack(message.tag))
        finish(client)
        stream.expect_nothing(other)


def test_deleting_the_stream_ends_its_groups(stream: StreamClients) -> None:
    stream.publish(2)
    client = stream.member("g", stream_offset="first")
    messages = take(client, 0, 1)
    with connect(stream.server.address) as other:
        other.open_channel()
        other.call(Queue.Delete(queue=stream.name), Queue.DeleteOk)
    client.expect(Basic.Cancel)
    client.send(Basic.Ack(messages[0].tag))
    stream.publish(3)
    stream.join(client, "g", stream_offset="first")
    take(client, 0, 1, 2)


@pytest.mark.parametrize("name", ["a", "a:b/c", "ü" * 127, "x" * 255])
def test_a_group_may_have_any_name_of_up_to_255_bytes(stream: StreamClients, name: str) -> None:
    stream.publish(1)
    take(stream.member(name, stream_offset="first"), 0)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", 5, True, {"a": "b"}])
def test_other_names_are_refused(stream: StreamClients, name: object) -> None:
    stream.publish(1)
    text = stream.refusal(name)
    assert f"invalid arg 'x-consumer-group' for queue '{stream.name}' in vhost '/': " in text


def test_only_streams_have_groups(stream: StreamClients) -> None:
    with connect(stream.server.address) as client:
        for kind in ("classic", "quorum"):
            client.open_channel()
            client.declare(kind, arguments={"x-queue-type": kind})
            client.send(Basic.Consume(queue=kind, arguments={"x-consumer-group": "g"}))
            close = client.expect_channel_close(406)
            assert close.reply_text == (
                f"PRECONDITION_FAILED - invalid arg 'x-consumer-group' for queue '{kind}' in "
                f"vhost '/' of queue type rabbit_{kind}_queue"
            )


def test_members_need_a_prefetch_limit_and_acknowledge(stream: StreamClients) -> None:
    stream.publish(1)
    with connect(stream.server.address) as client:
        client.open_channel()
        client.send(stream.consume("g"))
        assert "prefetch count is not set" in client.expect_channel_close(406).reply_text
        client.open_channel()
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        method = stream.consume("g")
        method.no_ack = True
        client.send(method)
        assert "acknowledgement not supported" in client.expect_connection_close(540).reply_text


def test_a_priority_is_for_members_only(stream: StreamClients) -> None:
    stream.publish(1)
    with connect(stream.server.address) as client:
        client.open_channel()
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        client.send(Basic.Consume(queue=stream.name, arguments={"x-priority": 1}))
        assert "invalid arg 'x-priority'" in client.expect_channel_close(406).reply_text


def test_a_transaction_of_a_member_settles_at_its_commit(stream: StreamClients) -> None:
    stream.publish(2)
    client = stream.member("g", stream_offset="first")
    messages = take(client, 0, 1)
    client.call(Tx.Select(), Tx.SelectOk)
    client.send(Basic.Ack(messages[0].tag))
    client.call(Tx.Commit(), Tx.CommitOk)
    client.send(Basic.Ack(messages[1].tag))
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    take(stream.member("g"), 1)
