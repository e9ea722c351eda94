"""Limits of virtual hosts and users: which comes first, and what a client is told."""

from collections.abc import Callable, Iterator
from typing import Final
from uuid import uuid4

import pytest
from pamqp.commands import Channel, Connection, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.administration import Administration
from tests.conformance.conftest import Connect, Dial
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.polling import eventually

PASSWORD: Final = "secret"


@pytest.fixture
def vhost(administration: Administration) -> Iterator[str]:
    """Add a virtual host."""
    name = f"limits-{uuid4().hex[:12]}"
    administration.add_vhost(name)
    yield name
    administration.delete_vhost(name)


@pytest.fixture
def user(administration: Administration, vhost: str) -> Iterator[str]:
    """Add a user who may do everything in the virtual host."""
    name = f"user-{uuid4().hex[:12]}"
    administration.add_user(name, PASSWORD)
    administration.set_permissions(name, vhost, ".*", ".*", ".*")
    yield name
    administration.delete_user(name)


@pytest.fixture
def refusal(dial: Dial) -> Callable[..., str | None]:
    """Return a function that opens a connection and returns why it was refused, or None."""

    def open_one(user: str, vhost: str) -> str | None:
        password = "guest" if user == "guest" else PASSWORD
        client = dial()
        tune = client.login(user=user, password=password)
        client.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        client.send(Connection.Open(virtual_host=vhost), 0)
        _, answer = client.receive()
        if isinstance(answer, Connection.OpenOk):
            close(client)
            return None
        assert isinstance(answer, Connection.Close)
        method = (answer.class_id, answer.method_id)
        assert (answer.reply_code, method) == (530, divmod(Connection.Open.index, 1 << 16))
        client.send(Connection.CloseOk(), 0)
        client.expect_end()
        return answer.reply_text

    return open_one


def close(client: AmqpClient) -> None:
    """Close a connection; RabbitMQ leaves the end of the socket to the client."""
    client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
    client.socket.close()


def vhost_refusal(vhost: str, user: str, limit: int) -> str:
    return (
        f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}': "
        f"connection limit ({limit}) is reached"
    )


def user_refusal(user: str, limit: int) -> str:
    return (
        f"NOT_ALLOWED - connection refused for user '{user}': "
        f"user connection limit ({limit}) is reached"
    )


def test_connections_of_a_vhost(
    administration: Administration,
    connect: Connect,
    refusal: Callable[..., str | None],
    vhost: str,
    user: str,
) -> None:
    administration.set_vhost_limits(vhost, {"max-connections": 1})
    first = connect(vhost=vhost)
    # RabbitMQ counts a moment after it has answered.
    expected = vhost_refusal(vhost, user, 1)
    eventually(lambda: refusal(user, vhost) == expected)
    close(first)
    eventually(lambda: refusal(user, vhost) is None)


def test_nobody_enters_a_vhost_with_the_limit_0(
    administration: Administration, refusal: Callable[..., str | None], vhost: str
) -> None:
    administration.set_vhost_limits(vhost, {"max-connections": 0})
    assert refusal("guest", vhost) == vhost_refusal(vhost, "guest", 0)
    administration.set_vhost_limits(vhost, {"max-connections": -1})
    assert refusal("guest", vhost) is None


def test_connections_of_a_user(
    administration: Administration,
    connect: Connect,
    refusal: Callable[..., str | None],
    vhost: str,
    user: str,
) -> None:
    administration.set_user_limits(user, {"max-connections": 1})
    first = connect(vhost=vhost, user=user, password=PASSWORD)
    eventually(lambda: refusal(user, vhost) == user_refusal(user, 1))
    assert refusal("guest", vhost) is None
    close(first)
    eventually(lambda: refusal(user, vhost) is None)


