"""Topic exchange: keys are words between dots; `*` is one word, `#` any number of them.

Binding keys are a trie of words. Matching follows all its fitting branches at once: a *state* is
the set of nodes that the words so far can lead to, and one word leads from a state to the next. An
exchange remembers its states and where each word leads, so that most words cost one look-up,
however many bindings there are; this is a deterministic automaton, built as far as it is used.
A word that no binding names always leads to the same state, so that keys with an id in them, which
never come again, need no memory.

A new state costs its number of nodes. So a key costs words times nodes at worst, and what several
keys of a message have in common (`CC`) is matched once.

Source: AMQP 0-9-1 specification, section 3.1.3.3; an empty key has no words, as in RabbitMQ.
Thompson, "Regular expression search algorithm", 1968, for the sets of nodes.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from amqp_server.broker.routing.matchers.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.routing.envelope import Envelope

REMEMBERED_NODES_MAX: Final = 262_144
"""Nodes in all remembered states of an exchange together; at the bound it forgets all states.

A node of a state costs 8 octets, a state itself about 600.
"""
NAMED_MAX: Final = 16
"""Nodes of a state that may name the next word, up to which looking through them is quick."""
_WORD_NODES: Final = 8
"""What a remembered word counts for."""
_STATE_NODES: Final = 64
"""What a state counts for beside its nodes."""


class _Node:
    """A place in the trie: the words of a binding key up to here."""

    __slots__ = ("bindings", "takes_any", "words")

    def __init__(self, *, takes_any: bool = False) -> None:
        self.words: dict[str, _Node] = {}
        self.bindings: list[Binding] = []
        self.takes_any = takes_any


class _State:
    """All nodes that some words lead to, and the states that one more word leads to.

    Attributes:
        number: Number that no other state of the exchange has had.
        nodes: The nodes, each once. A node whose next word may be `#` has that child here too.
        following: The next state, by word; only words that a binding names at this place.
        otherwise: The next state for all other words; None until one comes.
        destinations: Where keys go that end here, each once; None until a key ends here.
    """

    __slots__ = ("destinations", "following", "named", "nodes", "number", "otherwise")

    def __init__(self, number: int, nodes: tuple[_Node, ...]) -> None:
        self.number = number
        self.nodes = nodes
        self.named = [node.words for node in nodes if node.words]
        self.following: dict[str, _State] = {}
        self.otherwise: _State | None = None
        self.destinations: tuple[Destination, ...] | None = None

    def names(self, word: str) -> bool:
        """Return whether a binding names this word at this place."""
        for words in self.named:  # noqa: SIM110 - a generator costs more than the search
            if word in words:
                return True
        return False


class TopicMatcher(Matcher):
    """The binding keys of one topic exchange."""

    routes_singly = False

    def __init__(self) -> None:
        self._root = _Node()
        self._states: dict[frozenset[_Node], _State] = {}
        self._numbers = count(1)
        self._remembered_nodes = 0
        self._start: _State | None = None

    def add(self, binding: Binding) -> None:
        """Take in a binding."""
        node = self._root
        for word in _pattern(binding.routing_key):
            after = node.words.get(word)
            if after is None:
                after = node.words[word] = _Node(takes_any=word == "#")
            node = after
        node.bindings.append(binding)
        self._forget_states()

    def remove(self, binding: Binding) -> None:
        """Forget a binding, and the branches that no other binding uses."""
        path = [self._root]
        words = _pattern(binding.routing_key)
        for word in words:
            path.append(path[-1].words[word])
        path[-1].bindings.remove(binding)
        for word, parent, node in zip(reversed(words), path[-2::-1], path[:0:-1], strict=True):
            if node.bindings or node.words:
                break
            del parent.words[word]
        self._forget_states()

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose pattern fits one of the keys."""
        ends = dict.fromkeys(map(self._end_of, envelope.routing_keys))
        if len(ends) == 1:
            return self._destinations(*ends)
        return [destination for end in ends for destination in self._destinations(end)]

    def branch_of(self, routing_key: str) -> int:
        """Return the number of the state that all words of a key lead to."""
        return self._end_of(routing_key).number

    def known_branch_of(self, routing_key: str) -> int | None:
        """Return that number if each word on the way has led to a state before."""
        state = self._start
        if state is None:
            return None
        for word in routing_key.split(".") if routing_key else ():
            after = state.following.get(word)
            if after is None:
                after = state.otherwise
                if after is None or len(state.named) > NAMED_MAX or state.names(word):
                    return None
            state = after
        return state.number

    def _end_of(self, routing_key: str) -> _State:
        """Return the state that all words of a key lead to."""
        if self._remembered_nodes > REMEMBERED_NODES_MAX:
            self._forget_states()
        state = self._start
        if state is None:
            state = self._start = self._state_of((self._root,))
        for word in routing_key.split(".") if routing_key else ():
            after = state.following.get(word)
            if after is None:
                after = self._step(state, word)
            state = after
        return state

    def _step(self, state: _State, word: str) -> _State:
        """Return the state that a word leads to, and remember it."""
        is_named = word not in ("*", "#") and state.names(word)
        if not is_named and state.otherwise is not None:
            return state.otherwise
        reached: list[_Node] = []
        for node in state.nodes:
            if node.takes_any:
                reached.append(node)
            for pattern_word in (word, "*") if is_named else ("*",):
                after = node.words.get(pattern_word)
                if after is not None:
                    reached.append(after)
        after_state = self._state_of(reached)
        if is_named:
            state.following[word] = after_state
            self._remembered_nodes += _WORD_NODES
        else:
            state.otherwise = after_state
        return after_state

    def _state_of(self, reached: Iterable[_Node]) -> _State:
        """Return the state of these nodes, with the `#` below each: it may stand for no word."""
        nodes: dict[_Node, None] = {}
        for node in reached:
            nodes[node] = None
            rest = node.words.get("#")
            if rest is not None:
                nodes[rest] = None
        key = frozenset(nodes)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(next(self._numbers), tuple(nodes))
            self._remembered_nodes += len(key) + _STATE_NODES
        return state

    def _destinations(self, state: _State) -> tuple[Destination, ...]:
        """Return where keys go that end at a state, each destination once."""
        if state.destinations is None:
            found = (binding.destination for node in state.nodes for binding in node.bindings)
            state.destinations = tuple(dict.fromkeys(found))
            self._remembered_nodes += len(state.destinations)
        return state.destinations

    def _forget_states(self) -> None:
        # A state that a walk still has leads on to others: those only live as long as the walk.
        self._states.clear()
        self._remembered_nodes = 0
        self._start = None


def _pattern(binding_key: str) -> list[str]:
    """Return the words of a binding key; `#` behind `#` adds nothing and is left out."""
    words = binding_key.split(".") if binding_key else []
    return [word for at, word in enumerate(words) if word != "#" or at == 0 or words[at - 1] != "#"]
