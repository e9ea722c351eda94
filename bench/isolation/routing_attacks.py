"""Attacks on the way from an exchange to its queues."""

import itertools
from collections.abc import Iterator
from random import Random
from typing import Final

from bench.isolation.attack import Attack, Stage
from bench.isolation.methods import (
    EXCHANGE_BOUND,
    EXCHANGE_DECLARED,
    QUEUE_BOUND,
    QUEUE_DECLARED,
    bind_exchange,
    bind_queue,
    declare_exchange,
    declare_queue,
    publish,
)

_QUEUE: Final = "target"
_EXCHANGE: Final = "attacked"
_HASHES_MAX: Final = 127
"""Most `#.` before a word that fit into a binding key."""


def _declare(stage: Stage, kind: str) -> None:
    stage.attacker.ask([declare_exchange(_EXCHANGE, kind)], EXCHANGE_DECLARED)
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)


def _bind_hashes(stage: Stage, bindings: int) -> None:
    _declare(stage, "topic")
    keys = ["#." * (n % _HASHES_MAX + 1) + "wvu"[n // _HASHES_MAX] for n in range(bindings)]
    stage.attacker.ask([bind_queue(_EXCHANGE, _QUEUE, key) for key in keys], QUEUE_BOUND)


def _keys(count: int, words: int) -> list[str]:
    random = Random(1)
    return [".".join([*random.choices("wv", k=words - 1), "w"]) for _ in range(count)]


def _carbon_copies(stage: Stage, keys: int, words: int, bindings: int) -> Iterator[None]:
    _bind_hashes(stage, bindings)
    message = publish(_EXCHANGE, "w", headers={"CC": _keys(keys, words)})
    yield
    stage.attacker.publish(message)


def _long_keys(stage: Stage, messages: int, words: int, bindings: int) -> Iterator[None]:
    _bind_hashes(stage, bindings)
    octets = b"".join(publish(_EXCHANGE, key) for key in _keys(messages, words))
    yield
    stage.attacker.publish(octets)


def _words_between_hashes(stage: Stage, messages: int, words: int, bindings: int) -> Iterator[None]:
    _declare(stage, "topic")
    patterns = [".".join(["#.w"] * n) + ".#" for n in range(1, bindings + 1)]
    stage.attacker.ask([bind_queue(_EXCHANGE, _QUEUE, each) for each in patterns], QUEUE_BOUND)
    octets = b"".join(publish(_EXCHANGE, key) for key in _keys(messages, words))
    yield
    stage.attacker.publish(octets)


def _headers(stage: Stage, bindings: int, messages: int) -> Iterator[None]:
    _declare(stage, "headers")
    fields = [{"type": f"t{n}", "region": f"r{n % 10}"} for n in range(max(bindings, messages))]
    binds = [
        bind_queue(_EXCHANGE, _QUEUE, arguments={"x-match": "all"} | each)
        for each in fields[:bindings]
    ]
    stage.attacker.ask(binds, QUEUE_BOUND)
    octets = b"".join(publish(_EXCHANGE, "", headers=each) for each in fields[:messages])
    yield
    stage.attacker.publish(octets)


def _declare_queues(stage: Stage, kind: str, queues: int, arguments: dict[str, str | int]) -> None:
    stage.attacker.ask([declare_exchange(_EXCHANGE, kind)], EXCHANGE_DECLARED)
    names = [f"q{n}" for n in range(queues)]
    stage.attacker.ask([declare_queue(name, arguments) for name in names], QUEUE_DECLARED)
    fields = {"x-match": "all", "type": "all"} if kind == "headers" else None
    stage.attacker.ask([bind_queue(_EXCHANGE, name, "", fields) for name in names], QUEUE_BOUND)


def _headers_to_queues(stage: Stage, queues: int, messages: int) -> Iterator[None]:
    _declare_queues(stage, "headers", queues, {})
    octets = publish(_EXCHANGE, "", headers={"type": "all"}) * messages
    yield
    stage.attacker.publish(octets)


def _carbon_copies_to_queues(stage: Stage, queues: int, messages: int) -> Iterator[None]:
    _declare_queues(stage, "fanout", queues, {})
    octets = publish(_EXCHANGE, "", headers={"CC": ["nowhere"]}) * messages
    yield
    stage.attacker.publish(octets)


def _refusing_queues(stage: Stage, queues: int, messages: int) -> Iterator[None]:
    _declare_queues(stage, "fanout", queues, {"x-max-length": 1, "x-overflow": "reject-publish"})
    stage.attacker.select_confirms()
    octets = publish(_EXCHANGE, "") * messages
    yield
    stage.attacker.send(octets)
    stage.attacker.await_confirms(messages)


def _unrelated_declares(stage: Stage, bindings: int, messages: int) -> Iterator[None]:
    _declare(stage, "direct")
    binds = [bind_queue(_EXCHANGE, _QUEUE, f"key-{n}") for n in range(bindings)]
    stage.attacker.ask(binds, QUEUE_BOUND)
    message = publish(_EXCHANGE, "key-1")
    yield
    requests = [declare_queue(f"unrelated-{n}") + message for n in range(messages)]
    stage.attacker.ask(requests, QUEUE_DECLARED)
    stage.attacker.finish()


def _chain(stage: Stage, exchanges: int, keys: int) -> Iterator[None]:
    names = [_EXCHANGE, *(f"level-{n}" for n in range(1, exchanges))]
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    stage.attacker.ask([declare_exchange(name, "fanout") for name in names], EXCHANGE_DECLARED)
    pairs = itertools.pairwise(names)
    stage.attacker.ask([bind_exchange(*pair) for pair in pairs], EXCHANGE_BOUND)
    stage.attacker.ask([bind_queue(names[-1], _QUEUE)], QUEUE_BOUND)
    octets = b"".join(publish(_EXCHANGE, f"key-{n}") for n in range(keys))
    yield
    stage.attacker.publish(octets)


ROUTING_ATTACKS: Final = (
    Attack(
        "carbon-copies",
        "one message with many long CC keys to a topic exchange with bindings `#.#.#.w`",
        _carbon_copies,
        {"keys": 900, "words": 61, "bindings": 256},
        {"keys": 90, "words": 61, "bindings": 256},
    ),
    Attack(
        "long-keys",
        "messages with keys of many words over the same bindings",
        _long_keys,
        {"messages": 100, "words": 127, "bindings": 256},
        {"messages": 10, "words": 127, "bindings": 256},
    ),
    Attack(
        "words-between-hashes",
        "messages with keys of many words over bindings `#.w.#.w.#`",
        _words_between_hashes,
        {"messages": 400, "words": 61, "bindings": 40},
        {"messages": 40, "words": 61, "bindings": 40},
    ),
    Attack(
        "headers-5000",
        "messages through a headers exchange with 5,000 bindings",
        _headers,
        {"bindings": 5_000, "messages": 2_000},
        {"bindings": 5_000, "messages": 200},
    ),
    Attack(
        "headers-500",
        "messages through a headers exchange with 500 bindings",
        _headers,
        {"bindings": 500, "messages": 5_000},
        {"bindings": 500, "messages": 500},
    ),
    Attack(
        "headers-to-queues",
        "messages through a headers exchange to many queues",
        _headers_to_queues,
        {"queues": 1_000, "messages": 1_000},
        {"queues": 1_000, "messages": 100},
    ),
    Attack(
        "carbon-copies-to-queues",
        "messages with a CC key through a fanout exchange to many queues",
        _carbon_copies_to_queues,
        {"queues": 10_000, "messages": 100},
        {"queues": 1_000, "messages": 100},
    ),
    Attack(
        "refusing-queues",
        "messages to many full queues with x-overflow=reject-publish",
        _refusing_queues,
        {"queues": 500, "messages": 1_000},
        {"queues": 500, "messages": 100},
    ),
    Attack(
        "unrelated-declares",
        "in turn: a declare of another queue, a message through an exchange with many bindings",
        _unrelated_declares,
        {"bindings": 100_000, "messages": 1_000},
        {"bindings": 10_000, "messages": 100},
    ),
    Attack(
        "chain",
        "messages with different keys through a chain of exchanges",
        _chain,
        {"exchanges": 3_000, "keys": 1_000},
        {"exchanges": 3_000, "keys": 100},
    ),
)
