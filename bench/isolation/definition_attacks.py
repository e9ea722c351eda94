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
    publish,
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


def _long_keys_bound(stage: Stage, bindings: int, key_bytes: int, messages: int) -> Iterator[None]:
    """Bind and unbind keys of many words, with publishes between: each word is a node."""
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    stage.attacker.ask([declare_exchange(_EXCHANGE, "topic")], EXCHANGE_DECLARED)
    keys = [(f"{n}." + "w." * key_bytes)[: key_bytes - 1] + "w" for n in range(bindings)]
    binds = [bind_queue(_EXCHANGE, _QUEUE, key) for key in keys]
    octets = b"".join(publish(_EXCHANGE, key) for key in keys[:messages])
    yield
    stage.attacker.ask(binds, QUEUE_BOUND)
    stage.attacker.publish(octets)
    stage.attacker.ask([delete_queue(_QUEUE)], QUEUE_DELETED)


def _many_consumers(
    stage: Stage, connections: int, consumers: int, messages: int
) -> Iterator[None]:
    """Each consumer has credit for one message: the next one goes to another consumer."""
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    takers = [stage.connect() for _ in range(connections)]
    for taker in takers:
        taker.ask([set_qos(1)], QOS_SET)
        taker.ask([consume(_QUEUE, f"c{n}") for n in range(consumers)], CONSUMED)
    octets = publish("", _QUEUE)
    yield
    for _ in range(messages):
        # Each message is a turn of the queue.
        stage.attacker.publish(octets)
    for taker in takers:
        taker.lose()
    stage.watcher.await_no_consumers(_QUEUE)


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
        "long-keys-bound",
        "a topic exchange gets many bindings with long keys, routes by them and loses them",
        _long_keys_bound,
        {"bindings": 10_000, "key_bytes": 240, "messages": 1_000},
        {"bindings": 1_000, "key_bytes": 240, "messages": 100},
    ),
    Attack(
        "many-consumers",
        "messages to a queue with many consumers, whose connections are lost then",
        _many_consumers,
        {"connections": 4, "consumers": 5_000, "messages": 1_000},
        {"connections": 4, "consumers": 1_000, "messages": 200},
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
