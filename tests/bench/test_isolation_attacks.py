"""Each attack, very small, against a server of ours: it comes to its end and does what it says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.base.limits import Limits
from bench.broker_url import BrokerUrl
from bench.errors import BenchError
from bench.isolation.attack import Attack, Stage
from bench.isolation.attacks import ATTACKS
from bench.isolation.methods import (
    CONSUMED,
    QUEUE_DECLARED,
    ack,
    consume,
    declare_queue,
    publish,
)
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

TINY = {
    "acks": 500,
    "bindings": 12,
    "body_bytes": 300_000,
    "connections": 2,
    "consumers": 3,
    "exchanges": 3,
    "key_bytes": 20,
    "keys": 4,
    "logins": 3,
    "messages": 1_000,
    "milliseconds": 50,
    "nacks": 500,
    "purges": 3,
    "queues": 3,
    "requests": 3,
    "sockets": 2,
    "ttl_ms": 1,
    "words": 20,
}
LONGER = {"deadlines": {"milliseconds": 2_000}, "expired-deleted": {"milliseconds": 2_000}}
"""Messages must not be due before they are published."""

READY = {
    # Publishes through the exchange: each reaches its queue once, whatever the number of keys.
    "carbon-copies": ("target", 1),
    "long-keys": ("target", 1_000),
    # All keys of 20 words out of w and v have a w.
    "words-between-hashes": ("target", 1_000),
    # Of messages with 1,000 types, twelve have a binding.
    "headers-5000": ("target", 12),
    "headers-500": ("target", 12),
    "headers-to-queues": ("q2", 1_000),
    "carbon-copies-to-queues": ("q2", 1_000),
    "refusing-queues": ("q2", 1),
    "unrelated-declares": ("target", 1_000),
    "chain": ("target", 4),
    "lost-holder": ("attacked", 1_000),
    # Held by the consumer.
    "two-levels-delivered": ("attacked", 0),
    "requeue-multiple": ("attacked", 1_000),
    "purge": ("attacked", 0),
    "alternate-acks": ("attacked", 500),
    "requeue-backwards": ("attacked", 500),
    "requeue-and-purge": ("attacked", 0),
    "dead-letter-chain": ("q2", 1_000),
    # Six consumers with a prefetch of 1 had a message each, and are gone.
    "many-consumers": ("attacked", 1_000),
    # The other half is still held, or settled.
    "random-acks": ("attacked", 0),
    "ack-multiple": ("attacked", 0),
    "dead-letter-cycle-20": ("q2", 1),
    "dead-letter-cycle-100": ("q2", 1),
    "dead-letter-cycle-300": ("q2", 1),
    "deadlines": ("attacked", 0),
    "qos": ("attacked", 0),
    "priorities-added": ("attacked", 0),
    "priorities-lost": ("attacked", 0),
    "durable-queues": ("q2", 0),
    "exchange-bindings": ("attacked", 0),
    "large-published": ("attacked", 1),
    # Delivered, and not settled.
    "large-delivered": ("attacked", 0),
    "slow-readers": ("q2", 0),
}
"""A queue, and how many ready messages the attack leaves in it."""


@pytest.fixture
def stage(swept_server: RunningServer) -> Iterator[Stage]:
    with Stage(url_of(swept_server), 10) as stage:
        yield stage


def url_of(server: RunningServer) -> BrokerUrl:
    return BrokerUrl(*server.address, "guest", "guest", "/")


def run(attack: Attack, stage: Stage) -> None:
    numbers = {name: TINY[name] for name in attack.full} | LONGER.get(attack.name, {})
    steps = attack.run(stage, **numbers)
    next(steps)
    assert not list(steps), "an attack yields once, between its setup and itself"


@pytest.mark.parametrize("name", READY)
def test_an_attack_leaves_what_it_says(name: str, stage: Stage) -> None:
    run(ATTACKS[name], stage)

    queue, ready = READY[name]
    assert stage.watcher.counts(queue)[0] == ready


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("exclusive-queues", "q0"),
        ("durable-bindings", "attacked"),
        ("long-keys-bound", "attacked"),
        ("expired-deleted", "attacked"),
    ],
)
def test_an_attack_that_removes_queues_leaves_none(name: str, queue: str, stage: Stage) -> None:
    run(ATTACKS[name], stage)

    stage.watcher.ask([declare_queue(queue, {"x-max-length": 1})], QUEUE_DECLARED)


def test_no_wrong_password_logs_in(tmp_path: Path) -> None:
    quick = Limits(refused_login_seconds=0.05)
    with ThreadedServer(tmp_path, limits=quick) as server:
        with Stage(BrokerUrl(*server.address, "guest", "guest", "/"), 10) as stage:
            run(ATTACKS["wrong-passwords"], stage)
        server.wait_until(lambda: not server.connections)


def test_every_attack_is_tried_and_has_two_sizes() -> None:
    others = {
        "exclusive-queues",
        "durable-bindings",
        "expired-deleted",
        "long-keys-bound",
        "wrong-passwords",
    }
    assert {*READY, *others} == set(ATTACKS)
    for attack in ATTACKS.values():
        assert attack.full.keys() == attack.quick.keys()
        assert all(attack.quick[name] <= attack.full[name] for name in attack.full)


def test_consumers_come_and_go_with_their_connection(stage: Stage) -> None:
    run(ATTACKS["priorities-added"], stage)
    assert stage.watcher.counts("attacked") == (0, 3)

    stage.attacker.lose()
    stage.watcher.await_no_consumers("attacked")
    assert stage.watcher.counts("attacked") == (0, 0)


def test_an_end_that_does_not_come_is_an_error(swept_server: RunningServer) -> None:
    with Stage(url_of(swept_server), 1) as stage:
        stage.attacker.ask([declare_queue("q")], QUEUE_DECLARED)
        stage.attacker.publish(publish("", "q"))

        with pytest.raises(
            BenchError, match=r"did not reach this state in 1 s: 2 ready messages in q"
        ):
            stage.watcher.await_ready("q", 2)


@pytest.mark.parametrize("sizes", [(10, 30), (10, 9, 11)])
def test_deliveries_of_different_sizes_are_an_error(sizes: tuple[int, ...], stage: Stage) -> None:
    stage.attacker.ask([declare_queue("q")], QUEUE_DECLARED)
    stage.attacker.publish(b"".join(publish("", "q", bytes(size)) for size in sizes))

    with pytest.raises(BenchError, match=f"of q came last, expected {len(sizes)}"):
        stage.connect().hold("q", len(sizes))


def test_a_queue_of_another_connection_is_not_gone(stage: Stage) -> None:
    owner = stage.connect()
    owner.ask([declare_queue("q", is_exclusive=True)], QUEUE_DECLARED)

    assert not stage.watcher.is_gone("q")
    owner.close()
    stage.watcher.await_gone("q")


def test_confirms_in_any_order_are_counted_once(stage: Stage) -> None:
    queue = declare_queue("q", {"x-max-length": 3, "x-overflow": "reject-publish"})
    stage.attacker.ask([queue], QUEUE_DECLARED)
    stage.attacker.select_confirms()
    for _ in range(3):
        stage.attacker.send(publish("", "q"))
    stage.attacker.await_confirms(3)
    stage.attacker.send(publish("", "q") * 5)
    stage.attacker.await_confirms(8)

    assert stage.watcher.counts("q") == (3, 0)


def test_a_refused_request_is_an_error(stage: Stage) -> None:
    with pytest.raises(BenchError, match=r"a close: .*no queue 'q'"):
        stage.attacker.ask([consume("q", "t")], CONSUMED)


def test_acks_that_are_read_before_the_connection_is_lost_count(stage: Stage) -> None:
    stage.attacker.ask([declare_queue("q")], QUEUE_DECLARED)
    stage.attacker.publish(publish("", "q") * 10)
    holder = stage.connect()
    holder.hold("q", 10)
    holder.send(b"".join(ack(tag) for tag in (2, 9)))
    holder.finish()
    holder.lose()

    stage.watcher.await_ready("q", 8)
