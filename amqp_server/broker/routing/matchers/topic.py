"""Topic exchange: keys are words between dots; `*` is one word, `#` any number of them.

Binding keys are a trie of words. Matching follows all its fitting branches at once: a *state* is
the set of nodes that the words so far can lead to, and one word leads from a state to the next. An
exchange remembers its states and where each word leads, so that most words cost one look-up,
however many bindings there are; this is a deterministic automaton, built as far as it is used.
A word that no binding names always leads to the same state, so that keys with an id in them, which
never come again, need no memory.

A new state costs its number of nodes, and is found in steps. So a key costs words times nodes at
worst, and what several keys of a message have in common (`CC`) is matched once.

Source: AMQP 0-9-1 specification, section 3.1.3.3; an empty key has no words, as in RabbitMQ.
Thompson, "Regular expression search algorithm", 1968, for the sets of nodes.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.known_routes import State, known_end
from amqp_server.broker.routing.matchers.matcher import Matcher
from amqp_server.broker.routing.steps import STEP_VISITS, result_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.routing.matchers.matcher import Destination, MatchedBinding
    from amqp_server.broker.routing.steps import Steps

REMEMBERED_NODES_MAX: Final = 262_144
"""Nodes in all remembered states of an exchange together; at the bound it forgets all states.

