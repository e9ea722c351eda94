"""Objects that a user sees, and how to find one of them now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import not_authorised, not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.http.call import User
    from amqp_server.management.http.parts import Parts
    from amqp_server.management.mirror import Row

NOT_YOURS: Final = "User not authorised to access object"


def in_visible_vhosts(rows: Mapping[tuple[str, str], Row], user: User) -> list[Row]:
    """Return the objects of the virtual hosts that a user sees."""
    if user.is_administrator:
        return list(rows.values())
    return [row for (vhost, _), row in rows.items() if vhost in user.vhosts]


def own_or_all(rows: Mapping[str, Row], user: User, vhost: str | None = None) -> list[Row]:
    """Return the connections or channels that a user sees: its own; a monitor sees all.

    Args:
        rows: All of them.
        user: Who sees them.
        vhost: Only those of this virtual host; None for all.
    """
    return [
        row
        for row in rows.values()
        if is_own_or_all(row.fields["user"], user) and vhost in (None, row.fields["vhost"])
    ]


def is_own_or_all(owner: str, user: User) -> bool:
    """Return whether a user sees what belongs to a user: its own; a monitor sees all."""
    return user.is_monitor or owner == user.name


async def find_queue(parts: Parts, vhost: str, name: str) -> Row:
    """Return a queue as it is now.

    Raises:
        ApiError: 404: there is none.
    """
    await parts.mirror.refresh()
    row = parts.mirror.queues.get((vhost, name))
    if row is None:
        raise not_found()
    return row


async def find_exchange(parts: Parts, vhost: str, name: str) -> Row:
    """Return an exchange as it is now.

    Raises:
        ApiError: 404: there is none.
    """
    await parts.mirror.refresh()
    row = parts.mirror.exchanges.get((vhost, name))
    if row is None:
        raise not_found()
    return row


async def find_connection(parts: Parts, name: str, user: User, *, is_change: bool = False) -> Row:
    """Return a connection that a user may see, or end.

    Raises:
        ApiError: 404: there is none; 401: it is another user's.
    """
    await parts.mirror.refresh()
    row = parts.mirror.connections.get(name)
    if row is None:
        raise not_found()
    demand_own(row.fields["user"], user, is_change=is_change)
    return row


def demand_own(owner: str, user: User, *, is_change: bool = False) -> None:
    """Refuse access to what belongs to another user.

    Monitors see everything; only administrators end it.

    Raises:
        ApiError: 401: it is another user's.
    """
    may = user.is_administrator if is_change else user.is_monitor
    if owner != user.name and not may:
        raise not_authorised(NOT_YOURS)


def without_unset(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields but those without a value: clients cannot read `null`."""
    return {name: value for name, value in fields.items() if value is not None}
