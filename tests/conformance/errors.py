"""Compares errors as clients see them: code, text, class and method."""

from pamqp.base import Frame
from pamqp.commands import Channel, Connection

from tests.amqp_client import AmqpClient


def expect_channel_error(
    client: AmqpClient, code: int, text: str, method: type[Frame] | None, channel: int = 1
) -> None:
    """Return when the next method is this channel.close; it is answered.

    Args:
        client: Connected, with the channel open.
        code: Reply code.
        text: The whole reply text, for the virtual host `/`; the client's is put in.
        method: The method that failed; None when the server names none.
        channel: Its number.
    """
    close = client.expect(Channel.Close, channel)
    _compare(client, close, code, text, method)
    client.send(Channel.CloseOk(), channel)


def expect_connection_error(
    client: AmqpClient, code: int, text: str, method: type[Frame] | None
) -> None:
    """Return when the next method is this connection.close; it is answered, and the end seen."""
    close = client.expect(Connection.Close, 0)
    _compare(client, close, code, text, method)
    client.send(Connection.CloseOk(), 0)
    client.expect_end()


def _compare(
    client: AmqpClient,
    close: Channel.Close | Connection.Close,
    code: int,
    text: str,
    method: type[Frame] | None,
) -> None:
    failed = (0, 0) if method is None else divmod(method.index, 1 << 16)
    expected = (code, text.replace("vhost '/'", f"vhost '{client.vhost}'"), *failed)
    found = (close.reply_code, close.reply_text, close.class_id, close.method_id)
    assert found == expected, f"{found}, not {expected}"
