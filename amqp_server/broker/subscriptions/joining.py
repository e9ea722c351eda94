"""Joins consumers to groups, which may first need a position.

A group starts, or is reset, at one position, whichever consumer asks for it. While the position is
looked up in the log, all consumers that join wait for it. A new position is durable before any
client gets an answer. Otherwise a group that starts at the end of the log could be forgotten in a
crash, start again at a later end, and miss the messages between.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.start_position import (
    OFFSET,
    StartKind,
    parse_start,
    start_offset,
)
from amqp_server.protocol.errors import PreconditionFailed
from offsets import (
    GroupInUseError,
    GroupOffsetOutOfRangeError,
    OffsetsError,
    TooManyGroupsError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from amqp_server.broker.subscriptions.group import Group, GroupedQueue
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.broker.subscriptions.readable_queue import ReadableQueue
    from amqp_server.broker.subscriptions.start_position import StartPosition
    from amqp_server.protocol.tables import Table

    MakeDurable = Callable[[], Awaitable[object]]

logger = logging.getLogger("amqp_server.broker.subscriptions.joining")

GROUP = "x-consumer-group"
"""Consumer argument: name of the stream's group that the consumer joins."""
RESET = "x-offset-reset"
"""Consumer argument: whether the group moves to `x-stream-offset` even if it has a position."""


def group_name(arguments: Table) -> str | None:
    """Return the group name in checked arguments, or None."""
    value = arguments.get(GROUP)
    return value.value.decode() if value is not None and isinstance(value.value, bytes) else None


def placed_group(groups: Groups, arguments: Table) -> Group | None:
    """Return the group that a consumer asks for, if its position is set and stays.

    Args:
        groups: Groups of the stream.
        arguments: Checked arguments of the consumer; they name a group.
    """
    name = group_name(arguments)
    if name is None or name not in groups or _is_reset(arguments):
        return None
    group = groups.get(name)
    return group if group.offsets.start is not None and group.placing is None else None


async def join(
    queue: GroupedQueue, groups: Groups, arguments: Table, make_durable: MakeDurable
) -> Group:
    """Return the group that a consumer asks for, once its position is set and durable.

    Args:
        queue: The stream.
        groups: Its groups.
        arguments: Checked arguments of the consumer; they name a group.
        make_durable: Writes a checkpoint.

    Raises:
        PreconditionFailed: There are too many groups, or a group with members would be reset, or
            the position is above the end of the log, or it could not be saved.
        LogFailedError: The log cannot be read.
    """
    name = group_name(arguments)
    is_reset = _is_reset(arguments)
    assert name is not None, "the arguments must name a group"
    try:
        while True:
            group = groups.get(name) if name in groups else groups.create(queue, name)
            if is_reset:
                group.check_unused()
            if group.placing is not None:
                await asyncio.wait([group.placing])
            elif is_reset or group.offsets.start is None:
                start = parse_start(arguments.get(OFFSET), group.now_ns())
                assert start is not None, "the arguments must be checked before"
                if await _place(groups, group, start, make_durable):
                    return group
            else:
                return group
    except (GroupInUseError, GroupOffsetOutOfRangeError, TooManyGroupsError) as error:
        raise PreconditionFailed(str(error)) from error


async def _place(
    groups: Groups, group: Group, start: StartPosition, make_durable: MakeDurable
) -> bool:
    """Set a group's position; return False if the group was deleted during that time.

    A new group is removed if its first position cannot be set.
    """
    is_new = group.offsets.start is None
    placed = group.placing = asyncio.get_running_loop().create_future()
    try:
        offset = await _offset(group.queue, group.name, start)
        if not groups.has(group):
            return False
        group.check_unused()
        group.place(offset)
        await _save(group, make_durable)
    except BaseException:
        if is_new and groups.has(group) and not group.members:
            groups.delete(group.name)
        raise
    finally:
        group.placing = None
        placed.set_result(None)
    return groups.has(group)


async def _offset(queue: ReadableQueue, name: str, start: StartPosition) -> int:
    """Return the offset of a position: at most the end of what is on the disk.

    Raises:
        GroupOffsetOutOfRangeError: The position is an offset above that end.
    """
    if start.kind is StartKind.NEXT:
        # Older messages are not for the group. Without the sync some of them would lie above
        # the end of what is on the disk.
        end = queue.store.end_offset
        await queue.store.make_durable()
        return min(end, queue.visible_end)
    if start.kind is StartKind.OFFSET:
        first, end = queue.first_offset, queue.visible_end
        if start.number > end:
            raise GroupOffsetOutOfRangeError(name, start.number, first, end)
        # Offsets below the log count as dropped, and the group reports them.
        return start.number
    return min(await start_offset(queue, start), queue.visible_end)


async def _save(group: Group, make_durable: MakeDurable) -> None:
    try:
        await make_durable()
    except OffsetsError as error:
        logger.error("position of a group not durable group=%s error=%s", group.name, error)  # noqa: TRY400 - one line says it all
        raise PreconditionFailed(
            f"the position of group '{group.name}' on {group.where} could not be saved"
        ) from error


def _is_reset(arguments: Table) -> bool:
    value = arguments.get(RESET)
    return value is not None and value.value is True
