"""A running server whose users have tokens: logins, their end, and new tokens before that."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from amqp_server.broker.consuming.ending import end_refused_consumers
from amqp_server.control.client import ask
from tests.access.backends.auth_server import AuthServer
from tests.access.backends.tokens import EVERYTHING, RESOURCE, Issuer, key_set
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

ISSUER, NEXT = Issuer("k1"), Issuer("k2")
REFUSED = "NOT_ALLOWED - New secret was refused by one of the backends"


def settings(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "auth_backends": "internal,oauth2",
        "auth_oauth2_resource_server_id": RESOURCE,
        **more,
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    made = settings(auth_oauth2_signing_keys=ISSUER.write_key(tmp_path))
    with ThreadedServer(tmp_path / "data", **made) as running:
        yield running


def log_in(server: ThreadedServer, token: str, user: str = "") -> AmqpClient:
    return connect(server.address, user=user, password=token)


def close_text(client: AmqpClient) -> tuple[int, str]:
    close = client.expect(Connection.Close, 0)
    client.send(Connection.CloseOk(), 0)
    return int(close.reply_code or 0), str(close.reply_text)


def renew(client: AmqpClient, token: str) -> None:
    client.send(Connection.UpdateSecret(token, "renewed"), 0)


def test_a_token_is_the_password_and_says_who_it_is(server: ThreadedServer) -> None:
    with log_in(server, ISSUER.token(), "whoever") as client:
        client.open_channel(confirms=True)
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.publish(b"x", "q")
        client.expect_confirmed()
        assert [each.user for each in server.connections] == ["alice"]


def test_users_of_the_server_log_in_as_before(server: ThreadedServer) -> None:
    connect(server.address).close()
    with pytest.raises(AssertionError, match="ACCESS_REFUSED - Login was refused"):
        connect(server.address, user="guest", password="wrong")


def test_the_log_says_why_a_token_is_refused(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture
) -> None:
    token = ISSUER.token(seconds=-1)
    with pytest.raises(AssertionError, match="ACCESS_REFUSED - Login was refused"):
        log_in(server, token)
    (line,) = [each for each in caplog.messages if "login refused" in each]
    assert "oauth2: the token has expired" in line
    assert token not in caplog.text


def test_a_virtual_host_needs_a_scope(server: ThreadedServer) -> None:
    token = ISSUER.token(scope="rabbitmq.read:other/*")
    with pytest.raises(AssertionError, match="access to vhost '/' refused for user 'alice'"):
        log_in(server, token)


def test_at_its_end_the_connection_is_closed(server: ThreadedServer) -> None:
    with log_in(server, ISSUER.token(seconds=1.5)) as client:
        client.open_channel()
        assert close_text(client) == (320, "CONNECTION_FORCED - credential expired")


def test_a_new_token_before_the_end_keeps_the_connection(server: ThreadedServer) -> None:
    first = time.time() + 2
    with log_in(server, ISSUER.token(exp=first)) as client:
        client.open_channel()
        renew(client, ISSUER.token(exp=first + 2))
        client.expect(Connection.UpdateSecretOk, 0)
        assert close_text(client) == (320, "CONNECTION_FORCED - credential expired")
        assert time.time() > first + 1


@pytest.mark.parametrize(
    "token",
    [
        ISSUER.token(sub="bob"),
        ISSUER.token(seconds=-1),
        ISSUER.token(aud="other"),
        Issuer("k1").token(),
        "no token",
        "",
    ],
)
def test_a_wrong_new_token_closes_the_connection(server: ThreadedServer, token: str) -> None:
    with log_in(server, ISSUER.token()) as client:
        renew(client, token)
        assert close_text(client) == (530, REFUSED)


def test_a_new_token_without_the_virtual_host_closes_the_connection(
    server: ThreadedServer,
) -> None:
    with log_in(server, ISSUER.token()) as client:
        renew(client, ISSUER.token(scope="rabbitmq.read:other/*"))
        text = "NOT_ALLOWED - access to vhost '/' refused for user 'alice'"
        assert close_text(client) == (530, text)


def test_permissions_are_read_anew_from_a_new_token(server: ThreadedServer) -> None:
    with log_in(server, ISSUER.token(scope=[*EVERYTHING, "rabbitmq.write:*/*/*"])) as client:
        client.open_channel(confirms=True)
        client.call(Exchange.Declare(exchange="e", exchange_type="topic"), Exchange.DeclareOk)
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.call(Queue.Declare(queue="kept"), Queue.DeclareOk)
        client.call(Basic.Consume(queue="q", consumer_tag="q"), Basic.ConsumeOk)
        client.call(Basic.Consume(queue="kept", consumer_tag="kept"), Basic.ConsumeOk)
        client.publish(b"1", "key", "e")
        client.expect_confirmed()
        renew(client, ISSUER.token(scope="rabbitmq.read:*/kept rabbitmq.write:*/amq.default"))
        client.expect(Connection.UpdateSecretOk, 0)
        # Its queue may not be read any more.
        assert client.expect(Basic.Cancel).consumer_tag == "q"
        (channel,) = server.connections[0].channels
        assert server.call(lambda: list(channel.consumers)) == ["kept"]
        client.publish(b"2", "nowhere")
        client.expect_confirmed()
        client.publish(b"3", "key", "e")
        assert "write access to exchange 'e'" in str(client.expect(Channel.Close).reply_text)


def test_consumers_are_looked_at_one_by_one(server: ThreadedServer) -> None:
    with log_in(server, ISSUER.token()) as client:
        client.open_channel()
        for number in range(3):
            client.call(Queue.Declare(queue=f"q{number}"), Queue.DeclareOk)
            client.call(
                Basic.Consume(queue=f"q{number}", consumer_tag=f"{number}"), Basic.ConsumeOk
            )
        renew(client, ISSUER.token(scope=[*EVERYTHING[1:], "rabbitmq.read:*/q1"]))
        client.expect(Connection.UpdateSecretOk, 0)
        assert [client.expect(Basic.Cancel).consumer_tag for _ in range(2)] == ["0", "2"]
        (channel,) = server.connections[0].channels
        assert server.call(lambda: list(channel.consumers)) == ["1"]
        for number in (3, 4):
            client.call(Basic.Consume(queue="q1", consumer_tag=f"{number}"), Basic.ConsumeOk)
        # As many steps as consumers; what ends between two steps is left out.
        assert server.call(lambda: len(list(end_refused_consumers(channel)))) == 3


def test_a_user_of_the_server_may_send_any_secret(server: ThreadedServer) -> None:
    with connect(server.address) as client:
        renew(client, "anything")
        client.expect(Connection.UpdateSecretOk, 0)


def test_the_http_api_takes_tokens(server: ThreadedServer) -> None:
    path = server.server.config.storage_path
    ask(path, "vhosts.add", name="shop")
    token = ISSUER.token(scope="rabbitmq.read:shop/* rabbitmq.tag:monitoring")
    found = ask(path, "logins.check", user="", password=token, peer_host="10.0.0.1")
    assert (found["name"], found["tags"], found["vhosts"]) == ("alice", ["monitoring"], ["shop"])


def test_keys_may_change_and_the_key_server_may_be_away(tmp_path: Path) -> None:
    with AuthServer(lambda *_: key_set(ISSUER)) as keys:
        made = settings(auth_oauth2_jwks_uri=f"{keys.url}/jwks")
        with ThreadedServer(tmp_path, **made) as server:
            log_in(server, ISSUER.token()).close()
            keys.answers = lambda *_: key_set(NEXT)
            # It names a key that is not known: the key server is asked once more.
            log_in(server, NEXT.token()).close()
            count = keys.count("/jwks")
            for number in range(5):
                with pytest.raises(AssertionError):
                    log_in(server, NEXT.token(kid=f"made up {number}"))
            with pytest.raises(AssertionError):
                log_in(server, ISSUER.token(sub="other"))
            assert keys.count("/jwks") == count
            keys.stop()
            log_in(server, NEXT.token(sub="bob")).close()


def test_a_key_server_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    with AuthServer(lambda *_: key_set(ISSUER)) as keys:
        keys.is_open.clear()
        made = settings(auth_oauth2_jwks_uri=f"{keys.url}/jwks")
        with ThreadedServer(tmp_path, **made) as server:
            keys.wait_for_question("/jwks")
            # Others do not wait for it.
            connect(server.address).close()
            with AmqpClient(server.address) as client:
                client.start(user="", password=ISSUER.token())
                keys.is_open.set()
                client.expect(Connection.Tune, 0)


@pytest.mark.parametrize(
    "answer", [(500, b""), "<html>", "x" * (600 * 1024), "{}", (302, b"http://127.0.0.1:1/")]
)
def test_a_lying_key_server_lets_nobody_in(
    tmp_path: Path,
    answer: str | tuple[int, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with AuthServer(lambda *_: answer) as keys:
        made = settings(auth_oauth2_jwks_uri=f"{keys.url}/jwks")
        with ThreadedServer(tmp_path, **made) as server, pytest.raises(AssertionError):
            log_in(server, ISSUER.token())
    assert "signing keys not fetched" in caplog.text


def test_the_issuer_tells_where_its_keys_are(tmp_path: Path) -> None:
    def answers(path: str, fields: dict[str, str]) -> str:
        if path == "/realm/.well-known/openid-configuration":
            return f'{{"jwks_uri": "{issuer.url}/keys"}}'
        return key_set(ISSUER)

    with AuthServer(answers) as issuer:
        name = f"{issuer.url}/realm"
        with ThreadedServer(tmp_path, **settings(auth_oauth2_issuer=name)) as server:
            log_in(server, ISSUER.token(iss=name)).close()
            with pytest.raises(AssertionError):
                log_in(server, ISSUER.token(iss="http://evil.example"))


def test_an_issuer_that_publishes_too_much_is_not_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answers(path: str, _: dict[str, str]) -> str:
        if path == "/jwks":
            return key_set(ISSUER)
        return json.dumps({"jwks_uri": f"{issuer.url}/jwks", "more": [{}] * 30_000})

    with AuthServer(answers) as issuer:
        made = settings(auth_oauth2_issuer=issuer.url)
        with (
            ThreadedServer(tmp_path, **made) as server,
            pytest.raises(AssertionError, match="ACCESS_REFUSED"),
        ):
            log_in(server, ISSUER.token(iss=issuer.url))
    assert "the answer has more than 65536 bytes" in caplog.text


def test_pika_logs_in_and_renews(server: ThreadedServer) -> None:
    host, port = server.address
    credentials = pika.PlainCredentials("", ISSUER.token())
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(host, port, credentials=credentials)
    )
    connection.update_secret(ISSUER.token(seconds=7200), "renewed")
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"hello")
    assert channel.basic_get("q", auto_ack=True)[2] == b"hello"
    connection.close()


async def test_aio_pika_logs_in_and_renews(server: ThreadedServer) -> None:
    host, port = server.address
    url = f"amqp://any:{ISSUER.token()}@{host}:{port}/"
    connection = await aio_pika.connect(url)
    async with connection:
        await connection.update_secret(ISSUER.token(seconds=7200))
        channel = await connection.channel()
        assert (await channel.declare_queue("q")).name == "q"
