"""Arguments that are not served, or cannot be: refused by name, never taken in silence."""

import pytest
from pamqp.commands import Exchange, Queue

from tests.amqp_client import connect
from tests.servers import RunningServer


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-max-length", 1),
        ("x-max-length-bytes", 1),
        ("x-overflow", "drop-head"),
        ("x-dead-letter-exchange", "x"),
        ("x-max-priority", 1),
        ("x-single-active-consumer", True),
    ],
)
def test_a_queue_argument_that_is_not_served_is_refused(
    server: RunningServer, argument: str, value: str | int
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="q", arguments={argument: value}))

        close = client.expect_connection_close(540)

        assert close.reply_text == f"NOT_IMPLEMENTED - queue argument {argument}"
        assert (close.class_id, close.method_id) == (50, 10)


def test_arguments_that_only_shorten_lives_are_taken(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-message-ttl": 1000})


def test_an_alternate_exchange_that_is_no_string_is_refused(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Exchange.Declare(exchange="x", arguments={"alternate-exchange": 1}))

        close = client.expect_channel_close(406)

        assert close.reply_text.startswith("PRECONDITION_FAILED - invalid type '")
        assert close.reply_text.endswith(
            "' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"
        )
