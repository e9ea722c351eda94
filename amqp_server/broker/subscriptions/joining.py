"""How a consumer comes into a group, which may have to be given its place first.

A group begins, or is reset, at one place, whoever asks for it: where that has to be looked for
in the log, all who join meanwhile wait for the same. A new place is durable before anybody is
told: a group that began at the end of the log, and was forgotten by a crash, would begin at
another end, and miss what lies between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.start_position import (
    OFFSET,
    StartKind,
    first_offset,
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

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.group import Group
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.broker.subscriptions.start_position import StartPosition
    from amqp_server.protocol.tables import Table

    MakeDurable = Callable[[], Awaitable[object]]

logger = logging.getLogger(__name__)

GROUP = "x-consumer-group"
"""Name of the group that a consumer of a stream belongs to."""
RESET = "x-offset-reset"
"""Whether the group goes to `x-stream-offset` though it has a place."""


def group_name(arguments: Table) -> str | None:
    """Return the group that checked arguments name, or None."""
    value = arguments.get(GROUP)
    return value.value.decode() if value is not None and isinstance(value.value, bytes) else None


def placed_group(groups: Groups, arguments: Table) -> Group | None:
    """Return the group that a consumer asks for, if it has a place and is to keep it.

    Args:
        groups: Of the stream.
        arguments: Of the consumer, checked; they name a group.
    """
    name = group_name(arguments)
    if name is None or name not in groups or _is_reset(arguments):
        return None
    group = groups.get(name)
    return group if group.offsets.start is not None and group.placing is None else None


async def join(groups: Groups, arguments: Table, make_durable: MakeDurable) -> Group:
    """Return the group that a consumer asks for when it has its place, and that is durable.

    Args:
        groups: Of the stream.
        arguments: Of the consumer, checked; they name a group.
        make_durable: Writes to the disk what checkpoints are to know.

    Raises:
        PreconditionFailed: There are too many groups; it is to be reset and has members; the log
            does not have its place yet; or the disk refused.
        LogFailedError: The log cannot be read.
    """
    name, is_reset = group_name(arguments), _is_reset(arguments)
    assert name is not None, "no group is asked for"
    try:
        while True:
            group = groups.get(name) if name in groups else groups.create(name)
            if is_reset:
                group.check_unused()
            if group.placing is not None:
                await asyncio.wait([group.placing])
            elif is_reset or group.offsets.start is None:
                start = parse_start(arguments.get(OFFSET), time.time_ns())
                assert start is not None, "not checked to be a place"
                if await _place(groups, group, start, make_durable):
                    return group
            else:
                return group
    except (GroupInUseError, GroupOffsetOutOfRangeError, TooManyGroupsError) as error:
        raise PreconditionFailed(str(error)) from error


async def _place(
    groups: Groups, group: Group, start: StartPosition, make_durable: MakeDurable
) -> bool:
    """Give a group its place; return False if it was deleted meanwhile.

    Nothing is left of a group that cannot have its first place.
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


async def _offset(queue: Queue, name: str, start: StartPosition) -> int:
    """Return what the place is now: at most the end of what is on the disk.

    Raises:
        GroupOffsetOutOfRangeError: It names an offset behind that.
    """
    if start.kind is StartKind.NEXT:
        # What was published before is not for the group, and the end on the disk is behind it.
        end = queue.store.end_offset
        await queue.store.make_durable()
        return min(end, queue.visible_end)
    if start.kind is StartKind.OFFSET:
        first, end = first_offset(queue), queue.visible_end
        if start.number > end:
            raise GroupOffsetOutOfRangeError(name, start.number, first, end)
        # What lies before the log is dropped, and the group hears of it.
        return start.number
    return min(await start_offset(queue, start), queue.visible_end)


async def _save(group: Group, make_durable: MakeDurable) -> None:
    try:
        await make_durable()
    except OffsetsError as error:
        logger.error("place of a group not durable group=%s error=%s", group.name, error)  # noqa: TRY400 - one line says it all
        raise PreconditionFailed(
            f"the place of group '{group.name}' on {group.where} could not be saved"
        ) from error


def _is_reset(arguments: Table) -> bool:
    value = arguments.get(RESET)
    return value is not None and value.value is True
