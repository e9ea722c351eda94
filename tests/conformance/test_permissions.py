"""Which permission each operation needs, and which of the missing ones is told."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final
from uuid import uuid4

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Exchange, Queue

from tests.amqp_client import AmqpClient, ConnectionLostError
from tests.conformance.administration import Administration
from tests.conformance.broker import rabbitmq_version
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error
from tests.conformance.marks import ours_only
from tests.conformance.polling import eventually

PASSWORD: Final = "secret"
Need = tuple[str, str, str]
"""A right, and kind and name of the object that it is for."""


@dataclass(frozen=True)
class Names:
    """Objects that exist, and names that are free."""

    queue: str
    other: str
    exchange: str
    topic: str
    free: str


@dataclass(frozen=True)
class Operation:
    """One method, what it needs in this order, and whether it is followed by an answer."""

    method: Callable[[Names], Frame]
    needs: Callable[[Names], list[Need]]
    answer: type[Frame] | None


def publish(exchange: str, key: str) -> Frame:
    return Basic.Publish(exchange=exchange, routing_key=key)


OPERATIONS: Final = {
    "declare exchange": Operation(
        lambda n: Exchange.Declare(exchange=n.free, exchange_type="direct"),
        lambda n: [("configure", "exchange", n.free)],
        Exchange.DeclareOk,
    ),
    "declare the same exchange": Operation(
        lambda n: Exchange.Declare(exchange=n.exchange, exchange_type="direct"),
        lambda n: [("configure", "exchange", n.exchange)],
        Exchange.DeclareOk,
    ),
    "declare exchange with an alternate": Operation(
        lambda n: Exchange.Declare(
            exchange=n.free,
            exchange_type="direct",
            arguments={"alternate-exchange": n.exchange},
        ),
        lambda n: [
            ("configure", "exchange", n.free),
            ("read", "exchange", n.free),
            ("write", "exchange", n.exchange),
        ],
        Exchange.DeclareOk,
    ),
    "declare exchange with an empty alternate": Operation(
        lambda n: Exchange.Declare(
            exchange=n.free, exchange_type="direct", arguments={"alternate-exchange": ""}
        ),
        lambda n: [
            ("configure", "exchange", n.free),
            ("read", "exchange", n.free),
            ("write", "exchange", "amq.default"),
        ],
        Exchange.DeclareOk,
    ),
    "declare queue": Operation(
        lambda n: Queue.Declare(queue=n.free, auto_delete=True),
        lambda n: [("configure", "queue", n.free)],
        Queue.DeclareOk,
    ),
    "declare queue with dead letters": Operation(
        lambda n: Queue.Declare(queue=n.free, arguments={"x-dead-letter-exchange": n.exchange}),
        lambda n: [
            ("configure", "queue", n.free),
            ("read", "queue", n.free),
            ("write", "exchange", n.exchange),
        ],
        Queue.DeclareOk,
    ),
    "declare queue with dead letters to the default exchange": Operation(
        lambda n: Queue.Declare(queue=n.free, arguments={"x-dead-letter-exchange": ""}),
        lambda n: [
            ("configure", "queue", n.free),
            ("read", "queue", n.free),
            ("write", "exchange", "amq.default"),
        ],
        Queue.DeclareOk,
    ),
    "delete queue": Operation(
        lambda n: Queue.Delete(queue=n.queue),
        lambda n: [("configure", "queue", n.queue)],
        Queue.DeleteOk,
    ),
    "delete missing queue": Operation(
        lambda n: Queue.Delete(queue=n.free),
        lambda n: [("configure", "queue", n.free)],
        Queue.DeleteOk,
    ),
    "delete exchange": Operation(
        lambda n: Exchange.Delete(exchange=n.exchange),
        lambda n: [("configure", "exchange", n.exchange)],
        Exchange.DeleteOk,
    ),
    "bind queue": Operation(
        lambda n: Queue.Bind(queue=n.queue, exchange=n.exchange, routing_key="k"),
        lambda n: [("write", "queue", n.queue), ("read", "exchange", n.exchange)],
        Queue.BindOk,
    ),
    "unbind queue": Operation(
        lambda n: Queue.Unbind(queue=n.queue, exchange=n.exchange, routing_key="k"),
        lambda n: [("write", "queue", n.queue), ("read", "exchange", n.exchange)],
        Queue.UnbindOk,
    ),
    "bind exchange": Operation(
        lambda n: Exchange.Bind(destination=n.topic, source=n.exchange, routing_key="k"),
        lambda n: [("write", "exchange", n.topic), ("read", "exchange", n.exchange)],
        Exchange.BindOk,
    ),
    "unbind exchange": Operation(
        lambda n: Exchange.Unbind(destination=n.topic, source=n.exchange, routing_key="k"),
        lambda n: [("write", "exchange", n.topic), ("read", "exchange", n.exchange)],
        Exchange.UnbindOk,
    ),
    "publish": Operation(
        lambda n: publish(n.exchange, "k"),
        lambda n: [("write", "exchange", n.exchange)],
        None,
    ),
    "publish to the default exchange": Operation(
        lambda n: publish("", n.queue),
        lambda n: [("write", "exchange", "amq.default")],
        None,
    ),
    "get": Operation(
        lambda n: Basic.Get(queue=n.queue),
        lambda n: [("read", "queue", n.queue)],
        Basic.GetEmpty,
    ),
    "consume": Operation(
        lambda n: Basic.Consume(queue=n.queue),
        lambda n: [("read", "queue", n.queue)],
        Basic.ConsumeOk,
    ),
    "purge": Operation(
        lambda n: Queue.Purge(queue=n.queue),
        lambda n: [("read", "queue", n.queue)],
        Queue.PurgeOk,
    ),
}
RIGHTS: Final = ("configure", "write", "read")
SETS: Final = [
    tuple(right for right, has in zip(RIGHTS, flags, strict=True) if has)
    for flags in product((False, True), repeat=3)
]


def user_of(rights: tuple[str, ...]) -> str:
    return "-".join(("may", *rights))


@pytest.fixture(scope="module")
def users(administration: Administration) -> Iterator[None]:
    """Add a user for each set of rights, and one whose permissions a test changes."""
    for rights in SETS:
        administration.add_user(user_of(rights), PASSWORD)
        patterns = [".*" if right in rights else "^$" for right in RIGHTS]
        administration.set_permissions(user_of(rights), "/", *patterns)
    yield
    for rights in SETS:
        administration.delete_user(user_of(rights))


@pytest.fixture
def names(client: AmqpClient) -> Iterator[Names]:
    """Declare the objects that operations need; delete them and those that they made."""
    given = Names(*(f"{kind}-{uuid4().hex[:8]}" for kind in ("q", "o", "x", "t", "free")))
    client.declare(given.queue)
    for exchange, kind in ((given.exchange, "direct"), (given.topic, "topic")):
        client.call(Exchange.Declare(exchange=exchange, exchange_type=kind), Exchange.DeclareOk)
    yield given
    for queue in (given.queue, given.free):
        client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
    for exchange in (given.exchange, given.topic, given.free):
        client.call(Exchange.Delete(exchange=exchange), Exchange.DeleteOk)


def refusal(need: Need, user: str) -> str:
    """Return the text for a missing permission; RabbitMQ 3 does not say which one."""
    right, kind, name = need
    version = rabbitmq_version()
    word = "" if version is not None and version.startswith("3.") else f"{right} "
    return (
        f"ACCESS_REFUSED - {word}access to {kind} '{name}' in vhost '/' refused for user '{user}'"
    )


def outcome(client: AmqpClient, method: Frame, answer: type[Frame] | None) -> str | None:
    """Send a method; return the text of the error, or None."""
    if isinstance(method, Basic.Publish):
        client.publish(b"", method.routing_key, method.exchange)
        client.send(Basic.Qos(prefetch_count=1))
        answer = Basic.QosOk
    else:
        client.send(method)
    _, reply = client.receive()
    if isinstance(reply, Channel.Close):
        failed = divmod(type(method).index, 1 << 16)
        assert (reply.reply_code, reply.class_id, reply.method_id) == (403, *failed)
        client.send(Channel.CloseOk())
        return reply.reply_text
    assert answer is not None
    assert isinstance(reply, answer)
    return None


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("rights", SETS, ids=lambda rights: "+".join(rights) or "nothing")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_first_permission_that_is_missing_is_told(
    connect: Connect, names: Names, operation: str, rights: tuple[str, ...]
) -> None:
    asked = OPERATIONS[operation]
    user = user_of(rights)
    missing = [need for need in asked.needs(names) if need[0] not in rights]
    client = connect(user=user, password=PASSWORD)
    expected = refusal(missing[0], user) if missing else None
    assert outcome(client, asked.method(names), asked.answer) == expected


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("rights", SETS, ids=lambda rights: "+".join(rights) or "nothing")
@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_a_passive_declare_needs_any_permission(
    connect: Connect, names: Names, kind: str, rights: tuple[str, ...]
) -> None:
    user = user_of(rights)
    client = connect(user=user, password=PASSWORD)
    method: Frame
    if kind == "queue":
        name, method = names.queue, Queue.Declare(queue=names.queue, passive=True)
    else:
        name, method = names.exchange, Exchange.Declare(exchange=names.exchange, passive=True)
    answer = Queue.DeclareOk if kind == "queue" else Exchange.DeclareOk
    # RabbitMQ asks for nothing up to 4.2.
    is_refused = not rights and rabbitmq_version() is None
    expected = refusal(("configure", kind, name), user) if is_refused else None
    assert outcome(client, method, answer) == expected


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(
    "method",
    [
        Basic.Publish(exchange="missing", routing_key="k"),
        Basic.Get(queue="missing"),
        Basic.Consume(queue="missing"),
        Queue.Purge(queue="missing"),
        Queue.Bind(queue="missing", exchange="amq.direct"),
        Exchange.Bind(destination="missing", source="amq.direct"),
    ],
    ids=lambda method: method.name,
)
def test_who_may_not_use_an_object_does_not_learn_whether_it_exists(
    connect: Connect, method: Frame
) -> None:
    client = connect(user=user_of(()), password=PASSWORD)
    text = outcome(client, method, None)
    assert text is not None
    assert "refused for user" in text


def test_a_pattern_is_searched_in_the_name(
    connect: Connect, administration: Administration, names: Names
) -> None:
    user = f"u-{uuid4().hex[:8]}"
    administration.add_user(user, PASSWORD)
    administration.set_permissions(user, "/", "^(?!amq\\.)", names.exchange[3:6], "^q-")
    try:
        client = connect(user=user, password=PASSWORD)
        assert outcome(client, Basic.Get(queue=names.queue), Basic.GetEmpty) is None
        assert outcome(client, publish(names.exchange, "k"), None) is None
        expected = refusal(("write", "exchange", "amq.fanout"), user)
        assert outcome(client, publish("amq.fanout", "k"), None) == expected
    finally:
        administration.delete_user(user)


def test_topic_permissions_limit_the_keys_of_one_exchange(
    connect: Connect, administration: Administration, names: Names
) -> None:
    user = f"u-{uuid4().hex[:8]}"
    administration.add_user(user, PASSWORD)
    administration.set_permissions(user, "/", ".*", ".*", ".*")
    administration.set_topic_permissions(user, "/", names.topic, "^{username}\\.", "^public\\.")
    try:
        client = connect(user=user, password=PASSWORD)
        assert outcome(client, publish(names.topic, f"{user}.x"), None) is None
        expected = refusal(("write", "topic", "other.x"), user).replace(
            "'other.x'", f"'other.x' in exchange '{names.topic}'"
        )
        assert outcome(client, publish(names.topic, "other.x"), None) == expected
        client.open_channel()
        bind = Queue.Bind(queue=names.queue, exchange=names.topic, routing_key="public.x")
        assert outcome(client, bind, Queue.BindOk) is None
        bind = Queue.Bind(queue=names.queue, exchange=names.topic, routing_key="private.x")
        expected = refusal(("read", "topic", "private.x"), user).replace(
            "'private.x'", f"'private.x' in exchange '{names.topic}'"
        )
        assert outcome(client, bind, Queue.BindOk) == expected
        # Other exchanges are not limited, whatever their type.
        client.open_channel()
        assert outcome(client, publish("amq.topic", "other.x"), None) is None
        assert outcome(client, publish(names.exchange, "other.x"), None) is None
    finally:
        administration.delete_user(user)


def test_a_virtual_host_needs_a_row_of_permissions(
    connect: Connect, administration: Administration
) -> None:
    user = f"u-{uuid4().hex[:8]}"
    administration.add_user(user, PASSWORD)
    try:
        with pytest.raises((ConnectionLostError, AssertionError)) as caught:
            connect(user=user, password=PASSWORD)
        text = f"NOT_ALLOWED - access to vhost '/' refused for user '{user}'"
        assert text in str(caught.value)
    finally:
        administration.delete_user(user)


def test_the_connections_of_a_deleted_user_are_closed(
    connect: Connect, administration: Administration
) -> None:
    user = f"u-{uuid4().hex[:8]}"
    administration.add_user(user, PASSWORD)
    administration.set_permissions(user, "/", ".*", ".*", ".*")
    client = connect(user=user, password=PASSWORD)
    administration.delete_user(user)
    expect_connection_error(client, 320, f"CONNECTION_FORCED - user '{user}' is deleted", None)
    with pytest.raises((ConnectionLostError, AssertionError)):
        connect(user=user, password=PASSWORD)


def test_a_user_who_comes_again_has_no_old_permissions(
    connect: Connect, administration: Administration
) -> None:
    user = f"u-{uuid4().hex[:8]}"
    administration.add_user(user, PASSWORD)
    administration.set_permissions(user, "/", ".*", ".*", ".*")
    administration.delete_user(user)
    administration.add_user(user, PASSWORD)
    try:
        with pytest.raises((ConnectionLostError, AssertionError)) as caught:
            connect(user=user, password=PASSWORD)
        assert "access to vhost '/' refused" in str(caught.value)
    finally:
        administration.delete_user(user)


def test_a_virtual_host_that_comes_again_has_no_old_permissions(
    connect: Connect, administration: Administration
) -> None:
    user, vhost = f"u-{uuid4().hex[:8]}", f"v-{uuid4().hex[:8]}"
    administration.add_user(user, PASSWORD)
    administration.add_vhost(vhost)
    administration.set_permissions(user, vhost, ".*", ".*", ".*")
    connect(user=user, password=PASSWORD, vhost=vhost)
    administration.delete_vhost(vhost)
    administration.add_vhost(vhost)
    try:
        with pytest.raises((ConnectionLostError, AssertionError)) as caught:
            connect(user=user, password=PASSWORD, vhost=vhost)
        assert f"access to vhost '{vhost}' refused" in str(caught.value)
        assert eventually(lambda: connect(vhost=vhost) is not None)
    finally:
        administration.delete_vhost(vhost)
        administration.delete_user(user)


@ours_only("RabbitMQ has no browsers, and its streams no groups")
@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-browse": True},
        {"x-stream-offset": "first"},
        {"x-group": "g", "x-stream-offset": "first"},
    ],
    ids=lambda arguments: "+".join(arguments),
)
@pytest.mark.parametrize("rights", [(), ("configure", "write")], ids="+".join)
def test_who_may_not_read_browses_and_follows_no_log(
    connect: Connect,
    client: AmqpClient,
    arguments: Any,  # noqa: ANN401 - a table of any values
    rights: tuple[str, ...],
) -> None:
    stream, user = f"s-{uuid4().hex[:8]}", user_of(rights)
    client.declare(stream, arguments={"x-queue-type": "stream"})
    reader = connect(user=user, password=PASSWORD)
    reader.send(Basic.Qos(prefetch_count=1))
    reader.expect(Basic.QosOk)
    consume = Basic.Consume(queue=stream, arguments=arguments)
    assert outcome(reader, consume, None) == refusal(("read", "queue", stream), user)
    client.call(Queue.Delete(queue=stream), Queue.DeleteOk)
