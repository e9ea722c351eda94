"""The commands `offsets.list`, `.show`, `.commit`, `.seek` and `.delete` of consumer groups.

Each works on one stream or on all shards of an exchange, and returns an array of rows. A change is
checked for every shard before any of them is changed. It takes effect on all of them in one turn of
the event loop, and is on the disk before the reply.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_server.access.permissions import Right
from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.consuming.ending import end_consumers
from amqp_server.broker.subscriptions.start_position import StartKind, offset_range, start_offset
from amqp_server.control.browse import written_place
from amqp_server.control.command_channel import refused
from amqp_server.control.offset_logs import (
    GroupLog,
    check_known,
    check_ordinary,
    find_logs,
    find_streams,
    groups_of,
    log_name,
)
from amqp_server.control.offset_refusals import refusals
from amqp_server.control.offset_rows import Row, add_lag_seconds, group_row, queue_row
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.queues import checkpoint_age_seconds
from amqp_server.control.registry import Audited, Command
from amqp_server.control.requesting_user import rights_in
from offsets import GroupOffsets, OffsetsError, RegressingCommitError, check_group_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.broker.subscriptions.start_position import StartPosition
    from amqp_server.upkeep.checkpointer import Checkpointer

logger = logging.getLogger("amqp_server.control.offsets")


async def list_all(broker: Broker, vhost: str, queue: str, shards: str) -> list[Row]:
    """Return all groups of a stream, or of all shards, by name and shard number.

    If neither is given, return those of all streams of the virtual host, by stream and name.
    """
    if queue or shards:
        return await _groups_of_all(find_logs(broker, vhost, queue, shards))
    rows: list[Row] = []
    for log in find_streams(broker, vhost):
        rows += await _groups_of_all([log])
    return rows


async def _groups_of_all(logs: list[GroupLog]) -> list[Row]:
    """Return a row for each group and log, by group name, also for logs without the group."""
    time_slice = TimeSlice()
    rows: list[Row] = []
    names = {name for log in logs for name in groups_of(log.queue).names()}
    for name in sorted(names):
        for shard, each in logs:
            if not each.is_deleted:
                rows.append(group_row(each, shard, name))
            await time_slice.yield_if_due()
    return rows


async def show(
    broker: Broker, checkpointer: Checkpointer, vhost: str, queue: str, shards: str, group: str
) -> list[Row]:
    """Return the state of one group; without `group` the settlement of ordinary queues."""
    logs = find_logs(broker, vhost, queue, shards)
    if not group:
        for log in logs:
            check_ordinary(log.queue)
        rows = [queue_row(each, shard) for shard, each in logs]
    else:
        with refusals():
            check_group_name(group)
            check_known(logs, group)
        rows = [group_row(each, shard, group) for shard, each in logs]
    await add_lag_seconds(rows, [each for _, each in logs], broker.turn.clock.time_ns())
    for row, (_, each) in zip(rows, logs, strict=True):
        row["checkpoint_age_seconds"] = checkpoint_age_seconds(checkpointer, each)
    return rows


async def commit(
    broker: Broker,
    checkpointer: Checkpointer,
    vhost: str,
    queue: str,
    shards: str,
    group: str,
    to: str,
    *,
    force: bool,
) -> list[Row]:
    """Commit a position: all below it is settled for the group; `force` allows a lower one."""

    def check(groups: Groups, offsets: GroupOffsets, offset: int, valid: tuple[int, int]) -> None:
        del groups
        try:
            offsets.check_commit(offset, *valid)
        except RegressingCommitError:
            if not force:
                raise
            offsets.check_seek(offset, *valid)

    def move(stream: Queue, groups: Groups, offset: int) -> None:
        try:
            groups.commit(stream, group, offset)
        except RegressingCommitError:
            groups.seek(stream, group, offset, force=True)

    logs = find_logs(broker, vhost, queue, shards)
    return await _move(checkpointer, logs, group, to, check, move)


async def seek(
    broker: Broker,
    checkpointer: Checkpointer,
    vhost: str,
    queue: str,
    shards: str,
    group: str,
    to: str,
    *,
    force: bool,
) -> list[Row]:
    """Move a group to a position; `force` allows it even if the group has members."""

    def check(groups: Groups, offsets: GroupOffsets, offset: int, valid: tuple[int, int]) -> None:
        if group in groups:
            groups.get(group).check_unused(force=force)
        offsets.check_seek(offset, *valid)

    def move(stream: Queue, groups: Groups, offset: int) -> None:
        groups.seek(stream, group, offset, force=force)

    logs = find_logs(broker, vhost, queue, shards)
    return await _move(checkpointer, logs, group, to, check, move)


async def allowed_seek(
    broker: Broker,
    checkpointer: Checkpointer,
    access: AccessControl,
    vhost: str,
    queue: str,
    shards: str,
    group: str,
    to: str,
    *,
    force: bool,
) -> list[Row]:
    """Do the same for a user who may read all of these queues.

    Raises:
        ControlError: The user may not, or as `seek`.
    """
    names = [queue] if queue else [log.queue.name for log in find_logs(broker, vhost, "", shards)]
    with refused():
        rights = rights_in(access, vhost)
        for name in names:
            rights.require(Right.READ, "queue", name)
    return await seek(broker, checkpointer, vhost, queue, shards, group, to, force=force)


async def delete(
    broker: Broker,
    checkpointer: Checkpointer,
    vhost: str,
    queue: str,
    shards: str,
    group: str,
    *,
    force: bool,
) -> list[Row]:
    """Delete a group for good; `force` allows it with members, which are cancelled."""
    logs = find_logs(broker, vhost, queue, shards)
    with refusals():
        check_group_name(group)
        check_known(logs, group)
        known = [log for log in logs if group in groups_of(log.queue)]
        for log in known:
            groups_of(log.queue).get(group).check_unused(force=force)
        rows = []
        for shard, each in known:
            rows.append(group_row(each, shard, group))
            deleted = groups_of(each).delete(group, force=force).subscription
            if len(deleted.consumers):
                end_consumers(list(deleted.consumers))
                each.subscriptions.set_aside(deleted)
    await _make_durable(checkpointer, f"group '{group}' is deleted")
    _log("group deleted", rows, group)
    return rows


async def _move(
    checkpointer: Checkpointer,
    logs: list[GroupLog],
    group: str,
    to: str,
    check: Callable[[Groups, GroupOffsets, int, tuple[int, int]], None],
    move: Callable[[Queue, Groups, int], None],
) -> list[Row]:
    """Move a group to a position in each log; return rows, with `committed_before` in each.

    Raises:
        ControlError: The position is invalid in one of the logs; none was changed.
    """
    targets = [written_place(log.queue, to, "to") for log in logs]
    with refusals():
        check_group_name(group)
        offsets = [
            await target_offset(log.queue, target)
            for log, target in zip(logs, targets, strict=True)
        ]
        await _until_placed(logs, group)
    for log, offset in zip(logs, offsets, strict=True):
        with refusals(log):
            groups = groups_of(log.queue)
            known = groups.get(group).offsets if group in groups else None
            if known is None:
                groups.check_limit(group)
            check(groups, known or GroupOffsets(group), offset, offset_range(log.queue))
    with refusals():
        rows = []
        for (shard, queue), offset in zip(logs, offsets, strict=True):
            before = group_row(queue, shard, group)
            move(queue, groups_of(queue), offset)
            after = group_row(queue, shard, group)
            rows.append(after | {"committed_before": before.get("committed")})
    await _make_durable(checkpointer, f"group '{group}' is moved")
    _log("group moved", rows, group)
    return rows


async def _until_placed(logs: list[GroupLog], group: str) -> None:
    """Return when no consumer is looking for the group's start any more.

    Raises:
        ControlError: A queue was deleted during that time.
    """
    while waited := _placings(logs, group):
        await asyncio.wait(waited)
    for _, queue in logs:
        if queue.is_deleted:
            raise ControlError(
                ErrorKind.NOT_FOUND, f"{log_name(queue)} was deleted during the request"
            )


def _placings(logs: list[GroupLog], group: str) -> list[asyncio.Future[None]]:
    known = (groups_of(log.queue) for log in logs)
    placings = (groups.get(group).placing for groups in known if group in groups)
    return [placing for placing in placings if placing is not None]


async def _make_durable(checkpointer: Checkpointer, what: str) -> None:
    try:
        await checkpointer.write_round()
    except OffsetsError as error:
        reason = f"{what}, but a crash could undo it: {error}"
        raise ControlError(ErrorKind.FAILED, reason) from error


def _log(what: str, rows: list[Row], group: str) -> None:
    for row in rows:
        logger.info(
            "%s queue=%s vhost=%s group=%s committed=%s before=%s",
            what,
            row.get("queue"),
            row.get("vhost"),
            group,
            row.get("committed"),
            row.get("committed_before"),
        )


_LOG: Final = {"vhost": str, "queue": str, "shards": str}
_MOVE_DETAILS: Final = ("group", "shards", "to", "force")
_MOVE: Final = {**_LOG, "group": str, "to": str, "force": bool}


def offsets_commands(
    broker: Broker, checkpointer: Checkpointer, access: AccessControl
) -> tuple[Command, ...]:
    """Return the commands `offsets.*` of a server with these parts."""
    return (
        Command("offsets.list", partial(list_all, broker), _LOG),
        Command("offsets.show", partial(show, broker, checkpointer), {**_LOG, "group": str}),
        Command(
            "offsets.commit",
            partial(commit, broker, checkpointer),
            _MOVE,
            audited=Audited("offsets.committed", "queue", _MOVE_DETAILS),
        ),
        Command(
            "offsets.seek",
            partial(allowed_seek, broker, checkpointer, access),
            _MOVE,
            audited=Audited("offsets.sought", "queue", _MOVE_DETAILS),
        ),
        Command(
            "offsets.delete",
            partial(delete, broker, checkpointer),
            {**_LOG, "group": str, "force": bool},
            audited=Audited("offsets.deleted", "queue", ("group", "shards", "force")),
        ),
    )


async def target_offset(queue: Queue, target: StartPosition) -> int:
    """Return the offset of a position in one log; a numeric offset is returned unchecked.

    Raises:
        LogFailedError: The log cannot be read.
    """
    if target.kind is StartKind.OFFSET:
        return target.number
    if target.kind is StartKind.NEXT:
        # Skip everything published before this command; a stream can show it only once it is on the
        # disk.
        end = queue.store.end_offset
        await queue.store.make_durable()
        return min(end, queue.visible_end)
    return min(await start_offset(queue, target), queue.visible_end)
