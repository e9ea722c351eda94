"""Policies as values: which one counts, how two are merged, and what of it reaches a queue."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_server.broker.declaring.queue_arguments import QUEUE_ARGUMENTS
from amqp_server.broker.policies.applied_arguments import applied_arguments
from amqp_server.broker.policies.effective_policy import NO_POLICY, merged
from amqp_server.broker.policies.errors import InvalidPolicyError
from amqp_server.broker.policies.keys import KEYS
from amqp_server.broker.policies.policy import Policy, PolicyKind
from amqp_server.broker.policies.validation import (
    DEFINITION_BYTES_MAX,
    policy_from,
    policy_from_json,
)
from amqp_server.broker.policies.vhost_policies import VhostPolicies
from amqp_server.broker.queue_settings import QueueType
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.tables import Table

CLASSIC, QUORUM, STREAM = QueueType.CLASSIC, QueueType.QUORUM, QueueType.STREAM
USER, OPERATOR = PolicyKind.USER, PolicyKind.OPERATOR
Values = dict[str, Any]


def policy(
    name: str = "p",
    pattern: str = "",
    definition: Values | None = None,
    kind: PolicyKind = USER,
    **fields: object,
) -> Policy:
    values = {"name": name, "pattern": pattern, "definition": definition or {"max-length": 1}}
    return policy_from_json(values | {key.replace("_", "-"): fields[key] for key in fields}, kind)


# Which one counts


@pytest.mark.parametrize(
    ("policies", "name", "chosen"),
    [
        ([policy("a", "^x"), policy("b", "^y")], "x1", "a"),
        ([policy("a", "^x"), policy("b", "^y")], "z", None),
        ([policy("a", priority=1), policy("b", priority=2)], "q", "b"),
        ([policy("a", priority=-1), policy("b", priority=-2)], "q", "a"),
        ([policy("b"), policy("a")], "q", "a"),
        ([policy("a", "^x", priority=9), policy("b")], "q", "b"),
        ([policy("a", apply_to="exchanges"), policy("b")], "q", "b"),
        ([policy("a", apply_to="quorum_queues"), policy("b")], "q", "b"),
        # One key that a classic queue cannot have.
        ([policy("a", definition={"max-length": 1, "delivery-limit": 1}), policy("z")], "q", "z"),
    ],
)
def test_the_highest_priority_counts_and_then_the_name(
    policies: list[Policy], name: str, chosen: str | None
) -> None:
    of_vhost = VhostPolicies()
    of_vhost.put(USER, policies)
    found = of_vhost.for_queue(name, CLASSIC).user
    assert (found.name if found else None) == chosen


@pytest.mark.parametrize(
    ("apply_to", "queues", "exchanges"),
    [
        ("all", {CLASSIC, QUORUM}, True),
        ("queues", {CLASSIC, QUORUM}, False),
        ("exchanges", set(), True),
        ("classic_queues", {CLASSIC}, False),
        ("quorum_queues", {QUORUM}, False),
        ("streams", set(), False),
    ],
)
def test_what_a_policy_applies_to(apply_to: str, queues: set[QueueType], exchanges: bool) -> None:
    of_vhost = VhostPolicies()
    # Streams cannot have the key.
    of_vhost.put(USER, [policy(apply_to=apply_to)])
    assert {kind for kind in QueueType if of_vhost.for_queue("q", kind).user} == queues
    assert (of_vhost.for_exchange("x").user is not None) is exchanges


@pytest.mark.parametrize(
    ("definition", "types"),
    [
        ({"max-length": 1}, {CLASSIC, QUORUM}),
        ({"message-ttl": 1}, {CLASSIC, QUORUM}),
        ({"dead-letter-exchange": "x"}, {CLASSIC, QUORUM}),
        ({"overflow": "drop-head"}, {CLASSIC, QUORUM}),
        ({"max-length-bytes": 1}, {CLASSIC, QUORUM, STREAM}),
        ({"delivery-limit": 1}, {QUORUM}),
        ({"dead-letter-strategy": "at-least-once"}, {QUORUM}),
        ({"max-in-memory-bytes": 1}, {QUORUM}),
        ({"max-age": "1D"}, {STREAM}),
        ({"alternate-exchange": "x"}, {CLASSIC, QUORUM, STREAM}),
        ({"ha-mode": "all", "queue-mode": "lazy", "queue-version": 2}, {CLASSIC, QUORUM, STREAM}),
        ({"ha-mode": "all", "max-length": 1}, {CLASSIC, QUORUM}),
        ({"max-age": "1D", "max-length": 1}, set()),
        ({"durability": "none", "compression": "zstd"}, {CLASSIC, QUORUM, STREAM}),
        ({"retain-for": 1}, {CLASSIC, QUORUM}),
    ],
)
def test_one_key_that_a_type_cannot_have_keeps_the_policy_from_it(
    definition: Values, types: set[QueueType]
) -> None:
    of_vhost = VhostPolicies()
    of_vhost.put(USER, [policy(definition=definition)])
    assert {kind for kind in QueueType if of_vhost.for_queue("q", kind).user} == types


def test_a_removed_policy_leaves_the_next_one() -> None:
    of_vhost = VhostPolicies()
    of_vhost.put(USER, [policy("a", priority=1), policy("b")])
    of_vhost.remove(USER, "a")
    assert of_vhost.for_queue("q", CLASSIC).user == policy("b")
    of_vhost.remove(USER, "b")
    assert of_vhost.for_queue("q", CLASSIC) is NO_POLICY


# A user's and an operator's


@pytest.mark.parametrize(
    ("user", "operator", "effective"),
    [
        ({"max-length": 5}, None, {"max-length": 5}),
        (None, {"max-length": 5}, {"max-length": 5}),
        ({"max-length": 5}, {"max-length": 3}, {"max-length": 3}),
        ({"max-length": 3}, {"max-length": 5}, {"max-length": 3}),
        ({"expires": 3, "message-ttl": 9}, {"expires": 5}, {"expires": 3, "message-ttl": 9}),
        ({"max-length": 3}, {"max-length-bytes": 5}, {"max-length": 3, "max-length-bytes": 5}),
        ({"delivery-limit": 3}, {"delivery-limit": 5}, {"delivery-limit": 3}),
        ({"delivery-limit": -1}, {"delivery-limit": 5}, {"delivery-limit": 5}),
        ({"delivery-limit": 3}, {"delivery-limit": -1}, {"delivery-limit": 3}),
        ({"delivery-limit": -1}, {"delivery-limit": -1}, {"delivery-limit": -1}),
        ({"overflow": "drop-head"}, {"overflow": "reject-publish"}, {"overflow": "reject-publish"}),
        ({"queue-version": 2}, {"queue-version": 1}, {"queue-version": 1}),
        (
            {"protect-unconsumed": True},
            {"protect-unconsumed": False},
            {"protect-unconsumed": False},
        ),
        ({"durability": "none"}, {"durability": "fsync"}, {"durability": "fsync"}),
    ],
)
def test_two_policies_are_merged(
    user: Values | None, operator: Values | None, effective: Values
) -> None:
    first = policy("u", definition=user) if user else None
    second = policy("o", definition=operator, kind=OPERATOR) if operator else None
    found = merged(first, second)
    assert found.definition == effective
    assert found.as_json() == {
        "policy": "u" if user else None,
        "operator_policy": "o" if operator else None,
        "effective_policy_definition": effective,
    }


def test_the_lifetime_counts_since_the_policy_that_gives_it_was_set() -> None:
    user = policy(definition={"message-ttl": 5}).with_ttl_since(70)
    operator = policy(definition={"message-ttl": 9}, kind=OPERATOR).with_ttl_since(60)
    assert merged(user, operator).ttl_since_ns == 70
    assert merged(None, operator).ttl_since_ns == 60
    assert merged(policy(), None).ttl_since_ns == 0


# Against the arguments


def integer(value: int) -> FieldValue:
    return FieldValue(b"I", value)


def text(value: str) -> FieldValue:
    return FieldValue(b"S", value.encode())


@pytest.mark.parametrize(
    ("kind", "arguments", "definition", "applied"),
    [
        (CLASSIC, {}, {"max-length": 5}, {"x-max-length": 5}),
        (CLASSIC, {"x-max-length": integer(3)}, {"max-length": 5}, {"x-max-length": 3}),
        (CLASSIC, {"x-max-length": integer(5)}, {"max-length": 3}, {"x-max-length": 3}),
        (CLASSIC, {"x-message-ttl": integer(5)}, {"message-ttl": 3}, {"x-message-ttl": 3}),
        (CLASSIC, {"x-expires": integer(5)}, {"expires": 3}, {"x-expires": 3}),
        (
            CLASSIC,
            {"x-consumer-timeout": integer(5)},
            {"consumer-timeout": 3},
            {"x-consumer-timeout": 3},
        ),
        (
            CLASSIC,
            {"x-dead-letter-exchange": text("a")},
            {"dead-letter-exchange": "b", "dead-letter-routing-key": "k"},
            {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k"},
        ),
        (
            CLASSIC,
            {"x-overflow": text("drop-head")},
            {"overflow": "reject-publish"},
            {"x-overflow": "drop-head"},
        ),
        (
            QUORUM,
            {"x-overflow": text("drop-head")},
            {"overflow": "reject-publish"},
            {"x-overflow": "reject-publish"},
        ),
        (QUORUM, {"x-delivery-limit": integer(5)}, {"delivery-limit": 3}, {"x-delivery-limit": 3}),
        (QUORUM, {"x-delivery-limit": integer(5)}, {"delivery-limit": -1}, {"x-delivery-limit": 5}),
        (STREAM, {"x-max-age": text("1h")}, {"max-age": "2h"}, {"x-max-age": "2h"}),
        (
            STREAM,
            {"x-max-length-bytes": integer(5)},
            {"max-length-bytes": 9},
            {"x-max-length-bytes": 9},
        ),
        (
            CLASSIC,
            {"x-max-length-bytes": integer(5)},
            {"max-length-bytes": 9},
            {"x-max-length-bytes": 5},
        ),
        (
            CLASSIC,
            {"x-durability": text("none")},
            {"durability": "fsync"},
            {"x-durability": "none"},
        ),
        (
            CLASSIC,
            {},
            {"durability": "write", "protect-unconsumed": False, "retain-for": 5},
            {"x-durability": "write", "x-protect-unconsumed": False, "x-retain-for": 5},
        ),
        (CLASSIC, {}, {"ha-mode": "all", "queue-version": 2, "alternate-exchange": "a"}, {}),
    ],
)
def test_a_policy_and_an_argument(
    kind: QueueType, arguments: Table, definition: Values, applied: Values
) -> None:
    found = applied_arguments(arguments, kind, policy(definition=definition).definition)
    plain = {
        name: value.value.decode() if isinstance(value.value, bytes) else value.value
        for name, value in found.items()
    }
    assert plain == applied


def test_without_a_policy_the_arguments_are_the_same_object() -> None:
    arguments = {"x-max-length": integer(3)}
    assert applied_arguments(arguments, CLASSIC, {}) is arguments


def test_every_key_with_an_effect_is_an_argument_of_the_same_types() -> None:
    for name, key in KEYS.items():
        if key.has_effect:
            assert QUEUE_ARGUMENTS[f"x-{name}"].types >= key.types, name


# What is wrong with it


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"definition": {"max-length": -1}}, "-1 is not a valid maximum length"),
        ({"definition": {"max-length": "5"}}, '<<"5">> is not a valid maximum length'),
        ({"definition": {"max-length": 1.5}}, "1.5 is not a valid maximum length"),
        ({"definition": {"max-length": True}}, "true is not a valid maximum length"),
        ({"definition": {"max-length": None}}, "null is not a valid maximum length"),
        ({"definition": {"max-length": [1, "a"]}}, '[1,<<"a">>] is not a valid maximum length'),
        (
            {"definition": {"max-length": {"a": 1}}},
            '[{<<"a">>,1}] is not a valid maximum length',
        ),
        ({"definition": {"max-length": "\xe4"}}, "<<195,164>> is not a valid maximum length"),
        ({"definition": {"message-ttl": -1}}, "-1 is not a valid message TTL"),
        ({"definition": {"expires": 0}}, "0 is not a valid queue expiry"),
        ({"definition": {"max-length-bytes": -1}}, "-1 is not a valid maximum length in bytes"),
        ({"definition": {"expires": 1 << 62}}, f"{1 << 62} is not a valid queue expiry"),
        ({"definition": {"overflow": "x"}}, '<<"x">> is not a valid overflow value'),
        ({"definition": {"delivery-limit": "x"}}, '<<"x">> is not a valid delivery limit'),
        ({"definition": {"dead-letter-exchange": 1}}, "1 is not a valid dead letter exchange name"),
        ({"definition": {"max-age": "5"}}, '<<"5">> is not a valid max age'),
        ({"definition": {"durability": "x"}}, '<<"x">> is not a valid durability'),
        (
            {"definition": {"nosuch": 1, "max-length": 1, "other": "x"}},
            '[{<<"nosuch">>,1},{<<"other">>,<<"x">>}] are not recognised policy settings',
        ),
        ({"definition": {"nosuch": 1, "max-length": -1}}, "-1 is not a valid maximum length"),
        ({"definition": {}}, "no policy provided"),
        ({"definition": 5}, "definition should be a list, actually was 5"),
        (
            {"pattern": "(a"},
            'pattern should be regular expression but is invalid: {"missing )",2}',
        ),
        ({"pattern": 5}, "pattern should be a binary but was 5"),
        ({"priority": "a"}, 'priority should be a number, actually was <<"a">>'),
        ({"priority": True}, "priority should be a number, actually was true"),
        (
            {"apply-to": "foo"},
            "apply-to 'foo' unrecognised; should be 'queues', 'exchanges' or 'all'",
        ),
        ({"name": ""}, "the name of a policy must have 1 to 255 bytes"),
        ({"name": "n" * 256}, "the name of a policy must have 1 to 255 bytes"),
    ],
)
def test_mistakes_are_told_in_the_words_of_rabbitmq(fields: Values, fault: str) -> None:
    values = {"name": "p", "pattern": "", "definition": {"max-length": 1}} | fields
    with pytest.raises(InvalidPolicyError) as caught:
        policy_from_json(values)
    assert caught.value.fault == fault
    assert str(caught.value) == f"Validation failed\n\n{fault}\n"


def test_an_operator_sets_bounds_and_nothing_else() -> None:
    values = {"name": "p", "pattern": "", "definition": {"max-length": 1, "max-age": "1D"}}
    with pytest.raises(InvalidPolicyError) as caught:
        policy_from_json(values, OPERATOR)
    assert caught.value.fault == '[{<<"max-age">>,<<"1D">>}] are not recognised policy settings'


def test_a_definition_has_a_bound() -> None:
    definition = {"dead-letter-exchange": "x" * DEFINITION_BYTES_MAX}
    with pytest.raises(InvalidPolicyError, match=f"at most {DEFINITION_BYTES_MAX}"):
        policy_from_json({"name": "p", "pattern": "", "definition": definition})


def test_a_policy_goes_out_as_it_came_in() -> None:
    values = {
        "vhost": "v",
        "name": "p",
        "pattern": "^a",
        "apply-to": "queues",
        "definition": {"max-length": 1, "federation-upstream-set": [1, {"a": "b"}]},
        "priority": 7,
    }
    assert policy_from_json(values).as_json("v") == values


def test_an_operator_policy_is_a_parameter_in_definitions() -> None:
    operator = policy("o", "^a", {"max-length": 1}, OPERATOR, priority=3)
    parameter = operator.as_parameter("v")
    assert parameter == {
        "vhost": "v",
        "component": "operator_policy",
        "name": "o",
        "value": {
            "pattern": "^a",
            "apply-to": "all",
            "definition": {"max-length": 1},
            "priority": 3,
        },
    }
    assert policy_from_json({"name": "o", **parameter["value"]}, OPERATOR) == operator


# What RabbitMQ 3.10 says of keys that RabbitMQ 4 does not have any more


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ({"queue-master-locator": "nosuch"}, '<<"nosuch">> invalid queue-master-locator value'),
        ({"queue-master-locator": 5}, "5 invalid queue-master-locator value"),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        (
            {"ha-mode": "nodes", "ha-params": ["a", 5]},
            'ha-mode="nodes" takes a list of strings, [5] was not a string',
        ),
        (
            {"ha-sync-mode": "automatic"},
            "ha-mode must be specified to specify ha-params, ha-sync-mode or "
            "ha-promote-on-shutdown",
        ),
        (
            {"ha-mode": "all", "ha-sync-mode": "x"},
            'ha-sync-mode must be "manual" or "automatic", got <<"x">>',
        ),
        (
            {"ha-mode": "all", "ha-sync-batch-size": 0},
            "ha-sync-batch-size takes an integer greater than 0, 0 given",
        ),
        (
            {"ha-mode": "all", "ha-promote-on-shutdown": True},
            'ha-promote-on-shutdown must be "always" or "when-synced", got true',
        ),
        (
            {"ha-mode": "all", "ha-promote-on-failure": "x"},
            'ha-promote-on-failure must be "always" or "when-synced", got <<"x">>',
        ),
    ],
)
def test_a_new_policy_has_values_that_rabbitmq_would_take(definition: Values, fault: str) -> None:
    with pytest.raises(InvalidPolicyError) as caught:
        policy(definition=definition)
    assert str(caught.value) == f"Validation failed\n\n{fault}\n"
    # One that an earlier version has stored goes on.
    assert policy_from("p", pattern="", definition=definition).definition == definition


@pytest.mark.parametrize(
    "definition",
    [
        {"queue-master-locator": "min-masters", "stream-max-segment-size-bytes": 3_000_000_000},
        {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-batch-size": 1},
        {"ha-mode": "exactly", "ha-params": 1, "ha-promote-on-failure": "when-synced"},
        {"ha-mode": "nodes", "ha-params": ["a"], "ha-promote-on-shutdown": "always"},
    ],
)
def test_what_rabbitmq_takes_of_mirrors_and_sizes_is_taken(definition: Values) -> None:
    assert policy(definition=definition).definition == definition
