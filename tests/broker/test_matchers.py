"""Which bindings fit a message, by exchange type; topics against a matcher of three lines."""

import gc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.binding import Binding
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.known_routes import State
from amqp_server.broker.routing.matchers import (
    MATCHERS,
    DirectMatcher,
    FanoutMatcher,
    HeadersMatcher,
    RandomMatcher,
    TopicMatcher,
)
from amqp_server.broker.routing.matchers import topic as topic_matcher
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_values import FieldValue, PythonValue
from amqp_server.protocol.tables import VOID, DecimalValue, table_of
from tests.broker.bindings import a_queue, bind, sent


def names(destinations: object) -> set[str]:
    assert isinstance(destinations, list | tuple)
    return {each.name for each in destinations}


# Direct and fanout


def test_direct_takes_the_equal_key_only() -> None:
    matcher = DirectMatcher()
    keys = ["", "a", "a.b", "*", "#"]
    for key in keys:
        matcher.add(bind(key))

    for key in keys:
        assert names(matcher.match(sent(key))) == {key}
    assert names(matcher.match(sent("A"))) == set()


def test_fanout_takes_every_key() -> None:
    matcher = FanoutMatcher()
    for key in ("", "a"):
        matcher.add(bind(key))

    assert names(matcher.match(sent("whatever"))) == {"", "a"}


@pytest.mark.parametrize("kind", ["direct", "fanout", "headers", "topic"])
def test_a_binding_that_is_removed_fits_no_more_and_its_twin_stays(kind: str) -> None:
    matcher = MATCHERS[kind]({})
    first, second, other = bind("a.b"), bind("a.b"), bind("a")
    for binding in (first, second, other):
        matcher.add(binding)

    matcher.remove(first)

    assert second.destination in list(matcher.match(sent("a.b")))
    assert first.destination not in list(matcher.match(sent("a.b")))
    matcher.remove(second)
    matcher.remove(other)
    assert list(matcher.match(sent("a.b"))) == []


# Topic


def fits(pattern: list[str], words: list[str]) -> bool:
    """The obvious recursion."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return fits(pattern[1:], words) or (bool(words) and fits(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and fits(pattern[1:], words[1:])


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def topic(*patterns: str) -> TopicMatcher:
    matcher = TopicMatcher()
    for pattern in patterns:
        matcher.add(bind(pattern))
    return matcher


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("*", "", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "ab", False),
        ("#.a", "a", True),
        ("#.a", "b.c.a", True),
        ("#.a", "a.b", False),
        ("#.#", "", True),
        ("#.*", "", False),
        ("#.*", "a", True),
        ("*.#.*", "a", False),
        ("*.#.*", "a.b", True),
        ("a.#.b.#.c", "a.c.b.b.b.c", True),
        ("a.#.b.#.c", "a.c.c", False),
        ("#.a.#", "b.a.b.a", True),
        ("a.*.b", "a..b", True),
        ("a..b", "a..b", True),
        (".", ".", True),
        ("*.*", ".", True),
        ("*", ".", False),
        # In a routing key the two signs are words like any other.
        ("a", "*", False),
        ("a.b", "a.#", False),
        ("*", "#", True),
        ("#", "#", True),
    ],
)
def test_topic_patterns(pattern: str, key: str, expected: bool) -> None:
    assert fits(words_of(pattern), words_of(key)) is expected
    assert bool(topic(pattern).match(sent(key))) is expected


keys = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=7).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "", "*", "#", "#"]), max_size=6).map(".".join)


@given(patterns=st.lists(patterns, max_size=8), removed=st.sets(st.integers(0, 7)), key=keys)
def test_topic_finds_what_the_recursion_finds(
    patterns: list[str], removed: set[int], key: str
) -> None:
    matcher = TopicMatcher()
    bindings = [bind(pattern, to=a_queue(str(at))) for at, pattern in enumerate(patterns)]
    for binding in bindings:
        matcher.add(binding)
    for at in removed & set(range(len(bindings))):
        matcher.remove(bindings[at])

    expected = {
        str(at)
        for at, pattern in enumerate(patterns)
        if at not in removed and fits(words_of(pattern), words_of(key))
    }
    assert names(matcher.match(sent(key))) == expected


@given(
    changes=st.lists(st.tuples(st.integers(0, 5), patterns), max_size=20),
    routed=st.lists(keys, min_size=1, max_size=5),
)
def test_topic_finds_what_the_recursion_finds_after_every_change(
    changes: list[tuple[int, str]], routed: list[str]
) -> None:
    """Each of six destinations has one pattern at a time, or none; every key is asked each time."""
    matcher = TopicMatcher()
    destinations = [a_queue(str(at)) for at in range(6)]
    bound: dict[int, Binding] = {}
    for at, pattern in changes:
        if at in bound:
            matcher.remove(bound.pop(at))
        else:
            bound[at] = bind(pattern, to=destinations[at])
            matcher.add(bound[at])
        for key in routed:
            expected = {
                str(at)
                for at, binding in bound.items()
                if fits(words_of(binding.routing_key), words_of(key))
            }
            assert names(matcher.match(sent(key))) == expected


def test_keys_that_never_come_again_need_no_memory() -> None:
    matcher = topic("order.*.created", "order.*.#", "#.failed")

    for at in range(1_000):
        assert len(matcher.match(sent(f"order.{at}.created"))) == 2
        assert len(matcher.match(sent(f"{at}.{at}.{at}"))) == 0

    assert len(matcher._states) < 16


def test_a_topic_exchange_remembers_no_more_states_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_matcher, "REMEMBERED_NODES_MAX", 10_000)
    chance = Random(7)
    wild = [".".join(chance.choices("ab*#", k=12)) for _ in range(40)]
    matcher = topic(*wild)

    for _ in range(300):
        key = ".".join(chance.choices("ab", k=12))
        expected = sorted(at for at in wild if fits(words_of(at), words_of(key)))
        assert sorted(each.name for each in matcher.match(sent(key))) == expected
        assert matcher._remembered_nodes < 13_000


def test_remembered_words_have_a_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand patterns lead from each of two thousand places to each other one."""
    monkeypatch.setattr(topic_matcher, "REMEMBERED_NODES_MAX", 20_000)
    matcher = topic(*(f"#.u{number}" for number in range(100)))

    for first in range(100):
        for second in range(100):
            assert len(matcher.match(sent(f"u{first}.u{second}"))) == 1
            words = sum(len(state.following) for state in matcher._states.values())
            assert words * 8 <= 21_000


