"""Queue settings: what checked arguments come to."""

from collections.abc import Mapping

import pytest

from amqp_server.broker.queue_settings import (
    DELIVERY_LIMIT_DEFAULT,
    Overflow,
    QueueSettings,
    QueueType,
    queue_settings,
)
from amqp_server.protocol.field_values import PythonValue, table_of

QUORUM: dict[str, PythonValue] = {"x-queue-type": "quorum"}
AT_LEAST_ONCE: dict[str, PythonValue] = {
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


def settings(arguments: Mapping[str, PythonValue]) -> QueueSettings:
    return queue_settings(table_of(arguments))


def test_without_arguments_there_are_no_rules() -> None:
    assert settings({"x-of-mine": 5}) == QueueSettings()


def test_each_argument_sets_its_rule() -> None:
    assert settings(
        {
            "x-message-ttl": 0,
            "x-expires": 1,
            "x-max-length": 2,
            "x-max-length-bytes": 3,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-max-priority": 4,
            "x-single-active-consumer": True,
            "x-consumer-timeout": 5,
        }
    ) == QueueSettings(
        message_ttl_ms=0,
        expires_ms=1,
        max_length=2,
        max_length_bytes=3,
        overflow=Overflow.REJECT_PUBLISH_DLX,
        dead_letter_exchange="",
        dead_letter_routing_key="k",
        max_priority=4,
        single_active_consumer=True,
        consumer_timeout_ms=5,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-priority": 0},
        {"x-single-active-consumer": False},
        {"x-overflow": "drop-head"},
        {"x-queue-type": "classic"},
    ],
)
def test_what_is_as_if_it_were_absent(arguments: Mapping[str, PythonValue]) -> None:
    assert settings(arguments) == QueueSettings()


@pytest.mark.parametrize(
    ("arguments", "limit"), [({}, DELIVERY_LIMIT_DEFAULT), ({"x-delivery-limit": 0}, 0)]
)
def test_a_quorum_queue_has_a_delivery_limit(
    arguments: Mapping[str, PythonValue], limit: int
) -> None:
    quorum = settings({**QUORUM, **arguments})
    assert (quorum.type, quorum.delivery_limit) == (QueueType.QUORUM, limit)


@pytest.mark.parametrize("value", [-1, -0.5, "5", True, None, [], {}, float("inf"), float("nan")])
def test_a_negative_delivery_limit_and_one_that_is_no_number_are_none(value: PythonValue) -> None:
    assert settings({**QUORUM, "x-delivery-limit": value}).delivery_limit is None


def test_a_delivery_limit_may_be_a_fraction() -> None:
    assert settings({**QUORUM, "x-delivery-limit": 2.5}).delivery_limit == 2


def test_a_quorum_queue_that_should_dead_letter_refused_publishes_drops_its_head() -> None:
    overflow = settings(QUORUM | {"x-overflow": "reject-publish-dlx"}).overflow
    assert overflow is Overflow.DROP_HEAD


def test_dead_letters_are_kept_only_by_a_queue_that_refuses_what_it_has_no_room_for() -> None:
    whole = {**QUORUM, **AT_LEAST_ONCE, "x-dead-letter-exchange": "x"}
    assert settings(whole).dead_letters_at_least_once
    for missing in ("x-overflow", "x-dead-letter-exchange", "x-dead-letter-strategy"):
        part = {name: value for name, value in whole.items() if name != missing}
        assert not settings(part).dead_letters_at_least_once
