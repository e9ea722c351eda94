"""Declares, binds and deletes that are sent together share syncs and are answered in order."""

from pamqp.commands import Basic, Connection, Exchange, Queue

from amqp_server.connections.reply_queue import WAITING_MAX
from tests.amqp_client import connect
from tests.servers import RunningServer


def test_requests_that_are_sent_together_are_answered_in_their_order(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        for number in range(100):
            client.send(Queue.Declare(queue=f"q{number}", durable=True))
            client.send(Exchange.Declare(exchange=f"x{number}", durable=True))
            # This one has nothing to wait for.
            client.send(Queue.Declare(queue=f"q{number}", passive=True))
            client.send(Queue.Bind(queue=f"q{number}", exchange=f"x{number}", routing_key="k"))
            client.send(Queue.Unbind(queue=f"q{number}", exchange="nowhere", routing_key="k"))
            client.send(Exchange.Delete(exchange=f"x{number}"))
            client.send(Queue.Delete(queue=f"q{number}"))
        for number in range(100):
            assert client.expect(Queue.DeclareOk).queue == f"q{number}"
            client.expect(Exchange.DeclareOk)
            assert client.expect(Queue.DeclareOk).queue == f"q{number}"
            client.expect(Queue.BindOk)
            client.expect(Queue.UnbindOk)
            client.expect(Exchange.DeleteOk)
            client.expect(Queue.DeleteOk)
    server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q0", passive=True))
        client.expect_channel_close(404)


def test_a_refusal_comes_behind_the_answers_to_what_was_sent_before(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        for number in range(50):
            client.send(Queue.Declare(queue=f"q{number}", durable=True))
        client.send(Queue.Declare(queue="none", passive=True))
        client.send(Queue.Declare(queue="after", durable=True))
        for number in range(50):
            assert client.expect(Queue.DeclareOk).queue == f"q{number}"
        client.expect_channel_close(404)
        client.open_channel()
        client.send(Queue.Declare(queue="after", passive=True))
        client.expect_channel_close(404)


def test_a_connection_error_comes_behind_the_answers_to_what_was_sent_before(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        client.send(Queue.Bind(queue="q", exchange="amq.direct"), channel=7)
        client.expect(Queue.DeclareOk)
        _, close = client.receive()
        assert isinstance(close, Connection.Close)
        assert close.reply_code == 504


def test_other_methods_wait_for_the_declares_before_them(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", durable=True))
        client.send(Basic.Get(queue="q"))
        client.send(Queue.Declare(queue="other", durable=True))
        client.send(Queue.Purge(queue="q"))
        client.expect(Queue.DeclareOk)
        client.expect(Basic.GetEmpty)
        client.expect(Queue.DeclareOk)
        client.expect(Queue.PurgeOk)


def test_more_requests_than_the_reply_queue_holds_are_all_answered(server: RunningServer) -> None:
    count = WAITING_MAX + 100
    with connect(server.address) as client:
        client.open_channel()
        for number in range(count):
            client.send(Queue.Declare(queue=f"q{number}", durable=True))
        for number in range(count):
            assert client.expect(Queue.DeclareOk).queue == f"q{number}"
