"""The one behaviour that depends on the product names of client and server."""

from __future__ import annotations

from typing import Final

RABBITMQ: Final = "RabbitMQ"
PY_AMQP: Final = b"py-amqp"


def qos_reaches_consumers(client: bytes, presented: str) -> bool:
    """Return whether basic.qos without `global` also changes the consumers that run.

    Celery (through py-amqp) raises the limit of its running consumers this way, once for each task
    that waits for its time, unless the server is RabbitMQ. Every other client expects RabbitMQ's
    behaviour: consumers of one channel may have different limits.

    Args:
        client: `product` of the client's properties.
        presented: `product` that the server has sent to it.
    """
    return client == PY_AMQP and presented != RABBITMQ
