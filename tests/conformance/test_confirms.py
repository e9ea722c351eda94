"""The broker confirms the publishes of a channel in confirm mode."""

from pamqp.commands import Basic, Confirm, Queue

from tests.amqp_client import PERSISTENT, AmqpClient
from tests.conformance.conftest import Connect, NewName

PUBLISHES = 500


def confirmed(client: AmqpClient, last: int, channel: int = 1) -> list[int]:
    """Return the tags that are acknowledged until none is missing up to the last."""
    seen: list[int] = []
    open_tags = set(range(1, last + 1))
    while open_tags:
        ack = client.expect(Basic.Ack, channel)
        tag = ack.delivery_tag
        assert tag
        tags = sorted(each for each in open_tags if each <= tag) if ack.multiple else [tag]
        seen += tags
        open_tags -= set(tags)
    return seen


def test_tags_count_from_one_on_each_channel(connect: Connect, name: str) -> None:
    client = connect(channels=2, confirms=True)
    client.declare(name)
    for channel in (1, 2):
        client.publish(b"", name, channel=channel)
        assert confirmed(client, 1, channel) == [1]
    client.publish(b"", name, channel=2)
    assert client.expect(Basic.Ack, 2).delivery_tag == 2


def test_each_of_many_is_confirmed_once(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    for _ in range(PUBLISHES):
        client.publish(b"", name)
    assert sorted(confirmed(client, PUBLISHES)) == list(range(1, PUBLISHES + 1))
    assert client.ready_count(name) == PUBLISHES


def test_no_wait_gets_no_select_ok(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.send(Confirm.Select(nowait=True))
    client.publish(b"", name)
    assert confirmed(client, 1) == [1]


def test_a_second_select_continues_the_tags(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.publish(b"", name)
    assert client.expect(Basic.Ack).delivery_tag == 1
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"", name)
    assert client.expect(Basic.Ack).delivery_tag == 2


def test_messages_before_the_select_are_not_counted(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.publish(b"", name)
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"", name)
    assert client.expect(Basic.Ack).delivery_tag == 1
    assert client.ready_count(name) == 2


def test_an_unroutable_message_is_confirmed(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.publish(b"", name)
    client.publish(b"", name, "amq.fanout")
    assert confirmed(client, 2) == [1, 2]


def test_a_returned_message_is_confirmed_after_its_return(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    for tag in (1, 2):
        client.publish(b"%d" % tag, name, mandatory=True)
        assert client.expect_return().body == b"%d" % tag
        assert client.expect(Basic.Ack).delivery_tag == tag


def test_no_answer_has_the_tag_of_all_publishes(connect: Connect, name: str) -> None:
    """Tag 0 would mean all of them, also those that are not safe yet."""
    client = connect(confirms=True)
    client.declare(name)
    client.call(Queue.Bind(queue=name, exchange="amq.headers"), Queue.BindOk)
    octets = client.publish_octets(Basic.Publish(0, "amq.headers", name), b"", PERSISTENT)
    octets += client.publish_octets(Basic.Publish(0, "", name), b"", PERSISTENT)
    client.send_raw(octets)
    tag = 0
    while tag < 2:
        answered = client.expect(Basic.Ack).delivery_tag
        assert answered > tag
        tag = answered


def test_a_message_for_several_queues_is_confirmed_once(
    connect: Connect, new_name: NewName
) -> None:
    client = connect(confirms=True)
    key = new_name()
    for queue in (new_name(), new_name(), new_name()):
        client.declare(queue)
        bind = Queue.Bind(queue=queue, exchange="amq.direct", routing_key=key)
        client.call(bind, Queue.BindOk)
    client.publish(b"", key, "amq.direct")
    client.publish(b"", key)
    assert sorted(confirmed(client, 2)) == [1, 2]


def test_a_message_of_a_queue_that_is_deleted_at_once_is_confirmed(
    connect: Connect, name: str
) -> None:
    client = connect(channels=2, confirms=True)
    for round_number in range(1, 21):
        client.declare(name, channel=2)
        client.publish(b"", name)
        client.send(Queue.Delete(queue=name), 2)
        answers = {client.receive()[1].name for _ in range(2)}
        assert answers == {"Basic.Ack", "Queue.DeleteOk"}, f"round {round_number}"