def test_copies_of_many_words_over_many_patterns_cost_one_walk() -> None:
    """One message of this kind once took 37 seconds: each key walked all patterns again."""
    matcher = topic(
        *(".".join(["#.w"] * n) + ".#" for n in range(1, 40)), *("#." * n for n in range(256))
    )
    keys = tuple(".".join(["w"] * 60 + [str(at)]) for at in range(900))

    assert len(matcher.match(Envelope(keys))) == 39

    # A state is what a walk makes once: here one for each word, and one for all last words.
    assert len(matcher._states) <= 62


@given(patterns=st.lists(patterns, max_size=8))
def test_a_topic_trie_without_bindings_is_empty_again(patterns: list[str]) -> None:
    matcher = TopicMatcher()
    bindings = [bind(pattern) for pattern in patterns]
    for binding in bindings:
        matcher.add(binding)
    for binding in reversed(bindings):
        matcher.remove(binding)

    assert not matcher._root.words
    assert not matcher._root.bindings


@pytest.mark.parametrize("forget", ["a new binding", "the end of the exchange"])
def test_the_states_that_a_topic_exchange_forgets_are_freed_without_the_collector(
    forget: str,
) -> None:
    """The state of `#` leads to itself: nothing freed it once it was frozen."""
    matcher = topic("#.a", "*.#", "b.#.c")
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            for key in ("a.b.c", "b.x.c.a", "x.y.z", "b.b.b"):
                matcher.match(sent(key))
            assert states_alive() > 3
            if forget == "a new binding":
                matcher.add(bind("other"))
            else:
                del matcher
                matcher = topic("#.a", "*.#", "b.#.c")
            assert states_alive() == 0
    finally:
        gc.enable()


def states_alive() -> int:
    return sum(isinstance(each, State) for each in gc.get_objects())


# Headers


def headers(arguments: dict[str, PythonValue], **given_headers: PythonValue) -> bool:
    matcher = HeadersMatcher()
    matcher.add(bind(arguments=table_of(arguments)))
    named = {name.replace("_", "-"): value for name, value in given_headers.items()}
    return bool(matcher.match(sent("any key", table_of(named))))


@pytest.mark.parametrize("kind", [{}, {"x-match": "all"}])
def test_headers_all_asks_for_every_argument(kind: dict[str, PythonValue]) -> None:
    arguments = {**kind, "a": 1, "b": "two"}

    assert headers(arguments, a=1, b="two")
    assert headers(arguments, a=1, b="two", c=3)
    assert not headers(arguments, a=1)
    assert not headers(arguments, a=1, b="three")
    assert not headers(arguments)


def test_headers_any_asks_for_one_argument() -> None:
    arguments: dict[str, PythonValue] = {"x-match": "any", "a": 1, "b": "two"}

    assert headers(arguments, a=1)
    assert headers(arguments, a=2, b="two")
    assert not headers(arguments, a=2)
    assert not headers(arguments)


def test_headers_all_of_nothing_fits_and_any_of_nothing_does_not() -> None:
    assert headers({})
    assert headers({"x-match": "all-with-x"})
    assert not headers({"x-match": "any"})
    assert not headers({"x-match": "any-with-x"})


