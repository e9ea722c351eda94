"""Actors that write letters: `dramatiq letters` runs them."""

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

dramatiq.set_broker(RabbitmqBroker(url="amqp://guest:guest@localhost/"))

written = []


@dramatiq.actor(queue_name="letters", max_retries=3, min_backoff=60_000, max_backoff=3_600_000)
def write(name):
    """Write a letter; tried again after some minutes."""
    if not name:
        raise ValueError("a letter to nobody")
    written.append(name)
