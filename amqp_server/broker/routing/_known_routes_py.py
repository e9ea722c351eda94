"""The way of a routing key through what is known: states of topic exchanges, steps of route trees.

A key that never came before takes this way for each message, so the file is ordinary Python that
the build also compiles, as `_known_routes_c` with the types of its `.pxd`; `known_routes` chooses.
It only follows and never searches: `matchers/topic` makes the states, `route_tree` the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

NAMED_MAX = 16
KNOWN_WORDS_MAX = 128


class State:
    """All nodes of a trie that some words lead to, and the states that one more word leads to.

    Attributes:
        number: Number that no other state of the exchange has had.
        nodes: The nodes, each once. A node whose next word may be `#` has that child here too.
        named: The next words of those nodes that have any: dicts by word.
        following: The next state, by word; only words that a binding names at this place.
        otherwise: The next state for all other words; None until one comes.
        destinations: Where keys go that end here, each once; None until a key ends here.
    """

    __slots__ = ("destinations", "following", "named", "nodes", "number", "otherwise")

    def __init__(self, number: int, nodes: tuple[Any, ...], named: list[dict[str, Any]]) -> None:
        self.number = number
        self.nodes = nodes
        self.named = named
        self.following: dict[str, State] = {}
        self.otherwise: State | None = None
        self.destinations: tuple[Any, ...] | None = None


class Step:
    """A place on the way of a key: the exchange that looks at it next, or the end.

    Attributes:
        exchange: Exchange whose branches lead on; None at the end and before it is known.
        following: The next steps, by branch.
        route: The route, at the end.
    """

    __slots__ = ("exchange", "following", "route")

    def __init__(self) -> None:
        self.exchange: Any = None
        self.following: dict[Hashable, Step] = {}
        self.route: Any = None


def known_end(start: State, routing_key: str) -> State | None:
    """Return the state that the words of a key lead to; None if one of them has led nowhere yet.

    O(words of the key): at a state where more than `NAMED_MAX` nodes may name the next word, a word
    that none of them has named before is not looked for.

    Args:
        start: State before the first word.
        routing_key: Words between dots; an empty key has none.
    """
    state = start
    if not routing_key:
        return state
    for word in routing_key.split("."):
        after = state.following.get(word)
        if after is None:
            after = state.otherwise
            if after is None or len(state.named) > NAMED_MAX or _names(state.named, word):
                return None
        state = after
    return state


def known_route(start: Step, routing_key: str) -> Any:  # noqa: ANN401 - a Route, which imports this
    """Return the route of a key if it is known and found quickly, or None.

    O(words of the key), times the exchanges on its way, which is `KNOWN_WORDS_MAX` at most.

    Args:
        start: First step of a tree.
        routing_key: Key of a message that is published to the tree's exchange.
    """
    step = start
    if step.route is not None:
        return step.route
    word_count = routing_key.count(".") + 1
    visited_count = 0
    while step.route is None:
        exchange = step.exchange
        visited_count += word_count
        if exchange is None or visited_count > KNOWN_WORDS_MAX:
            return None
        branch = exchange.matcher.known_branch_of(routing_key)
        after = step.following.get(branch) if branch is not None else None
        if after is None:
            return None
        step = after
    return step.route


def _names(named: list[dict[str, Any]], word: str) -> bool:
    """Return whether a binding names a word at the place of a small state."""
    for words in named:  # noqa: SIM110 - a generator costs more than the search
        if word in words:
            return True
    return False
