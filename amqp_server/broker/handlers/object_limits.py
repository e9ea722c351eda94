"""Limits of the objects that clients create."""

from __future__ import annotations

from amqp_server.protocol.errors import PreconditionFailed


def check_limit(action: str, limit: str, count: int, most: int) -> None:
    """Check that there may be one more object.

    Args:
        action: What the client wants, for the error.
        limit: Name of the limit, for the error.
        count: Existing objects.
        most: Most objects that are allowed.

    Raises:
        PreconditionFailed: There are `most` objects already.
    """
    if count >= most:
        raise PreconditionFailed(f"cannot {action}: {limit} ({most}) is reached")
