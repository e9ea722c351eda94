"""Policies and operator policies: what they do to queues and exchanges that exist already."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from pamqp.commands import Basic, Exchange

from tests.amqp_client import AmqpClient
from tests.conformance.broker import Broker
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import drain
from tests.conformance.dead_letters import deaths
from tests.conformance.policies import PolicyRefusedError, policy_tool
from tests.conformance.polling import eventually
from tests.conformance.queues import await_ready_count, exists, publish_all, reject, take
from tests.conformance.routing import bind_queue
from tests.conformance.test_queue_expiry import is_there


class SetPolicy(Protocol):
    """Sets a policy; returns a function that clears it."""

    def __call__(
        self,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> Callable[[], None]:
        """Set it under a free name."""


@pytest.fixture
def set_policy(broker: Broker, new_name: NewName) -> Iterator[SetPolicy]:
    """Return a function that sets policies; they are cleared after the test."""
    tool = policy_tool(broker)
    left: dict[str, bool] = {}

    def set_one(
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> Callable[[], None]:
        name = new_name()
        tool.set(name, pattern, definition, priority=priority, apply_to=apply_to, operator=operator)
        left[name] = operator

        def clear() -> None:
            tool.clear(name, operator=left.pop(name))

        return clear

    yield set_one
    for name, operator in left.items():
        tool.clear(name, operator=operator)


def only(name: str) -> str:
    """Return the pattern of one name."""
    return f"^{name}$"


def test_a_shorter_maximum_trims_at_once_into_dead_letters(
    connect: Connect, name: str, dead_letters: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    publish_all(client, name, b"1", b"2", b"3", b"4")
    definition = {
        "max-length": 2,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": dead_letters,
    }
    set_policy(only(name), definition)
    await_ready_count(client, dead_letters, 2)
    assert deaths(take(client, dead_letters)) == [(name, "maxlen", 1)]
    assert drain(client, name) == [b"3", b"4"]


def test_what_a_shorter_maximum_trims_becomes_dead_letters_oldest_first(
    connect: Connect, name: str, dead_letters: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    bodies = [b"%d" % number for number in range(1_000)]
    publish_all(client, name, *bodies)
    definition = {
        "max-length": 100,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": dead_letters,
    }
    set_policy(only(name), definition)
    await_ready_count(client, dead_letters, 900)
    assert drain(client, dead_letters) == bodies[:900]
    assert drain(client, name) == bodies[900:]


def test_a_maximum_in_octets_counts_messages_that_were_there(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    publish_all(client, name, b"11", b"22", b"33", b"44")
    set_policy(only(name), {"max-length-bytes": 5})
    await_ready_count(client, name, 2)
    publish_all(client, name, b"5")
    assert drain(client, name) == [b"33", b"44", b"5"]


def test_the_lower_of_argument_and_policies_counts(
    connect: Connect, new_name: NewName, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    low, high = new_name(), new_name()
    client.declare(low, arguments={"x-max-length": 1})
    client.declare(high, arguments={"x-max-length": 9})
    set_policy(f"^({low}|{high})$", {"max-length": 3})
    for queue in (low, high):
        publish_all(client, queue, b"1", b"2", b"3", b"4")
    await_ready_count(client, low, 1)
    await_ready_count(client, high, 3)
    clear = set_policy(f"^({low}|{high})$", {"max-length": 2}, operator=True)
    await_ready_count(client, high, 2)
    assert client.ready_count(low) == 1
    clear()
    publish_all(client, high, b"5", b"6")
    await_ready_count(client, high, 3)


def test_the_highest_priority_counts_alone(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    publish_all(client, name, b"1", b"2", b"3")
    set_policy(only(name), {"overflow": "reject-publish"}, priority=5)
    set_policy(only(name), {"max-length": 1}, priority=4)
    publish_all(client, name, b"4")
    assert client.ready_count(name) == 4


@pytest.mark.parametrize("apply_to", ["exchanges"])
def test_a_policy_of_exchanges_leaves_queues_alone(
    connect: Connect, name: str, apply_to: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    set_policy(only(name), {"max-length": 1}, apply_to=apply_to)
    publish_all(client, name, b"1", b"2")
    assert client.ready_count(name) == 2


def test_one_key_of_another_type_keeps_the_whole_policy_away(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    set_policy(only(name), {"max-length": 1, "delivery-limit": 3})
    publish_all(client, name, b"1", b"2")
    assert client.ready_count(name) == 2


def test_a_lifetime_counts_for_messages_that_are_published_later(
    connect: Connect, name: str, dead_letters: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead_letters}
    client.declare(name, arguments=arguments)
    publish_all(client, name, b"before")
    clear = set_policy(only(name), {"message-ttl": 1})
    take_in_order(client, name, b"before")
    publish_all(client, name, b"within")
    assert take(client, dead_letters).body == b"within"
    clear()
    publish_all(client, name, b"after")
    take_in_order(client, name, b"after")


def take_in_order(client: AmqpClient, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        assert take(client, queue).body == body


def test_overflow_counts_from_the_next_publish(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    publish_all(client, name, b"1", b"2")
    clear = set_policy(only(name), {"max-length": 2, "overflow": "reject-publish"})
    client.publish(b"3", name)
    client.expect(Basic.Nack)
    clear()
    client.publish(b"4", name)
    client.expect(Basic.Ack)
    assert drain(client, name) == [b"1", b"2", b"4"]


def test_an_overflow_argument_counts_before_the_policy(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-max-length": 1, "x-overflow": "drop-head"})
    set_policy(only(name), {"overflow": "reject-publish"})
    publish_all(client, name, b"1", b"2")
    assert drain(client, name) == [b"2"]


def test_dead_letters_go_with_the_next_death_of_old_messages_too(
    client: AmqpClient, name: str, dead_letters: str, set_policy: SetPolicy
) -> None:
    client.declare(name)
    for body in (b"1", b"2", b"3"):
        client.publish(body, name)
    reject(client, take(client, name, no_ack=False))
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": dead_letters}
    clear = set_policy(only(name), definition)
    reject(client, take(client, name, no_ack=False))
    assert take(client, dead_letters).body == b"2"
    clear()
    reject(client, take(client, name, no_ack=False))
    await_ready_count(client, name, 0)
    assert client.ready_count(dead_letters) == 0


def test_a_dead_letter_argument_counts_before_the_policy(
    client: AmqpClient, new_name: NewName, dead_letters: str, set_policy: SetPolicy
) -> None:
    name, other = new_name(), new_name()
    client.declare(other)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead_letters}
    client.declare(name, arguments=arguments)
    set_policy(only(name), {"dead-letter-exchange": "", "dead-letter-routing-key": other})
    client.publish(b"1", name)
    reject(client, take(client, name, no_ack=False))
    assert take(client, dead_letters).body == b"1"


def test_an_expiry_counts_from_the_policy(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name)
    set_policy(only(name), {"expires": 100})
    eventually(lambda: not is_there(client, name))


def test_an_alternate_exchange_counts_from_the_next_publish(
    connect: Connect, new_name: NewName, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    exchange, alternate, queue = new_name(), new_name(), new_name()
    for each, kind in ((exchange, "direct"), (alternate, "fanout")):
        client.call(Exchange.Declare(exchange=each, exchange_type=kind), Exchange.DeclareOk)
    client.declare(queue)
    bind_queue(client, queue, alternate)
    client.publish(b"1", "nowhere", exchange=exchange)
    client.expect_confirmed()
    clear = set_policy(only(exchange), {"alternate-exchange": alternate})
    client.publish(b"2", "nowhere", exchange=exchange)
    client.expect_confirmed()
    clear()
    client.publish(b"3", "nowhere", exchange=exchange)
    client.expect_confirmed()
    assert drain(client, queue) == [b"2"]


def test_a_new_queue_has_its_policy_and_a_second_declare_does_not_compare_it(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    set_policy(only(name), {"max-length": 1})
    client = connect(confirms=True)
    client.declare(name)
    publish_all(client, name, b"1", b"2")
    await_ready_count(client, name, 1)
    client.declare(name)
    assert exists(client, name)


def test_a_delivery_limit_counts_earlier_deliveries(
    connect: Connect, name: str, set_policy: SetPolicy
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-queue-type": "quorum"})
    publish_all(client, name, b"1")
    for _ in range(3):
        reject(client, take(client, name, no_ack=False), requeue=True)
    await_ready_count(client, name, 1)
    set_policy(only(name), {"delivery-limit": 2})
    reject(client, take(client, name, no_ack=False), requeue=True)
    await_ready_count(client, name, 0)


@pytest.mark.parametrize(
    ("pattern", "definition", "operator", "fault"),
    [
        ("a", {"max-length": -1}, False, "-1 is not a valid maximum length"),
        ("a", {"message-ttl": "5"}, False, '<<"5">> is not a valid message TTL'),
        ("a", {"nosuch": 1}, False, '[{<<"nosuch">>,1}] are not recognised policy settings'),
        ("a", {}, False, "no policy provided"),
        (
            "a",
            {"stream-max-segment-size-bytes": 3_000_000_001},
            False,
            "3000000001 is not a valid segment size",
        ),
        (
            "(a",
            {"max-length": 1},
            False,
            'pattern should be regular expression but is invalid: {"missing )",2}',
        ),
        (
            "a",
            {"dead-letter-exchange": "x"},
            True,
            '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings',
        ),
    ],
)
def test_mistakes_have_the_same_texts(
    pattern: str,
    definition: dict[str, Any],
    operator: bool,
    fault: str,
    set_policy: SetPolicy,
) -> None:
    with pytest.raises(PolicyRefusedError) as caught:
        set_policy(pattern, definition, operator=operator)
    assert str(caught.value) == fault
