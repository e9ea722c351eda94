"""One event: what happened, to what, by whom and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.audit.actor import Actor


class Event(NamedTuple):
    """What happened.

    Attributes:
        name: The thing and what happened to it: `queue.deleted`.
        time_ns: When, in nanoseconds since 1970 UTC.
        actor: Who did it.
        vhost: Virtual host of the object; empty if it has none.
        object_name: Name of the object; empty if there is none.
        details: More about it, as in the audit log.
        attributes: Further headers of the event's message, by RabbitMQ's names; field tables are
            not cut here.
    """

    name: str
    time_ns: int
    actor: Actor
    vhost: str
    object_name: str
    details: Mapping[str, object]
    attributes: Mapping[str, object]
