"""Only the process of the shovels uses its listener, and it may do everything there."""

from pathlib import Path

import pytest

from amqp_server.connections.client_connection import ClientConnection
from amqp_server.connections.shovel_listener import HOST, ShovelListener
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.errors import CannotConnectError, LinkClosed
from tests.shovel.link.messages import header_of
from tests.threaded_server import ThreadedServer

REFUSED = "403 ACCESS_REFUSED - Login was refused"


async def knock(user: str, password: str, port: int, vhost: str = "%2F") -> str:
    """Log in, publish as another user; return what refuses that, empty if nothing does."""
    uri = AmqpUri.parse(f"amqp://{user}:{password}@{HOST}:{port}/{vhost}")
    try:
        async with await connect(uri) as connection:
            channel = await connection.open_channel()
            await channel.confirm_select()
            await channel.declare_queue("q")
            await channel.publish("", "q", header_of(b"1", user_id="somebody"), b"1")
            await channel.queue_counts("q")
    except LinkClosed as error:
        return str(error)
    return ""


async def test_the_door_knows_one_secret_and_the_other_listener_does_not(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path / "data") as threaded:
        made: list[ShovelListener] = []

        async def open_door() -> tuple[int, str]:
            made.append(
                ShovelListener(threaded.server.context, threaded.server.access, ClientConnection)
            )
            await made[0].open()
            return made[0].port, made[0].new_secret()

        async def change() -> str:
            return made[0].new_secret()

        async def close() -> None:
            made[0].close()

        port, secret = threaded.run(open_door)
        assert await knock("none", secret, port) == ""
        assert await knock("none", secret, port, "nowhere") == (
            "530 NOT_ALLOWED - vhost nowhere not found"
        )
        assert (await knock("guest", "guest", port)).startswith(REFUSED)
        assert (await knock("none", secret[:-1], port)).startswith(REFUSED)
        assert (await knock("none", "", port)).startswith(REFUSED)
        for user in ("none", "guest"):
            refused = await knock(user, secret, threaded.address[1])
            assert refused.startswith(REFUSED)
        later = threaded.run(change)
        assert (await knock("none", secret, port)).startswith(REFUSED)
        assert await knock("none", later, port) == ""
        threaded.run(close)
        with pytest.raises(CannotConnectError):
            await knock("none", later, port)
