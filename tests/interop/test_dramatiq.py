"""dramatiq, unmodified: tasks, retries, delays, priorities, dead letters in its `.XQ` queues."""

import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import dramatiq
import pika
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import Retries

from tests.interop.conftest import Connect
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

WAIT_MS = 100
MAX_PRIORITY = 5


@pytest.fixture
def broker(url: str) -> Iterator[RabbitmqBroker]:
    """Give dramatiq a broker with confirms, whose retries come soon."""
    broker = RabbitmqBroker(
        url=url,
        confirm_delivery=True,
        max_priority=MAX_PRIORITY,
        middleware=[Retries(min_backoff=50, max_backoff=200)],
    )
    yield broker
    broker.close()


@pytest.fixture
def worker(broker: RabbitmqBroker) -> Iterator[dramatiq.Worker]:
    """Return a worker that a test starts; it is stopped afterwards."""
    worker = dramatiq.Worker(broker, worker_timeout=WAIT_MS, worker_threads=2)
    yield worker
    worker.stop()


def test_every_message_is_worked_off(
    broker: RabbitmqBroker, worker: dramatiq.Worker, name: str
) -> None:
    done: SimpleQueue[int] = SimpleQueue()
    actor = dramatiq.actor(broker=broker, queue_name=name)(done.put)
    worker.start()
    for number in range(50):
        actor.send(number)
    assert sorted(done.get(timeout=HANG_SECONDS) for _ in range(50)) == list(range(50))
    broker.join(name, timeout=HANG_SECONDS * 1000)


def test_what_fails_is_tried_again(
    broker: RabbitmqBroker, worker: dramatiq.Worker, name: str
) -> None:
    attempts: SimpleQueue[int] = SimpleQueue()

    def fail_twice() -> None:
        message: Any = dramatiq.middleware.CurrentMessage.get_current_message()
        retries = message.options.get("retries", 0)
        attempts.put(retries)
        if retries < 2:
            raise RuntimeError("not yet")

    broker.add_middleware(dramatiq.middleware.CurrentMessage())
    actor = dramatiq.actor(broker=broker, queue_name=name, max_retries=5)(fail_twice)
    worker.start()
    actor.send()
    assert [attempts.get(timeout=HANG_SECONDS) for _ in range(3)] == [0, 1, 2]
    broker.join(name, timeout=HANG_SECONDS * 1000)


def test_what_fails_for_good_is_a_dead_letter(
    broker: RabbitmqBroker, worker: dramatiq.Worker, connect: Connect, name: str
) -> None:
    def fail() -> None:
        raise RuntimeError("never")

    actor = dramatiq.actor(broker=broker, queue_name=name, max_retries=1)(fail)
    worker.start()
    sent = actor.send()
    channel = connect().channel()
    deadline = time.monotonic() + HANG_SECONDS
    while (taken := channel.basic_get(f"{name}.XQ", auto_ack=True))[0] is None:
        assert time.monotonic() < deadline, "no dead letter"
        time.sleep(0.05)
    _, properties, body = taken
    dead = dramatiq.Message.decode(body)
    assert (dead.message_id, dead.options["retries"]) == (sent.message_id, 1)
    assert isinstance(properties, pika.BasicProperties)
    (death,) = (properties.headers or {})["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)


def test_a_delayed_message_waits(
    broker: RabbitmqBroker, worker: dramatiq.Worker, name: str
) -> None:
    done: SimpleQueue[float] = SimpleQueue()

    def note() -> None:
        done.put(time.monotonic())

    actor = dramatiq.actor(broker=broker, queue_name=name)(note)
    worker.start()
    begin = time.monotonic()
    actor.send_with_options(delay=700)
    assert done.get(timeout=HANG_SECONDS) - begin >= 0.7


def test_messages_of_a_higher_priority_come_first(
    broker: RabbitmqBroker, connect: Connect, name: str
) -> None:
    actor = dramatiq.actor(broker=broker, queue_name=name)(print)
    for priority in (0, 3, 5, 1):
        actor.send_with_options(args=(priority,), broker_priority=priority)
    channel = connect().channel()
    taken = [channel.basic_get(name, auto_ack=True)[2] for _ in range(4)]
    assert [dramatiq.Message.decode(body).args[0] for body in taken if body] == [5, 3, 1, 0]
