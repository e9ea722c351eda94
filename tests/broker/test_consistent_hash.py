"""Consistent hashing: shares by weight, buckets in order, and what can be hashed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.binding import Binding
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.matchers import ConsistentHashMatcher
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_values import FieldValue, PythonValue
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.tables import table_of
from appendlog.layout.message import HAS_HEADERS, encode_message
from appendlog.sharding import pick_shard
from tests.broker.bindings import SOURCE, a_queue, bind

MESSAGES = 20_000


def a_matcher(arguments: dict[str, PythonValue] | None = None) -> ConsistentHashMatcher:
    return ConsistentHashMatcher(table_of(arguments or {}))


def weighted(name: str, weight: int) -> Binding:
    return bind(str(weight), to=a_queue(name))


def placed(matcher: ConsistentHashMatcher, count: int = MESSAGES) -> list[str]:
    """Return where messages with keys 0, 1, 2 ... go."""
    return [matcher.match(Envelope((str(at),)))[0].name for at in range(count)]


def sent_with(properties: Properties, key: str = "key") -> Envelope:
    return Envelope((key,), encode_message(HAS_HEADERS, b"", b"", properties.encode(), b""))


def test_every_destination_gets_the_share_of_its_weight() -> None:
    matcher = a_matcher()
    weights = {"a": 1, "b": 2, "c": 3, "d": 10}
    for name, weight in weights.items():
        matcher.add(weighted(name, weight))

    counts = Counter(placed(matcher))

    for name, weight in weights.items():
        # Four standard deviations of a fair draw are below 0.06 of the smallest share's messages.
        assert counts[name] == pytest.approx(MESSAGES * weight / 16, rel=0.12)


def test_a_new_destination_takes_its_share_and_nothing_else_moves() -> None:
    matcher = a_matcher()
    for name in "abcd":
        matcher.add(weighted(name, 1))
    before = placed(matcher)

    matcher.add(weighted("e", 1))

    moved = [(old, new) for old, new in zip(before, placed(matcher), strict=True) if old != new]
    assert {new for _, new in moved} == {"e"}
    assert len(moved) == pytest.approx(MESSAGES / 5, rel=0.1)
    assert min(Counter(old for old, _ in moved).values()) > MESSAGES / 5 / 4 * 0.8


def test_only_what_the_last_destination_had_moves_when_it_leaves() -> None:
    matcher = a_matcher()
    bindings = [weighted(name, 2) for name in "abcd"]
    for binding in bindings:
        matcher.add(binding)
    before = placed(matcher)

    matcher.remove(bindings[3])

    after = placed(matcher)
    assert {old for old, new in zip(before, after, strict=True) if old != new} == {"d"}
    assert set(after) == {"a", "b", "c"}


def test_the_buckets_behind_one_that_leaves_are_renumbered() -> None:
    matcher = a_matcher()
    bindings = [weighted(name, 1) for name in "abcd"]
    for binding in bindings:
        matcher.add(binding)

    matcher.remove(bindings[1])

    assert placed(matcher, 500) == ["acd"[pick_shard(str(at), 3)] for at in range(500)]


@given(keys=st.lists(st.text(max_size=30), max_size=20), count=st.integers(1, 40))
def test_with_weights_of_one_the_bucket_is_the_shard(keys: list[str], count: int) -> None:
    matcher = a_matcher()
    for shard in range(count):
        matcher.add(weighted(str(shard), 1))

    for key in keys:
        assert matcher.match(Envelope((key,)))[0].name == str(pick_shard(key, count))


def test_buckets_are_in_the_order_of_the_numbers_of_bindings() -> None:
    matcher = a_matcher()
    for number in (2, 0, 1):
        matcher.add(Binding(SOURCE, a_queue(str(number)), "1", {}, number))

    assert placed(matcher, 100) == [str(pick_shard(str(at), 3)) for at in range(100)]


def test_a_destination_has_a_bucket_for_each_unit_of_its_weight() -> None:
    matcher = a_matcher()
    for name, weight in (("a", 2), ("b", 1), ("c", 3)):
        matcher.add(weighted(name, weight))

    assert placed(matcher, 500) == ["aabccc"[pick_shard(str(at), 6)] for at in range(500)]


def test_where_a_key_goes_is_the_same_in_every_process() -> None:
    """What is written here must never change: it would move messages at an update."""
    matcher = a_matcher()
    for name in "abcd":
        matcher.add(weighted(name, 1))

    assert "".join(placed(matcher, 24)) == "dcccaadcbacdbddaacccbacc"


def test_the_first_binding_of_a_destination_gives_its_weight() -> None:
    matcher = a_matcher()
    a, b = a_queue("a"), a_queue("b")
    first, second = bind("1", to=a), bind("99", to=a)
    for binding in (first, second, bind("1", to=b)):
        matcher.add(binding)
    assert Counter(placed(matcher, 2000))["a"] < 1200

    matcher.remove(first)
    assert Counter(placed(matcher, 2000))["a"] > 1800

    matcher.remove(second)
    assert set(placed(matcher, 100)) == {"b"}


def test_weights_may_be_as_large_as_a_key_can_say() -> None:
    matcher = a_matcher()
    matcher.add(bind("9" * 255, to=a_queue("heavy")))
    matcher.add(weighted("light", 1))

    assert set(placed(matcher, 500)) == {"heavy"}


def test_without_bindings_nothing_fits() -> None:
    assert a_matcher().match(Envelope(("key",))) == ()


@pytest.mark.parametrize("argument", ["hash-header", "x-hash-on"])
def test_a_header_is_hashed_where_it_is_asked_for(argument: str) -> None:
    matcher = a_matcher({argument: "user"})
    for name in "abcdefgh":
        matcher.add(weighted(name, 1))

    def places(values: list[PythonValue]) -> set[str]:
        return {
            matcher.match(sent_with(Properties(headers=table_of({"user": value})), str(at)))[0].name
            for at, value in enumerate(values)
        }

    assert matcher.routes_singly
    assert len(places(["same"] * 50)) == 1
    assert len(places([str(at) for at in range(200)])) == 8
    assert len(places(list(range(200)))) == 8
    assert len({matcher.match(sent_with(Properties(), str(at)))[0] for at in range(50)}) == 1


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_is_hashed_where_it_is_asked_for(name: str) -> None:
    matcher = a_matcher({"hash-property": name})
    for queue in "abcdefgh":
        matcher.add(weighted(queue, 1))

    def place(value: int, key: str) -> str:
        typed = value if name == "timestamp" else str(value)
        return matcher.match(sent_with(Properties(**{name: typed}), key))[0].name  # type: ignore[arg-type]

    assert matcher.routes_singly
    assert len({place(7, str(at)) for at in range(50)}) == 1
    assert len({place(at, "same") for at in range(200)}) == 8


def test_the_routing_key_alone_needs_no_look_at_the_message() -> None:
    assert not a_matcher().routes_singly


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": 1}, "invalid type 'signedint' for arg 'hash-property'"),
        ({"hash-header": True}, "invalid type 'bool' for arg 'hash-header'"),
    ],
)
def test_arguments_that_do_not_say_what_to_hash_are_refused(
    arguments: dict[str, PythonValue], text: str
) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        a_matcher(arguments)

    assert refused.value.reply_text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("key", ["1", "+3", "0010", "1000000"])
def test_a_weight_is_a_positive_integer(key: str) -> None:
    a_matcher().check_binding(key, {})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("a", 'The binding key must be an integer: <<"a">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 10", 'The binding key must be an integer: <<" 10">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("\u0665", "The binding key must be an integer: <<217,165>>"),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_any_other_weight_is_refused(key: str, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        a_matcher().check_binding(key, {})

    assert refused.value.reply_text == f"PRECONDITION_FAILED - {text}"


def test_octets_and_text_of_a_header_hash_alike() -> None:
    matcher = a_matcher({"hash-header": "h"})
    for name in "abcdefgh":
        matcher.add(weighted(name, 1))

    for text in ("one", "two", "three", "four"):
        places = {
            matcher.match(sent_with(Properties(headers={"h": FieldValue(kind, text.encode())})))[0]
            for kind in (b"S", b"x")
        }
        assert len(places) == 1
