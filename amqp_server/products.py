"""What follows from the names that client and server give themselves: as little as possible."""

from __future__ import annotations

from typing import Final

RABBITMQ: Final = "RabbitMQ"
PY_AMQP: Final = b"py-amqp"


def qos_reaches_consumers(client: bytes, presented: str) -> bool:
    """Return whether basic.qos without `global` also changes the consumers that run.

    Celery, which speaks through py-amqp, raises the limit of its running consumers so, for each
    task that waits for its time, unless the server is RabbitMQ. Every other client expects what
    RabbitMQ does: consumers of one channel may have different limits.

    Args:
        client: `product` of the client's properties.
        presented: `product` that the server has presented to it.
    """
    return client == PY_AMQP and presented != RABBITMQ
