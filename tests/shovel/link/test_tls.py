"""Links over TLS: who is trusted, and logins by certificate."""

from pathlib import Path
from typing import Any

import pytest

from amqp_server.access.permissions import FULL
from amqp_server.access.user import User
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.errors import CannotConnectError, LinkClosed
from tests.shovel.link.messages import header_of
from tests.tls.certificates import Authority, common_name
from tests.tls.conftest import TlsServer

USER = "CN=mover"


async def log_in(url: str) -> bytes:
    """Publish a large message, and return what comes back.

    Raises:
        LinkError: The connection was not made.
    """
    body = b"x" * 300_000
    async with await connect(AmqpUri.parse(url)) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue("q")
        await channel.publish("", "q", header_of(body), body)
        (found,) = await (await channel.consume("q", no_ack=True)).next_batch()
    return found.body


async def test_certificates_are_checked_and_log_in(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    settings: dict[str, Any] = {
        **authority.server_pair("localhost").settings,
        "tls_ca": str(authority.path),
        "tls_verify": "peer",
    }
    pair = authority.client_pair(common_name("mover"))
    with TlsServer(tmp_path / "data", **settings) as server:
        access = server.server.access
        server.run(lambda: access.add_user(User(USER)))
        server.run(lambda: access.set_permissions("/", USER, FULL))
        place = f"127.0.0.1:{server.tls_address[1]}"
        ca = f"cacertfile={authority.path}&server_name_indication=localhost"
        assert len(await log_in(f"amqps://guest:guest@{place}?{ca}")) == 300_000
        assert len(await log_in(f"amqps://guest:guest@{place}?verify=verify_none")) == 300_000
        disabled = f"cacertfile={authority.path}&server_name_indication=disable"
        assert await log_in(f"amqps://guest:guest@{place}?{disabled}")
        mine = f"certfile={pair.certificate}&keyfile={pair.key}&auth_mechanism=external"
        assert await log_in(f"amqps://{place}?{ca}&{mine}")
        for query, reason in (
            ("", "CERTIFICATE_VERIFY_FAILED|certificate verify failed"),
            (f"cacertfile={authority.path}", "IP address mismatch|certificate verify failed"),
            (f"cacertfile={other.path}&server_name_indication=localhost", "verify failed"),
            (f"cacertfile={tmp_path}/none.pem", "TLS files"),
            (f"{ca}&certfile={pair.key}", "TLS files"),
        ):
            with pytest.raises(CannotConnectError, match=reason):
                await log_in(f"amqps://guest:guest@{place}?{query}".removesuffix("?"))
        with pytest.raises(LinkClosed, match="403 ACCESS_REFUSED"):
            await log_in(f"amqps://{place}?{ca}&auth_mechanism=external")
        with pytest.raises((LinkClosed, CannotConnectError)):
            await log_in(f"amqps://127.0.0.1:{server.address[1]}?{ca}")
