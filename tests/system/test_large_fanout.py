"""A large message for many consumers that do not read is in memory once."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.client_connection import ClientConnection
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

CONSUMERS = 5
BODY = bytes(range(256)) * 4096


def test_consumers_that_do_not_read_share_one_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[bytes | memoryview]] = []
    write_pieces = ClientConnection.write_pieces

    def noted(self: ClientConnection, pieces: list[bytes | memoryview]) -> None:
        sent.append(pieces)
        write_pieces(self, pieces)

    monkeypatch.setattr(ClientConnection, "write_pieces", noted)
    with ThreadedServer(tmp_path) as server, ExitStack() as clients:
        publisher = clients.enter_context(connect(server.address))
        publisher.open_channel(confirms=True)
        consumers = [clients.enter_context(connect(server.address)) for _ in range(CONSUMERS)]
        for number, consumer in enumerate(consumers):
            consumer.open_channel()
            consumer.declare(f"q{number}")
            bind = Queue.Bind(queue=f"q{number}", exchange="amq.fanout")
            consumer.call(bind, Queue.BindOk)
            consumer.call(Basic.Consume(queue=f"q{number}"), Basic.ConsumeOk)
        publisher.publish(BODY, "", "amq.fanout")
        publisher.expect_confirmed()
        server.wait_until(lambda: len(sent) == CONSUMERS)

        bodies = {
            id(each.obj) for pieces in sent for each in pieces if isinstance(each, memoryview)
        }
        assert len(bodies) == 1
        for consumer in consumers:
            assert consumer.expect_delivery().body == BODY
