"""Room for one more: what a client may create has a bound."""

from __future__ import annotations

from amqp_server.protocol.errors import PreconditionFailed


def check_limit(action: str, limit: str, count: int, most: int) -> None:
    """Check that one more may be made; `action` and `limit` are words of the error.

    Raises:
        PreconditionFailed: There are `most` already.
    """
    if count >= most:
        raise PreconditionFailed(f"cannot {action}: {limit} ({most}) is reached")