A node of a state costs 8 octets, a state itself about 600.
"""
_WORD_NODES: Final = 8
"""Cost of a remembered word."""
_STATE_NODES: Final = 64
"""Cost of a state beside its nodes."""
_NAMES_SHIFT: Final = 4
"""To look for a word at 2**4 nodes takes as long as to follow one."""
_TRIES_MAX: Final = 3
"""Walks of one message; another client may change bindings in each of them, but the last counts."""


class _Node:
    """A place in the trie: the words of a binding key up to here."""

    __slots__ = ("bindings", "takes_any", "words")

    def __init__(self, *, takes_any: bool = False) -> None:
        self.words: dict[str, _Node] = {}
        self.bindings: dict[MatchedBinding, None] = {}
        self.takes_any = takes_any


def _names_in_steps(state: State, word: str) -> Steps[bool]:
    """Return the steps that find whether a binding names this word at this place."""
    for at in range(0, len(state.named), STEP_VISITS):
        if any(word in words for words in state.named[at : at + STEP_VISITS]):
            return True
        if at:
            yield
    return False


class TopicMatcher(Matcher):
    """The binding keys of one topic exchange."""

    routes_singly = False

    def __init__(self) -> None:
        self._root = _Node()
        self._states: dict[frozenset[_Node], State] = {}
        self._numbers = count(1)
        self._remembered_nodes = 0
        self._start: State | None = None
        # How often bindings came or went.
        self._changes = 0

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding."""
        node = self._root
        for word in _pattern(binding.routing_key):
            after = node.words.get(word)
            if after is None:
                after = node.words[word] = _Node(takes_any=word == "#")
            node = after
        node.bindings[binding] = None
        self._changes += 1
        self._forget_states()

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding, and the branches that no other binding uses."""
        path = [self._root]
        words = _pattern(binding.routing_key)
        for word in words:
            path.append(path[-1].words[word])
        del path[-1].bindings[binding]
        for word, parent, node in zip(reversed(words), path[-2::-1], path[:0:-1], strict=True):
            if node.bindings or node.words:
                break
            del parent.words[word]
        self._changes += 1
        self._forget_states()

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose pattern fits one of the keys."""
        return result_of(self.match_in_steps(envelope))

    def match_in_steps(self, envelope: Envelope) -> Steps[Sequence[Destination]]:
        """Return the steps that find the same."""
        for _ in range(_TRIES_MAX):
            changes = self._changes
            ends: dict[State, None] = {}
            for key in envelope.routing_keys:
                if ends:
                    yield
                ends[(yield from self._end_of(key, envelope))] = None
            found: list[Destination] = []
            for end in ends:
                found += yield from self._destinations(end, envelope)
            if changes == self._changes:
                break
        return found

    def branch_of(self, routing_key: str) -> int:
        """Return the number of the state that all words of a key lead to."""
        return result_of(self._end_of(routing_key, Envelope((routing_key,)))).number

    def known_branch_of(self, routing_key: str) -> int | None:
        """Return that number if each word on the way has led to a state before."""
        if self._start is None:
            return None
        end = known_end(self._start, routing_key)
        return None if end is None else end.number

    def _end_of(self, routing_key: str, envelope: Envelope) -> Steps[State]:
        """Return the state that all words of a key lead to."""
        if self._remembered_nodes > REMEMBERED_NODES_MAX:
            self._forget_states()
        state = self._start
        if state is None:
            changes = self._changes
            state = yield from self._state_of((self._root,))
            if changes == self._changes:
                self._start = state
        for word in routing_key.split(".") if routing_key else ():
            after = state.following.get(word)
            if after is None:
                after = yield from self._step(state, word, envelope)
            state = after
        return state

    def _step(self, state: State, word: str, envelope: Envelope) -> Steps[State]:
        """Return the state that a word leads to, and remember it."""
        is_named = word not in ("*", "#") and (yield from _names_in_steps(state, word))
        if not is_named and state.otherwise is not None:
            # Only the word was looked for, which is much less work.
            envelope.visit(len(state.named) >> _NAMES_SHIFT)
            return state.otherwise
        envelope.visit(len(state.nodes))
        reached: list[_Node] = []
        pattern_words = (word, "*") if is_named else ("*",)
        for at, node in enumerate(state.nodes, 1):
            if node.takes_any:
                reached.append(node)
            for pattern_word in pattern_words:
                after = node.words.get(pattern_word)
                if after is not None:
                    reached.append(after)
            if at % STEP_VISITS == 0:
                yield
        after_state = yield from self._state_of(reached)
        if is_named:
            state.following[word] = after_state
            self._remembered_nodes += _WORD_NODES
        else:
            state.otherwise = after_state
        return after_state

    def _state_of(self, reached: Sequence[_Node]) -> Steps[State]:
        """Return the state of these nodes, with the `#` below each: it may stand for no word."""
        changes = self._changes
        nodes: dict[_Node, None] = {}
        for at, node in enumerate(reached, 1):
            nodes[node] = None
            rest = node.words.get("#")
            if rest is not None:
                nodes[rest] = None
            if at % STEP_VISITS == 0:
                yield
        key = frozenset(nodes)
        if key not in self._states:
            named: list[dict[str, _Node]] = []
            for at, node in enumerate(nodes, 1):
                if node.words:
                    named.append(node.words)
                if at % STEP_VISITS == 0:
                    yield
            if changes != self._changes:
                # Nodes that were looked at may have got a first word since: only this walk, which
                # is repeated, may have such a state.
                return State(next(self._numbers), tuple(nodes), named)
            # Another walk may have found it between two steps.
            if key not in self._states:
                self._states[key] = State(next(self._numbers), tuple(nodes), named)
                self._remembered_nodes += len(key) + _STATE_NODES
        return self._states[key]

    def _destinations(self, state: State, envelope: Envelope) -> Steps[tuple[Destination, ...]]:
        """Return where keys go that end at a state, each destination once."""
        if state.destinations is None:
            found: dict[Destination, None] = {}
            visited = 0
            for node in state.nodes:
                envelope.visit(1 + len(node.bindings))
                visited += 1
                if visited % STEP_VISITS == 0:
                    yield
                for binding in tuple(node.bindings):
                    found[binding.destination] = None
                    visited += 1
                    if visited % STEP_VISITS == 0:
                        yield
            state.destinations = tuple(found)
            self._remembered_nodes += len(found)
        return state.destinations

    def __del__(self) -> None:
        self._forget_states()

    def _forget_states(self) -> None:
        # States lead to each other, and to themselves: only the garbage collector would free them,
        # and it never looks at frozen ones. A walk that still has one finds the way on again.
        for state in self._states.values():
            state.following.clear()
            state.otherwise = None
        self._states.clear()
        self._remembered_nodes = 0
        self._start = None


def _pattern(binding_key: str) -> list[str]:
    """Return the words of a binding key; `#` behind `#` adds nothing and is left out."""
    words = binding_key.split(".") if binding_key else []
    return [word for at, word in enumerate(words) if word != "#" or at == 0 or words[at - 1] != "#"]
