"""Attacks with very many messages that are unsettled, settled or requeued."""

import itertools
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Final

from bench.errors import BenchError
from bench.isolation.attack import Attack, Stage
from bench.isolation.client import Client
from bench.isolation.methods import (
    EXCHANGE_DECLARED,
    QUEUE_BOUND,
    QUEUE_DECLARED,
    QUEUE_DELETED,
    QUEUE_PURGED,
    Value,
    ack,
    bind_queue,
    declare_exchange,
    declare_queue,
    delete_queue,
    publish,
    purge_queue,
    requeue,
)

_QUEUE: Final = "attacked"
_BLOCK_MESSAGES: Final = 1_000


def _fill(stage: Stage, messages: int, block: bytes, **arguments: Value) -> None:
    """Declare a queue and publish whole blocks of messages."""
    names = {name.replace("_", "-"): value for name, value in arguments.items()}
    stage.attacker.ask([declare_queue(_QUEUE, names)], QUEUE_DECLARED)
    for _ in range(messages // _BLOCK_MESSAGES):
        stage.attacker.send(block)
    stage.attacker.finish()
    stage.watcher.await_ready(_QUEUE, messages)


def _fill_plain(stage: Stage, messages: int) -> None:
    _fill(stage, messages, publish("", _QUEUE) * _BLOCK_MESSAGES)


def _fill_two_levels(stage: Stage, messages: int) -> None:
    pair = publish("", _QUEUE, priority=0) + publish("", _QUEUE, priority=1)
    _fill(stage, messages, pair * (_BLOCK_MESSAGES // 2), x_max_priority=1)


def _hold(stage: Stage, messages: int) -> Client:
    holder = stage.connect()
    holder.hold(_QUEUE, messages)
    return holder


def _two_levels_delivered(stage: Stage, messages: int) -> Iterator[None]:
    _fill_two_levels(stage, messages)
    holder = stage.connect()
    yield
    holder.hold(_QUEUE, messages)


def _lost_holder(stage: Stage, messages: int) -> Iterator[None]:
    _fill_two_levels(stage, messages)
    holder = _hold(stage, messages)
    yield
    holder.lose()
    stage.watcher.await_ready(_QUEUE, messages)


def _requeue_multiple(stage: Stage, messages: int) -> Iterator[None]:
    _fill_two_levels(stage, messages)
    holder = _hold(stage, messages)
    holder.stop_consuming()
    yield
    holder.send(requeue(messages, is_multiple=True))
    stage.watcher.await_ready(_QUEUE, messages)


def _purge(stage: Stage, messages: int) -> Iterator[None]:
    _fill_two_levels(stage, messages)
    yield
    stage.attacker.ask([purge_queue(_QUEUE)], QUEUE_PURGED)


def _alternate_acks(stage: Stage, acks: int) -> Iterator[None]:
    _fill_plain(stage, 2 * acks)
    holder = _hold(stage, 2 * acks)
    octets = b"".join(ack(tag) for tag in range(1, 2 * acks, 2))
    yield
    holder.send(octets)
    holder.finish()  # a broker may ignore acks that it has not handled before the loss
    holder.lose()
    stage.watcher.await_ready(_QUEUE, acks)


def _requeue_backwards(stage: Stage, nacks: int) -> Iterator[None]:
    _fill_plain(stage, 2 * nacks)
    holder = _hold(stage, 2 * nacks)
    holder.stop_consuming()
    octets = b"".join(requeue(tag) for tag in range(2 * nacks, 0, -2))
    yield
    holder.send(octets)
    stage.watcher.await_ready(_QUEUE, nacks)


def _random_acks(stage: Stage, acks: int) -> Iterator[None]:
    _fill_plain(stage, 2 * acks)
    holder = _hold(stage, 2 * acks)
    tags = Random(1).sample(range(1, 2 * acks + 1), acks)
    octets = b"".join(ack(tag) for tag in tags)
    yield
    holder.send(octets)
    holder.finish()


def _ack_multiple(stage: Stage, messages: int) -> Iterator[None]:
    _fill_plain(stage, messages)
    holder = _hold(stage, messages)
    yield
    holder.send(ack(messages, is_multiple=True))
    holder.close()


def _dead_letter_cycle(stage: Stage, queues: int, milliseconds: int) -> Iterator[None]:
    arguments: dict[str, Value] = {"x-max-length": 1, "x-dead-letter-exchange": "cycle"}
    names = [f"q{n}" for n in range(queues)]
    stage.attacker.ask([declare_exchange("cycle", "fanout")], EXCHANGE_DECLARED)
    stage.attacker.ask([declare_queue(name, arguments) for name in names], QUEUE_DECLARED)
    stage.attacker.ask([bind_queue("cycle", name) for name in names], QUEUE_BOUND)
    yield
    stage.attacker.send(publish("cycle", "") * 2)
    time.sleep(milliseconds / 1000)


def _requeue_and_purge(stage: Stage, messages: int, purges: int) -> Iterator[None]:
    """Each nack requeues one message, and another client purges what has come back."""
    _fill_two_levels(stage, messages)
    holder = _hold(stage, messages)
    holder.stop_consuming()
    octets = b"".join(requeue(tag) for tag in range(messages, 0, -1))
    yield
    sent = threading.Thread(target=holder.send, args=(octets,), daemon=True)
    sent.start()
    for _ in range(purges):
        stage.attacker.ask([purge_queue(_QUEUE)], QUEUE_PURGED)
    sent.join()
    holder.finish()
    stage.attacker.ask([purge_queue(_QUEUE)], QUEUE_PURGED)


def _dead_letter_chain(stage: Stage, queues: int, messages: int, ttl_ms: int) -> Iterator[None]:
    """Each message expires in each queue, and goes on to the next one with one death more."""
    names = [f"q{n}" for n in range(queues)]
    requests = [
        declare_queue(
            name,
            {
                "x-message-ttl": ttl_ms,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": following,
            },
        )
        for name, following in itertools.pairwise(names)
    ]
    stage.attacker.ask([*requests, declare_queue(names[-1])], QUEUE_DECLARED)
    octets = publish("", names[0]) * messages
    yield
    stage.attacker.publish(octets)
    stage.watcher.await_ready(names[-1], messages)


def _fill_due(stage: Stage, messages: int, milliseconds: int) -> float:
    """Fill a queue with messages that expire at about the same time; return that time."""
    due = time.monotonic() + milliseconds / 1000
    stage.attacker.ask([declare_queue(_QUEUE)], QUEUE_DECLARED)
    for _ in range(messages // _BLOCK_MESSAGES):
        left_ms = int(1000 * (due - time.monotonic()))
        some = b"".join(publish("", _QUEUE, expiration=str(left_ms - n)) for n in range(4))
        stage.attacker.send(some * (_BLOCK_MESSAGES // 4))
    stage.watcher.await_ready(_QUEUE, messages)
    return due


def _deadlines(stage: Stage, messages: int, milliseconds: int) -> Iterator[None]:
    due = _fill_due(stage, messages, milliseconds)
    yield
    _sleep_until(stage, due)
    stage.watcher.await_ready(_QUEUE, 0)


def _expired_deleted(stage: Stage, messages: int, milliseconds: int) -> Iterator[None]:
    due = _fill_due(stage, messages, milliseconds)
    yield
    _sleep_until(stage, due)
    stage.attacker.ask([delete_queue(_QUEUE)], QUEUE_DELETED)


def _sleep_until(stage: Stage, due: float) -> None:
    """Wait for the moment at which the messages expire, and begin the attack."""
    if time.monotonic() > due:
        raise BenchError("the messages expired before the setup ended")
    time.sleep(due - time.monotonic())
    stage.begin()


SETTLING_ATTACKS: Final = (
    Attack(
        "lost-holder",
        "the connection is lost that holds all messages of a queue with two priorities",
        _lost_holder,
        {"messages": 500_000},
        {"messages": 50_000},
    ),
    Attack(
        "two-levels-delivered",
        "one consumer takes all messages of a queue with two priorities, published in turn",
        _two_levels_delivered,
        {"messages": 200_000},
        {"messages": 20_000},
    ),
    Attack(
        "requeue-multiple",
        "one nack requeues all messages of a queue with two priorities",
        _requeue_multiple,
        {"messages": 300_000},
        {"messages": 30_000},
    ),
    Attack(
        "purge",
        "a queue with two priorities is purged",
        _purge,
        {"messages": 500_000},
        {"messages": 50_000},
    ),
    Attack(
        "alternate-acks",
        "every other of the held messages is acked; then the connection is lost",
        _alternate_acks,
        {"acks": 150_000},
        {"acks": 15_000},
    ),
    Attack(
        "requeue-backwards",
        "every other of the held messages is nacked, the last one first",
        _requeue_backwards,
        {"nacks": 75_000},
        {"nacks": 8_000},
    ),
    Attack(
        "random-acks",
        "half of the held messages are acked in random order",
        _random_acks,
        {"acks": 25_000},
        {"acks": 3_000},
    ),
    Attack(
        "ack-multiple",
        "one ack settles all held messages; then the connection is closed",
        _ack_multiple,
        {"messages": 1_900_000},
        {"messages": 190_000},
    ),
    *(
        Attack(
            f"dead-letter-cycle-{queues}",
            f"dead letters circulate between {queues} queues, each with x-max-length 1, for ever",
            _dead_letter_cycle,
            {"queues": queues, "milliseconds": 5_000},
            {"queues": queues, "milliseconds": 1_000},
            is_timed=False,
        )
        for queues in (20, 100, 300)
    ),
    Attack(
        "requeue-and-purge",
        "held messages are nacked one by one, and another client purges the queue again and again",
        _requeue_and_purge,
        {"messages": 100_000, "purges": 200},
        {"messages": 20_000, "purges": 40},
    ),
    Attack(
        "dead-letter-chain",
        "messages expire in one queue after the other, each with a death more than before",
        _dead_letter_chain,
        {"queues": 300, "messages": 1_000, "ttl_ms": 100},
        {"queues": 100, "messages": 100, "ttl_ms": 10},
    ),
    Attack(
        "deadlines",
        "messages of one queue are due at the same time, and a passive declare asks for it",
        _deadlines,
        {"messages": 300_000, "milliseconds": 15_000},
        {"messages": 30_000, "milliseconds": 3_000},
    ),
    Attack(
        "expired-deleted",
        "messages of one queue are due at the same time, and the queue is deleted",
        _expired_deleted,
        {"messages": 300_000, "milliseconds": 15_000},
        {"messages": 30_000, "milliseconds": 3_000},
    ),
)
