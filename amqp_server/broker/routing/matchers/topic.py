"""Topic exchange: keys are words between dots; `*` is one word, `#` any number of them.

Bindings are a trie of words, so a match walks the key once however many bindings there are.
`#` may take no word, or one and stay where it is; a node that was reached with the same rest
of the key before is not walked again, which keeps several `#` in one pattern from multiplying.
What a key fits is remembered, until a binding that it may fit comes or goes.

Source: AMQP 0-9-1 specification, section 3.1.3.3; an empty key has no words, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher
from amqp_server.broker.routing.recently_used import RecentlyUsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.routing.envelope import Envelope


MATCHES_MAX = 16_384
"""Routing keys whose match an exchange remembers for sure; twice as many at most."""


class _Node:
    __slots__ = ("bindings", "takes_any", "words")

    def __init__(self, *, takes_any: bool = False) -> None:
        self.words: dict[str, _Node] = {}
        self.bindings: list[Binding] = []
        self.takes_any = takes_any


class TopicMatcher(Matcher):
    """A trie of binding keys."""

    routes_singly = False

    def __init__(self) -> None:
        self._root = _Node()
        self._matches: RecentlyUsed[str, list[Destination]] = RecentlyUsed(MATCHES_MAX)

    def add(self, binding: Binding) -> None:
        """Take in a binding."""
        node = self._root
        for word in _words(binding.routing_key):
            node = node.words.setdefault(word, _Node(takes_any=word == "#"))
        node.bindings.append(binding)
        self._forget(binding.routing_key)

    def remove(self, binding: Binding) -> None:
        """Forget a binding, and the branches that nothing uses any more."""
        self._forget(binding.routing_key)
        path = [self._root]
        words = _words(binding.routing_key)
        for word in words:
            path.append(path[-1].words[word])
        path[-1].bindings.remove(binding)
        for word, parent, node in zip(reversed(words), path[-2::-1], path[:0:-1], strict=True):
            if node.bindings or node.words:
                break
            del parent.words[word]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose pattern fits one of the keys."""
        found: list[Destination] = []
        for key in envelope.routing_keys:
            match = self._matches.get(key)
            if match is None:
                match = self._walk(key)
                self._matches.put(key, match)
            found += match
        return found

    def _forget(self, pattern: str) -> None:
        """Forget the keys whose match a change of this pattern may change."""
        if "*" in pattern or "#" in pattern:
            self._matches.clear()
        else:
            self._matches.forget(pattern)

    def _walk(self, routing_key: str) -> list[Destination]:
        words = _words(routing_key)
        found: list[Destination] = []
        seen: set[tuple[int, int]] = set()
        stack = [(self._root, 0)]
        while stack:
            node, at = stack.pop()
            if (id(node), at) in seen:
                continue
            seen.add((id(node), at))
            if at == len(words):
                found += [binding.destination for binding in node.bindings]
            else:
                for word in (words[at], "*"):
                    after = node.words.get(word)
                    if after is not None and word != "#":
                        stack.append((after, at + 1))
                if node.takes_any:
                    stack.append((node, at + 1))
            rest = node.words.get("#")
            if rest is not None:
                stack.append((rest, at))
        return found


def _words(key: str) -> list[str]:
    return key.split(".") if key else []
