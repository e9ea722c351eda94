"""The actors of this application, with the broker of the test."""

import dramatiq
import letters  # its actors
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker


@pytest.fixture
def broker(amqp_url):
    """Hand all actors a broker of their own for this test."""
    usual = dramatiq.get_broker()
    broker = RabbitmqBroker(url=amqp_url)
    for actor in usual.actors.values():
        actor.broker = broker
        broker.declare_actor(actor)
    letters.written.clear()
    yield broker
    for actor in usual.actors.values():
        actor.broker = usual
    broker.close()


@pytest.fixture
def worker(broker):
    """Start a worker in this process."""
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    yield worker
    worker.stop()