def test_the_vhost_is_told_before_the_user_and_both_before_the_permission(
    administration: Administration, refusal: Callable[..., str | None], vhost: str, user: str
) -> None:
    administration.set_user_limits(user, {"max-connections": 0})
    administration.set_vhost_limits(vhost, {"max-connections": 0})
    administration.clear_permissions(user, vhost)
    assert refusal(user, vhost) == vhost_refusal(vhost, user, 0)
    administration.set_vhost_limits(vhost, {"max-connections": -1})
    assert refusal(user, vhost) == user_refusal(user, 0)
    assert refusal(user, "missing") == "NOT_ALLOWED - vhost missing not found"


def test_a_lowered_limit_disconnects_nobody(
    administration: Administration, connect: Connect, vhost: str, user: str
) -> None:
    client = connect(vhost=vhost, user=user, password=PASSWORD)
    administration.set_vhost_limits(vhost, {"max-connections": 0, "max-queues": 0})
    administration.set_user_limits(user, {"max-connections": 0, "max-channels": 0})
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


def test_channels_of_a_user(
    administration: Administration, connect: Connect, vhost: str, user: str
) -> None:
    administration.set_user_limits(user, {"max-channels": 2})
    expected = (
        f"NOT_ALLOWED - number of channels opened for user '{user}' has reached the maximum "
        "allowed user limit of (2)"
    )

    def opens_a_third() -> bool:
        """Open channels on two connections of the user; the third one closes its connection."""
        first = connect(channels=1, vhost=vhost, user=user, password=PASSWORD)
        second = connect(channels=0, vhost=vhost, user=user, password=PASSWORD)
        second.open_channel(1)
        second.send(Channel.Open(), 2)
        _, answer = second.receive()
        first.socket.close()
        if isinstance(answer, Channel.OpenOk):
            second.socket.close()
            return True
        assert isinstance(answer, Connection.Close)
        assert (answer.reply_code, answer.reply_text) == (530, expected)
        assert (answer.class_id, answer.method_id) == (0, 0)
        second.socket.close()
        return False

    eventually(lambda: not opens_a_third())


def test_a_user_without_channels(
    administration: Administration, connect: Connect, vhost: str, user: str
) -> None:
    administration.set_user_limits(user, {"max-channels": 0})
    client = connect(channels=0, vhost=vhost, user=user, password=PASSWORD)
    client.send(Channel.Open())
    text = (
        f"NOT_ALLOWED - number of channels opened for user '{user}' has reached the maximum "
        "allowed user limit of (0)"
    )
    expect_connection_error(client, 530, text, None)


def queue_refusal(name: str, limit: int) -> str:
    return (
        f"PRECONDITION_FAILED - cannot declare queue '{name}': queue limit in vhost '/' "
        f"({limit}) is reached"
    )


def refuse_queue(client: AmqpClient, text: str, declare: Queue.Declare, code: int = 406) -> None:
    client.send(declare)
    expect_channel_error(client, code, text, Queue.Declare)
    client.open_channel()


def test_queues_of_a_vhost(administration: Administration, connect: Connect, vhost: str) -> None:
    client = connect(vhost=vhost)
    client.call(Queue.Declare(queue="a"), Queue.DeclareOk)
    administration.set_vhost_limits(vhost, {"max-queues": 1})
    # Existing ones pass.
    client.call(Queue.Declare(queue="a"), Queue.DeclareOk)
    client.call(Queue.Declare(queue="a", passive=True), Queue.DeclareOk)
    refuse_queue(client, queue_refusal("b", 1), Queue.Declare(queue="b"))
    refuse_queue(client, queue_refusal("b", 1), Queue.Declare(queue="b", exclusive=True))
    # It is told before mistakes in the arguments, and after the reserved prefix.
    wrong = Queue.Declare(queue="b", arguments={"x-max-length": -1})
    refuse_queue(client, queue_refusal("b", 1), wrong)
    refuse_queue(
        client,
        "ACCESS_REFUSED - queue name 'amq.b' contains reserved prefix 'amq.*'",
        Queue.Declare(queue="amq.b"),
        403,
    )
    client.call(Queue.Delete(queue="a"), Queue.DeleteOk)
    client.call(Queue.Declare(queue="b"), Queue.DeclareOk)
    administration.set_vhost_limits(vhost, {})
    client.call(Queue.Declare(queue="c"), Queue.DeclareOk)
