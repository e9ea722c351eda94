"""Both builds of the kernel that follows known routes agree, and neither searches."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.routing import _known_routes_py
from amqp_server.broker.routing.known_routes import KNOWN_WORDS_MAX, NAMED_MAX

_known_routes_c = import_module("amqp_server.broker.routing._known_routes_c")
BUILDS = pytest.mark.parametrize(
    "kernel", [_known_routes_c, _known_routes_py], ids=["compiled", "interpreted"]
)

words = st.sampled_from(["a", "b", "c", "ä", "", "#", "*"])
keys = st.lists(words, max_size=5).map(".".join)
# For each state: the words that its nodes name, where some words lead, and where others lead.
automata = st.lists(
    st.tuples(
        st.lists(st.sets(words, max_size=2), max_size=3),
        st.dictionaries(words, st.integers(0, 3), max_size=4),
        st.none() | st.integers(0, 3),
    ),
    min_size=4,
    max_size=4,
)


def start_of(kernel: ModuleType, automaton: list[Any]) -> Any:  # noqa: ANN401 - of either build
    states = [
        kernel.State(number, (), [dict.fromkeys(names) for names in named])
        for number, (named, _, _) in enumerate(automaton)
    ]
    for state, (_, following, otherwise) in zip(states, automaton, strict=True):
        state.following.update({word: states[to] for word, to in following.items()})
        state.otherwise = None if otherwise is None else states[otherwise]
    return states[0]


def test_the_builds_are_two() -> None:
    assert type(_known_routes_c.known_end) is not type(_known_routes_py.known_end)


@given(automata, keys)
def test_both_builds_reach_the_same_state(automaton: list[Any], key: str) -> None:
    ends = [
        kernel.known_end(start_of(kernel, automaton), key)
        for kernel in (_known_routes_c, _known_routes_py)
    ]
    numbers = [None if end is None else end.number for end in ends]
    assert numbers[0] == numbers[1]


@BUILDS
def test_a_word_that_many_nodes_may_name_is_not_looked_for(kernel: ModuleType) -> None:
    for count, is_found in ((NAMED_MAX, True), (NAMED_MAX + 1, False)):
        state = kernel.State(1, (), [{"named": None}] * count)
        state.otherwise = state
        assert (kernel.known_end(state, "other.words") is state) == is_found
        assert kernel.known_end(state, "named") is None
        assert kernel.known_end(state, "") is state


@BUILDS
@pytest.mark.parametrize("exchanges", [1, 3])
def test_a_route_is_found_within_the_bound_of_words(kernel: ModuleType, exchanges: int) -> None:
    matcher = SimpleNamespace(known_branch_of=lambda key: key.count(".") >= 0)
    start = step = kernel.Step()
    for _ in range(exchanges):
        step.exchange = SimpleNamespace(matcher=matcher)
        step.following[True] = kernel.Step()
        step = step.following[True]
    step.route = "the route"

    longest = KNOWN_WORDS_MAX // exchanges
    assert kernel.known_route(start, ".".join("x" * longest)) == "the route"
    assert kernel.known_route(start, ".".join("x" * (longest + 1))) is None


@BUILDS
def test_a_branch_or_an_exchange_that_is_not_known_has_no_route(kernel: ModuleType) -> None:
    start = kernel.Step()
    assert kernel.known_route(start, "key") is None
    branches: list[int | None] = [None, 1]
    start.exchange = SimpleNamespace(
        matcher=SimpleNamespace(known_branch_of=lambda _key: branches.pop())
    )
    assert kernel.known_route(start, "key") is None
    assert kernel.known_route(start, "key") is None
    start.route = "at once"
    assert kernel.known_route(start, "key") == "at once"
