"""How a test says that our server and RabbitMQ are meant to differ."""

import pytest


def differs(*, rabbitmq: str, reason: str) -> pytest.MarkDecorator:
    """Mark a test of ours that RabbitMQ must fail: if it passes there, the claim is wrong.

    Each is a row of docs/protocol.md, section 3.

    Args:
        rabbitmq: What RabbitMQ 3.10 does instead.
        reason: Why we do not.
    """
    return pytest.mark.differs(rabbitmq=rabbitmq, reason=reason)


def ours_only(reason: str) -> pytest.MarkDecorator:
    """Mark a test of what RabbitMQ does not have at all: it is not even collected there."""
    return pytest.mark.ours_only(reason=reason)
