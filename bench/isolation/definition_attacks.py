"""Attacks with very many queues, bindings and consumers."""

from collections.abc import Iterator
from random import Random
from typing import Final

from bench.isolation.attack import Attack, Stage
from bench.isolation.methods import (
    CONSUMED,
    EXCHANGE_DECLARED,
    EXCHANGE_DELETED,
    QOS_SET,
    QUEUE_BOUND,
    QUEUE_DECLARED,
    QUEUE_DELETED,
    bind_queue,
    consume,
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    set_qos,
)

_QUEUE: Final = "attacked"
_EXCHANGE: Final = "attacked"


def _durable_queues(stage: Stage, queues: int) -> Iterator[None]:
    requests = [declare_queue(f"q{n}", is_durable=True) for n in range(queues)]
    yield
    stage.attacker.ask(requests, QUEUE_DECLARED)


def _qos(stage: Stage, consumers: int, requests: int) -> Iterator[None]:
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    stage.attacker.ask([consume(_QUEUE, f"c{n}") for n in range(consumers)], CONSUMED)
    yield
    stage.attacker.ask([set_qos(n) for n in range(1, requests + 1)], QOS_SET)


def _consumes(stage: Stage, consumers: int) -> list[bytes]:
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    priorities = Random(1).sample(range(consumers), consumers)
    return [consume(_QUEUE, f"c{n}", {"x-priority": n}) for n in priorities]


def _priorities_added(stage: Stage, consumers: int) -> Iterator[None]:
    requests = _consumes(stage, consumers)
    yield
    stage.attacker.ask(requests, CONSUMED)


def _priorities_lost(stage: Stage, consumers: int) -> Iterator[None]:
    requests = _consumes(stage, consumers)
    loser = stage.connect()
    loser.ask(requests, CONSUMED)
    yield
    loser.lose()
    stage.watcher.await_no_consumers(_QUEUE)


def _exclusive_queues(stage: Stage, queues: int) -> Iterator[None]:
    owner = stage.connect()
    names = [f"q{n}" for n in range(queues)]
    owner.ask([declare_queue(name, is_exclusive=True) for name in names], QUEUE_DECLARED)
    yield
    owner.lose()
    for name in (names[0], names[-1], names[queues // 2]):
        stage.watcher.await_gone(name)


def _durable_bindings(stage: Stage, bindings: int) -> Iterator[None]:
    stage.attacker.ask([declare_queue(_QUEUE, is_durable=True)], QUEUE_DECLARED)
    binds = [bind_queue("amq.direct", _QUEUE, f"key-{n}") for n in range(bindings)]
    stage.attacker.ask(binds, QUEUE_BOUND)
    yield
    stage.attacker.ask([delete_queue(_QUEUE)], QUEUE_DELETED)


def _exchange_bindings(stage: Stage, bindings: int) -> Iterator[None]:
    """Words make the exchange's matcher large too."""
    stage.attacker.ask([declare_queue(_QUEUE, is_durable=True)], QUEUE_DECLARED)
    declare = declare_exchange(_EXCHANGE, "topic", is_durable=True)
    stage.attacker.ask([declare], EXCHANGE_DECLARED)
    binds = [bind_queue(_EXCHANGE, _QUEUE, f"key.{n}.#") for n in range(bindings)]
    stage.attacker.ask(binds, QUEUE_BOUND)
    yield
    stage.attacker.ask([delete_exchange(_EXCHANGE)], EXCHANGE_DELETED)


DEFINITION_ATTACKS: Final = (
    Attack(
        "durable-queues",
        "many durable queues are declared, pipelined",
        _durable_queues,
        {"queues": 40_000},
        {"queues": 2_000},
        bytes_per_sync=4_096,
    ),
    Attack(
        "qos",
        "basic.qos again and again on a channel with many consumers",
        _qos,
        {"consumers": 10_000, "requests": 1_000},
        {"consumers": 10_000, "requests": 100},
    ),
    Attack(
        "priorities-added",
        "many consumers of one queue, each with a priority of its own",
        _priorities_added,
        {"consumers": 10_000},
        {"consumers": 2_000},
    ),
    Attack(
        "priorities-lost",
        "the connection of such consumers is lost",
        _priorities_lost,
        {"consumers": 10_000},
        {"consumers": 2_000},
    ),
    Attack(
        "exclusive-queues",
        "the connection is lost that owns many exclusive queues",
        _exclusive_queues,
        {"queues": 20_000},
        {"queues": 2_000},
    ),
    Attack(
        "durable-bindings",
        "a queue with many durable bindings is deleted",
        _durable_bindings,
        {"bindings": 60_000},
        {"bindings": 3_000},
        bytes_per_sync=4_096,
    ),
    Attack(
        "exchange-bindings",
        "a topic exchange with many durable bindings is deleted",
        _exchange_bindings,
        {"bindings": 60_000},
        {"bindings": 3_000},
        bytes_per_sync=4_096,
    ),
)
