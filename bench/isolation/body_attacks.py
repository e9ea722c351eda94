"""Attacks with very large messages."""

import select
from collections.abc import Iterator
from typing import Final

from bench.isolation.attack import Attack, Stage
from bench.isolation.methods import (
    CONSUMED,
    EXCHANGE_DECLARED,
    QUEUE_BOUND,
    QUEUE_DECLARED,
    bind_queue,
    consume,
    declare_exchange,
    declare_queue,
    publish,
)

_QUEUE: Final = "attacked"


def _large_published(stage: Stage, body_bytes: int) -> Iterator[None]:
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    stage.attacker.select_confirms()
    octets = publish("", _QUEUE, bytes(body_bytes))
    yield
    stage.attacker.send(octets)
    stage.attacker.await_confirms(1)


def _large_delivered(stage: Stage, body_bytes: int) -> Iterator[None]:
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    stage.attacker.publish(publish("", _QUEUE, bytes(body_bytes)))
    stage.watcher.await_ready(_QUEUE, 1)
    yield
    stage.attacker.take_message(_QUEUE, body_bytes)


def _slow_readers(stage: Stage, body_bytes: int, consumers: int) -> Iterator[None]:
    stage.attacker.ask([declare_exchange("all", "fanout")], EXCHANGE_DECLARED)
    names = [f"q{n}" for n in range(consumers)]
    stage.attacker.ask([declare_queue(name) for name in names], QUEUE_DECLARED)
    stage.attacker.ask([bind_queue("all", name) for name in names], QUEUE_BOUND)
    waiting = []
    for name in names:
        reader = stage.connect()
        reader.ask([consume(name, "slow")], CONSUMED)
        waiting.append(reader.socket)
    octets = publish("all", "", bytes(body_bytes))
    yield
    stage.attacker.publish(octets)
    while waiting:
        reached = select.select(waiting, [], [])[0]
        waiting = [each for each in waiting if each not in reached]


BODY_ATTACKS: Final = (
    Attack(
        "large-published",
        "one very large message is published",
        _large_published,
        {"body_bytes": 127_000_000},
        {"body_bytes": 12_700_000},
    ),
    Attack(
        "large-delivered",
        "one very large message is delivered",
        _large_delivered,
        {"body_bytes": 127_000_000},
        {"body_bytes": 12_700_000},
    ),
    Attack(
        "slow-readers",
        "one large message goes through a fanout exchange to consumers that do not read",
        _slow_readers,
        {"body_bytes": 50_000_000, "consumers": 20},
        {"body_bytes": 5_000_000, "consumers": 20},
    ),
)
