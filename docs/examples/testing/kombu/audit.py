"""Publishes what happens to a topic exchange, with kombu, and writes down what it hears of it."""

from kombu import Connection, Exchange, Queue

EVENTS = Exchange("events", type="topic")
PAYMENTS = Queue("audit.payments", EVENTS, routing_key="payment.#")


def announce(connection, kind, **facts):
    """Publish an event, such as `payment.failed`."""
    with connection.Producer() as producer:
        producer.publish(
            facts, exchange=EVENTS, routing_key=kind, declare=[EVENTS, PAYMENTS], serializer="json"
        )


def write_down(connection, journal):
    """Append all payments that are there to a journal."""
    queue = PAYMENTS(connection.default_channel)
    while message := queue.get():
        journal.append(message.payload)
        message.ack()


def connect(url):
    """Return a connection, which opens at its first use."""
    return Connection(url)
