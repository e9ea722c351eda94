"""What a request must be allowed to do for a transfer of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.control.command_channel import refused
from amqp_server.control.requesting_user import rights_in

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl


def require_transfer(access: AccessControl, vhost: str, queue: str) -> None:
    """Check that the request may read a queue, and publish to any queue by its name.

    Raises:
        ControlError: Its user may not.
    """
    with refused():
        rights = rights_in(access, vhost)
        rights.require(Right.READ, "queue", queue)
        rights.require(Right.WRITE, "exchange", "")
