"""Arguments of new queues: what each may be, with RabbitMQ's words for what it may not."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp.commands import Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

TOO_LONG_MS = 315_360_000_001


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpClient]:
    """Connect to one server; each test opens the channel that it spoils."""
    storage_path = tmp_path_factory.mktemp("arguments") / "data"
    with RunningServer(storage_path) as server, connect(server.start().address) as client:
        yield client


def refusal(client: AmqpClient, arguments: dict[str, Any], **properties: bool) -> str:
    """Return the text that a declare is refused with, without the code's name."""
    client.open_channel()
    declared = {"durable": True} | properties
    client.send(Queue.Declare(queue="q", arguments=arguments, **declared))
    close = client.expect_channel_close(406)
    assert (close.class_id, close.method_id) == (50, 10)
    return close.reply_text.removeprefix("PRECONDITION_FAILED - ")


INTEGERS = ["x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority"]
INTEGERS += ["x-queue-version", "x-retain-for"]
INTEGERS += ["x-retain-bytes", "x-retain-segments-min", "x-force-remove-after"]
INTEGERS += ["x-segment-max-bytes", "x-segment-max-age"]


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("5", "longstr"),
        (True, "bool"),
        (1.5, "float"),
        (None, "void"),
        ([1], "array"),
        ({"a": 1}, "table"),
        (datetime.fromtimestamp(5, UTC), "timestamp"),
    ],
)
def test_what_must_be_an_integer_is_refused_when_it_is_none(
    client: AmqpClient, name: str, value: object, kind: str
) -> None:
    assert refusal(client, {name: value}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/': \"expected integer, got {kind}\""
    )


Faults = dict[str, list[tuple[Any, str]]]

FAULTS: Faults = {
    "x-expires": [
        (0, "{value_zero,0}"),
        (-1, "{value_negative,-1}"),
        (TOO_LONG_MS, "{value_too_large,315360000001}"),
    ],
    "x-message-ttl": [
        (-1, "{value_negative,-1}"),
        (TOO_LONG_MS, "{value_too_large,315360000001}"),
    ],
    "x-max-length": [(-1, "{value_negative,-1}")],
    "x-max-length-bytes": [(-1, "{value_negative,-1}")],
    "x-max-priority": [(-1, "{value_negative,-1}"), (256, "{max_value_exceeded,256}")],
    "x-overflow": [
        (1, "{unacceptable_type,byte}"),
        (300, "{unacceptable_type,short}"),
        (True, "{unacceptable_type,bool}"),
        ("drop", "invalid_overflow"),
    ],
    "x-dead-letter-routing-key": [
        (1, "{unacceptable_type,byte}"),
        ("k", "routing_key_but_no_dlx_defined"),
    ],
    "x-single-active-consumer": [
        (1, "{unacceptable_type,byte}"),
        ("true", "{unacceptable_type,longstr}"),
    ],
    "x-queue-mode": [
        (1, "{unacceptable_type,byte}"),
        ("slow", "\"unsupported queue mode 'slow'\""),
    ],
    "x-queue-version": [
        (-1, "{value_negative,-1}"),
        (3, "\"unsupported queue version '3'\""),
    ],
    "x-queue-type": [
        (1, "{unacceptable_type,byte}"),
        ("mirrored", "\"unsupported queue type 'mirrored'\""),
    ],
    "x-consumer-timeout": [
        (-1, "{value_negative,-1}"),
        (TOO_LONG_MS, "{value_too_large,315360000001}"),
    ],
    "x-durability": [
        (1, "{unacceptable_type,byte}"),
        ("fsnc", "\"unsupported durability 'fsnc'\""),
    ],
    "x-compression": [
        (1, "{unacceptable_type,byte}"),
        ("lz4", "\"unsupported compression 'lz4'\""),
    ],
    "x-retain-for": [(-1, "{value_negative,-1}")],
    "x-retain-bytes": [(-1, "{value_negative,-1}")],
    "x-retain-segments-min": [(-1, "{value_negative,-1}"), (0, "{value_zero,0}")],
    "x-protect-unconsumed": [(1, "{unacceptable_type,byte}")],
    "x-force-remove-after": [(-1, "{value_negative,-1}")],
    "x-segment-max-bytes": [
        (-1, "{value_negative,-1}"),
        (65_535, "{value_too_small,65535}"),
        (2**31 + 1, "{value_too_large,2147483649}"),
    ],
    "x-segment-max-age": [
        (-1, "{value_negative,-1}"),
        (TOO_LONG_MS, "{value_too_large,315360000001}"),
    ],
}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [(name, value, fault) for name, faults in FAULTS.items() for value, fault in faults],
)
def test_a_value_that_an_argument_cannot_have_is_refused(
    client: AmqpClient, name: str, value: object, fault: str
) -> None:
    text = f"invalid arg '{name}' for queue 'q' in vhost '/': {fault}"
    assert refusal(client, {name: value}) == text


