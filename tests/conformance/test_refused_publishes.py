"""The publisher gets a nack for a message that a full queue refuses."""

from pamqp.commands import Basic, Queue

from tests.conformance.conftest import Connect, NewName


class TestFullQueue:
    """`x-overflow: reject-publish`."""

    def test_a_refused_message_gets_a_nack(self, connect: Connect, name: str) -> None:
        client = connect(confirms=True)
        client.declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        client.publish(b"kept", name)
        assert client.expect(Basic.Ack).delivery_tag == 1
        client.publish(b"refused", name)
        assert client.expect(Basic.Nack).delivery_tag == 2
        assert client.ready_count(name) == 1

    def test_a_refused_message_does_not_come_back(self, connect: Connect, name: str) -> None:
        client = connect(confirms=True)
        client.declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        client.publish(b"kept", name)
        assert client.expect(Basic.Ack).delivery_tag == 1
        client.publish(b"refused", name, mandatory=True)
        assert client.expect(Basic.Nack).delivery_tag == 2

    def test_one_refusal_among_several_queues_gets_a_nack(
        self, connect: Connect, new_name: NewName
    ) -> None:
        client = connect(confirms=True)
        key, full, free = new_name(), new_name(), new_name()
        client.declare(full, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
        client.declare(free)
        for queue in (full, free):
            bind = Queue.Bind(queue=queue, exchange="amq.direct", routing_key=key)
            client.call(bind, Queue.BindOk)
        client.publish(b"", key, "amq.direct")
        assert client.expect(Basic.Nack).delivery_tag == 1
        assert (client.ready_count(full), client.ready_count(free)) == (0, 1)
