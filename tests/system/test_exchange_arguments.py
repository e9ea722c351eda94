"""Arguments of exchanges that cannot be: refused by name, never taken in silence."""

from pamqp.commands import Exchange

from tests.amqp_client import connect
from tests.servers import RunningServer


def test_an_alternate_exchange_that_is_no_string_is_refused(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(Exchange.Declare(exchange="x", arguments={"alternate-exchange": 1}))

        close = client.expect_channel_close(406)

        assert close.reply_text.startswith("PRECONDITION_FAILED - invalid type '")
        assert close.reply_text.endswith(
            "' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"
        )
