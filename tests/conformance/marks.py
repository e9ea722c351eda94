"""Marks of tests where this broker and RabbitMQ, or two versions of RabbitMQ, differ."""

import pytest


def differs(*, rabbitmq: str, reason: str, since: int = 3) -> pytest.MarkDecorator:
    """Mark a test of ours that RabbitMQ must fail: if it passes there, the claim is wrong.

    Each is named by a difference in docs/protocol-differences.md.

    Args:
        rabbitmq: What RabbitMQ does instead.
        reason: Why we do not.
        since: First major version of RabbitMQ that does; an older one has to pass the test.
    """
    return pytest.mark.differs(rabbitmq=rabbitmq, reason=reason, since=since)


def differs_from_3_10(instead: str) -> pytest.MarkDecorator:
    """Mark a test that RabbitMQ 4.2 passes and 3.10 must fail.

    Each is named by a row of the list of 3.10 in docs/protocol-differences.md.

    Args:
        instead: What RabbitMQ 3.10 does.
    """
    return pytest.mark.differs_from_3_10(instead=instead)


def ours_only(reason: str) -> pytest.MarkDecorator:
    """Mark a test of what RabbitMQ does not have at all: it is not even collected there."""
    return pytest.mark.ours_only(reason=reason)