QUORUM_FAULTS: Faults = {
    "x-dead-letter-strategy": [
        (1, "{unacceptable_type,byte}"),
        ("twice", "invalid_dlx_strategy"),
    ],
    "x-max-in-memory-length": [(-1, "{value_negative,-1}")],
    "x-max-in-memory-bytes": [("a", '"expected integer, got longstr"')],
    "x-quorum-initial-group-size": [(0, "{value_zero,0}"), (-1, "{value_negative,-1}")],
    "x-queue-leader-locator": [
        (1, "{unacceptable_type,byte}"),
        ("here", "invalid_queue_locator_arg"),
    ],
    "x-expires": [(0, "{value_zero,0}")],
}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [(name, value, fault) for name, faults in QUORUM_FAULTS.items() for value, fault in faults],
)
def test_a_value_that_an_argument_of_a_quorum_queue_cannot_have_is_refused(
    client: AmqpClient, name: str, value: object, fault: str
) -> None:
    text = f"invalid arg '{name}' for queue 'q' in vhost '/': {fault}"
    assert refusal(client, {"x-queue-type": "quorum", name: value}) == text


@pytest.mark.parametrize(("value", "kind"), [(1, "byte"), (True, "bool"), (["x"], "array")])
def test_a_dead_letter_exchange_that_is_no_string_has_a_text_of_its_own(
    client: AmqpClient, value: object, kind: str
) -> None:
    assert refusal(client, {"x-dead-letter-exchange": value, "x-queue-type": "?"}) == (
        f"invalid type '{kind}' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )


INAPPLICABLE = {
    "classic": [
        "x-delivery-limit",
        "x-dead-letter-strategy",
        "x-quorum-initial-group-size",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
    ],
    "quorum": [
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
    ],
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in INAPPLICABLE.items() for name in names]
)
def test_an_argument_that_another_kind_of_queue_has_is_refused_whatever_its_value(
    client: AmqpClient, kind: str, name: str
) -> None:
    text = f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue"
    for value in (1, -1, "lazy"):
        assert refusal(client, {"x-queue-type": kind, name: value}) == text


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"x-max-length": -1, "x-expires": 0}, "x-expires"),
        ({"x-overflow": "?", "x-max-length-bytes": -1}, "x-max-length-bytes"),
        ({"x-max-length": -1, "x-queue-type": "?"}, "x-queue-type"),
        ({"x-delivery-limit": 1, "x-max-length": -1}, "x-max-length"),
        ({"x-queue-type": "quorum", "x-queue-mode": "", "x-max-priority": 1}, "x-max-priority"),
    ],
)
def test_of_two_faults_the_one_that_rabbitmq_sees_first_is_told(
    client: AmqpClient, arguments: dict[str, Any], fault: str
) -> None:
    assert refusal(client, arguments).startswith(f"invalid arg '{fault}' for queue ")


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
        ({"durable": False}, "non-durable"),
        ({"durable": False, "exclusive": True}, "exclusive-owner"),
        ({"durable": False, "exclusive": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_a_quorum_queue_is_durable_shared_and_stays(
    client: AmqpClient, properties: dict[str, bool], name: str
) -> None:
    assert refusal(client, {"x-queue-type": "quorum"}, **properties) == (
        f"invalid property '{name}' for queue 'q' in vhost '/'"
    )
    # What is wrong with the arguments is told first.
    wrong = {"x-queue-type": "quorum", "x-max-priority": 1}
    assert refusal(client, wrong, **properties).startswith("invalid arg 'x-max-priority'")


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-expires": 315_360_000_000, "x-message-ttl": 315_360_000_000},
        {"x-queue-mode": "lazy", "x-queue-version": 1},
        {"x-queue-mode": "default", "x-queue-version": 2, "x-queue-type": "classic"},
        {"x-queue-master-locator": "min-masters", "x-queue-leader-locator": "client-local"},
        {"x-queue-type": "quorum", "x-delivery-limit": -1, "x-queue-leader-locator": "balanced"},
        {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3, "x-max-in-memory-length": 0},
        {"x-queue-type": "quorum", "x-quorum-target-group-size": 3},
        {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"},
        {"x-consumer-timeout": 0, "x-retain-for": 0, "x-compression": "zstd"},
        {"x-segment-max-bytes": 65_536, "x-segment-max-age": 0},
        {"x-retain-bytes": 0, "x-retain-segments-min": 1, "x-protect-unconsumed": True},
        {"x-force-remove-after": 0, "x-protect-unconsumed": False},
        {"x-segment-max-bytes": 2**31, "x-segment-max-age": 315_360_000_000},
        {"x-durability": "write"},
        {"x-durability": "none", "x-queue-type": "quorum"},
        {"x-of-mine": -1, "another": [1]},
    ],
)
def test_what_rabbitmq_takes_is_taken(client: AmqpClient, arguments: dict[str, Any]) -> None:
    client.open_channel(2)
    client.declare("taken", arguments=arguments, channel=2)
    client.publish(b"through", "taken", channel=2)
    message = client.get("taken", channel=2)
    assert message is not None
    assert message.body == b"through"
    client.call(Queue.Delete(queue="taken"), Queue.DeleteOk, 2)
    client.send(Queue.Declare(queue="absent", passive=True), 2)
    client.expect_channel_close(404, 2)


def test_a_reserved_name_is_refused_before_the_arguments_are_looked_at(
    client: AmqpClient,
) -> None:
    client.open_channel()
    client.send(Queue.Declare(queue="amq.mine", arguments={"x-dead-letter-exchange": 1}))
    client.expect_channel_close(403)