def test_headers_that_begin_with_x_count_only_when_asked_for() -> None:
    assert headers({"x-match": "all", "x-a": 1})
    assert not headers({"x-match": "any", "x-a": 1}, x_a=1)
    assert not headers({"x-match": "all-with-x", "x-a": 1})
    assert headers({"x-match": "all-with-x", "x-a": 1}, x_a=1)
    assert headers({"x-match": "any-with-x", "x-a": 1}, x_a=1)


def test_a_void_argument_asks_for_presence_only() -> None:
    assert headers({"a": None}, a="anything")
    assert not headers({"a": None}, b="anything")


NUMBERS = [
    FieldValue(b"b", 1),
    FieldValue(b"B", 1),
    FieldValue(b"s", 1),
    FieldValue(b"u", 1),
    FieldValue(b"I", 1),
    FieldValue(b"i", 1),
    FieldValue(b"l", 1),
    FieldValue(b"L", 1),
    FieldValue(b"T", 1),
    FieldValue(b"f", 1.0),
    FieldValue(b"d", 1.0),
]
TEXTS = [FieldValue(b"S", b"1"), FieldValue(b"x", b"1")]
EMPTY = [FieldValue(b"A", []), FieldValue(b"F", {})]
BYTE, INTEGER = FieldValue(b"b", 1), FieldValue(b"I", 1)
ALONE = [
    FieldValue(b"t", True),
    FieldValue(b"D", DecimalValue(0, 1)),
    FieldValue(b"D", DecimalValue(1, 10)),
    FieldValue(b"A", [BYTE]),
    FieldValue(b"A", [INTEGER]),
    FieldValue(b"F", {"a": BYTE}),
    FieldValue(b"F", {"a": INTEGER}),
    FieldValue(b"F", {"a": BYTE, "b": BYTE}),
    FieldValue(b"F", {"b": BYTE, "a": BYTE}),
]
CLASSES = [NUMBERS, TEXTS, EMPTY, *([value] for value in ALONE)]


def test_headers_are_equal_by_value_and_kinds_count_only_inside_arrays_and_tables() -> None:
    """Seen on RabbitMQ 3.10, every value against every other."""
    for one in CLASSES:
        for other in CLASSES:
            for wanted in one:
                for given_value in other:
                    assert headers({"a": wanted}, a=given_value) is (one is other)


def test_a_void_header_is_there_and_equals_nothing_else() -> None:
    assert headers({"a": None}, a=None)
    assert not headers({"a": 0}, a=None)
    assert not headers({"a": "undefined"}, a=None)


def test_a_header_that_is_no_number_equals_one_of_the_same_bits() -> None:
    def nan() -> float:
        return float("nan")

    assert headers({"a": nan()}, a=nan())
    assert headers({"a": [nan()]}, a=[nan()])
    assert not headers({"a": nan()}, a=0.0)
    assert not headers({"a": nan()}, a=FieldValue(b"S", b"nan"))


def test_zero_has_no_sign() -> None:
    assert headers({"a": -0.0}, a=FieldValue(b"b", 0))


def test_a_message_without_headers_has_none() -> None:
    matcher = HeadersMatcher()
    matcher.add(bind("one", table_of({"a": 1})))
    matcher.add(bind("two"))

    assert names(matcher.match(sent(""))) == {"two"}


@pytest.mark.parametrize("kind", [None, "all", "any", "all-with-x", "any-with-x"])
def test_there_are_four_kinds_of_match(kind: str | None) -> None:
    HeadersMatcher().check_binding("", table_of({} if kind is None else {"x-match": kind}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ANY", 'value <<"ANY">>; expected all, any, all-with-x, or any-with-x'),
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (1, "type signedint (value 1); expected longstr"),
        (True, "type bool (value true); expected longstr"),
        (VOID, "type void (value undefined); expected longstr"),
        (FieldValue(b"x", b"any"), 'type binary (value <<"any">>); expected longstr'),
        ([], "type array (value []); expected longstr"),
        (1.5, "type double (value 1.5); expected longstr"),
    ],
)
def test_any_other_kind_of_match_is_refused(value: PythonValue, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        HeadersMatcher().check_binding("", table_of({"x-match": value}))

    assert refused.value.reply_text == f"PRECONDITION_FAILED - Invalid x-match field {text}"


# Random


def test_random_takes_every_destination_now_and_then_and_one_at_a_time() -> None:
    matcher = RandomMatcher()
    for name in "abc":
        matcher.add(bind(name))

    matches = [matcher.match(sent(str(at))) for at in range(300)]

    assert all(len(match) == 1 for match in matches)
    assert names([match[0] for match in matches]) == {"a", "b", "c"}
    assert matcher.routes_singly


def test_random_without_bindings_fits_nothing() -> None:
    assert RandomMatcher().match(sent("key")) == ()
