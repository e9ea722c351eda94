"""Connections that are opened and closed: a wrong handshake is an error."""

import socket
import threading
from multiprocessing.connection import wait as wait_for

import pytest

from bench.amqp_frames import method_frame
from bench.broker_url import BrokerUrl
from bench.errors import BenchError, UnexpectedFrameError
from bench.rows.connection_churn import ShortConnection
from bench.stub_broker import StubBroker
from tests.limits import HANG_SECONDS


def finish(connection: ShortConnection) -> None:
    """Advance a connection until it is closed."""
    while not connection.is_closed:
        assert wait_for([connection.socket], HANG_SECONDS)
        connection.advance()


def test_a_connection_is_closed_when_the_broker_has_said_so() -> None:
    with StubBroker() as stub:
        connection = ShortConnection(stub.url)
        finish(connection)

    assert connection.socket.fileno() == -1


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"", BenchError), (method_frame(0, 10, 41, b"\0"), UnexpectedFrameError)],
    ids=["a broker that hangs up", "an answer out of turn"],
)
def test_a_handshake_that_goes_wrong_is_noticed(answer: bytes, error: type[BenchError]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(8, socket.MSG_WAITALL)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        connection = ShortConnection(BrokerUrl("127.0.0.1", port, "guest", "guest", "/"))
        with connection.socket, pytest.raises(error):
            finish(connection)
        thread.join()
