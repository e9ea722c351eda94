"""Limits of the objects that clients create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.vhost_limits import NO_LIMIT
from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.virtual_host import VirtualHost


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


def queues_max(vhost: VirtualHost, most: int) -> int:
    """Return how many queues a virtual host may have.

    Args:
        vhost: Virtual host with the limits of the operator.
        most: Limit of the server for every virtual host.
    """
    limit = vhost.limits.max_queues
    return most if limit == NO_LIMIT else min(limit, most)
