"""The consumer groups of one stream, by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.broker.subscriptions.group import Group
from offsets import GROUPS_PER_LOG_MAX, GroupOffsets, TooManyGroupsError, UnknownGroupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from amqp_server.broker.subscriptions.group import GroupedQueue
    from amqp_server.broker.turn import Turn
    from offsets import GroupCheckpoint


logger = logging.getLogger("amqp_server.broker.subscriptions.groups")

NAMED_MAX: Final = 10
"""Most groups that the server's log names after retention removed their messages."""


class GroupsRound(NamedTuple):
    """The groups of one stream in one round of checkpoints.

    Attributes:
        groups: Groups that the round includes.
        removed: Names of the deleted groups.
    """

    groups: list[Group]
    removed: list[str]


class Groups:
    """All groups of one stream. The event loop owns it.

    Changes take effect at once and are durable after the next round of checkpoints. A caller that
    must report a durable change waits for one (`Broker.write_checkpoint`).

    Args:
        queue: The stream.
        turn: Turn at whose end the groups deliver.
        groups_max: Most groups of the stream.

    Attributes:
        where: Text that names the stream in error messages.
    """

    def __init__(
        self,
        queue: GroupedQueue,
        turn: Turn,
        groups_max: int = GROUPS_PER_LOG_MAX,
    ) -> None:
        self.where: Final = f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
        self._names = queue.name, queue.virtual_host.name
        self._turn = turn
        self._groups_max = groups_max
        self._all: dict[str, Group] = {}
        # Dicts keep the order.
        self._dirty: dict[Group, None] = {}
        self._removed: dict[str, None] = {}

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._all)

    def __iter__(self) -> Iterator[Group]:
        """Iterate over a copy."""
        return iter(tuple(self._all.values()))

    def __contains__(self, name: str) -> bool:
        """Return whether a group with this name exists."""
        return name in self._all

    def has(self, group: Group) -> bool:
        """Return whether this very group still exists."""
        return self._all.get(group.name) is group

    def names(self) -> list[str]:
        """Return the names of all groups, sorted."""
        return sorted(self._all)

    def get(self, name: str) -> Group:
        """Return the group with this name.

        Raises:
            UnknownGroupError: There is no such group.
        """
        group = self._all.get(name)
        if group is None:
            raise UnknownGroupError(name, self.where)
        return group

    def create(self, queue: GroupedQueue, name: str) -> Group:
        """Return a new group without a position; `place`, `commit` or `seek` sets it.

        Args:
            queue: The stream.
            name: Name that no other group of the stream has.

        Raises:
            InvalidGroupNameError: The name is not allowed.
            TooManyGroupsError: The stream has as many groups as allowed.
        """
        assert name not in self._all, "the group exists already"
        self.check_limit(name)
        group = Group(queue, self._turn, GroupOffsets(name), self._mark_dirty)
        self._all[name] = group
        return group

    def check_limit(self, name: str) -> None:
        """Check that the stream may have one more group.

        Args:
            name: Name of the new group, for the error.

        Raises:
            TooManyGroupsError: The stream has as many groups as allowed.
        """
        if len(self._all) >= self._groups_max:
            raise TooManyGroupsError(name, self.where, self._groups_max)

    def commit(self, queue: GroupedQueue, name: str, offset: int) -> Group:
        """Commit for a group, which is created if it is missing; see `Group.commit`."""
        return self._place(queue, name, lambda group: group.commit(offset))

    def seek(self, queue: GroupedQueue, name: str, offset: int, *, force: bool) -> Group:
        """Move a group, which is created if it is missing; see `Group.seek`."""
        return self._place(queue, name, lambda group: group.seek(offset, force=force))

    def delete(self, name: str, *, force: bool = False) -> Group:
        """Delete a group with its position; a later group with this name starts without one.

        Args:
            name: Name of the group.
            force: Whether the group may have members; the caller must cancel them.

        Returns:
            The deleted group; its `subscription` has the members.

        Raises:
            UnknownGroupError: There is no such group.
            GroupInUseError: The group has members, and `force` is false.
        """
        group = self.get(name)
        group.check_unused(force=force)
        self.discard(group)
        self._removed[name] = None
        group.queue.mark_for_checkpoint()
        return group

    def discard(self, group: Group) -> None:
        """Forget a group that was never reported to a client, or that is being deleted."""
        del self._all[group.name]
        self._dirty.pop(group, None)
        group.stop()

    def restore(
        self,
        queue: GroupedQueue,
        checkpoint: GroupCheckpoint,
        log_end: int,
        *,
        was_clean: bool,
    ) -> None:
        """Restore a group when the server starts.

        Args:
            queue: The stream.
            checkpoint: Last checkpoint of the group.
            log_end: End of the log (exclusive); entries of the checkpoint above it are ignored.
            was_clean: Whether the server stopped cleanly. If not, every message may have been
                delivered before.
        """
        offsets = checkpoint.offsets(log_end)
        delivered_end = offsets.start or 0
        if offsets.start is not None:
            watermark = min(checkpoint.delivered_watermark, log_end) if was_clean else log_end
            delivered_end = max(delivered_end, watermark)
        group = Group(
            queue,
            self._turn,
            offsets,
            self._mark_dirty,
            delivered_end,
            _below(checkpoint.redeliveries, log_end),
        )
        self._all[group.name] = group
        group.drop_below(queue.first_offset)
        group.mark_dirty()

    def stop(self) -> None:
        """Stop all deliveries, because the queue is deleted."""
        for group in self._all.values():
            group.stop()
        # A group refers to its stream: without this, only the garbage collector would free both.
        self._all.clear()
        self._dirty.clear()

    def drop_below(self, log_start: int) -> None:
        """Move all groups to the start of the log.

        It logs only a few of the groups that lost messages: a line for each of thousands would
        block the event loop.
        """
        named = 0
        others = 0
        dropped = 0
        for group in self._all.values():
            is_named = named < NAMED_MAX
            count = group.drop_below(log_start, is_logged=is_named)
            if count and is_named:
                named += 1
            elif count:
                others += 1
                dropped += count
        if others:
            logger.warning(
                "groups passed by retention queue=%s vhost=%s groups=%d dropped=%d log_start=%d",
                *self._names,
                others,
                dropped,
                log_start,
            )

    def take_dirty(self, *, every: bool = False) -> GroupsRound:
        """Return the groups for the next round of checkpoints, and mark them as written.

        Args:
            every: Also include unchanged groups, because the last round stores what was delivered.
        """
        groups = dict.fromkeys(self._all.values() if every else self._dirty)
        removed: list[str] = []
        for name in self._removed:
            group = self._all.get(name)
            if group is None or group.offsets.start is None:
                removed.append(name)
            else:
                # A new group has the deleted one's name; its entry replaces the old one.
                groups[group] = None
        self._dirty = {}
        self._removed = {}
        for group in groups:
            group.is_dirty = False
            group.offsets.changed = False
        return GroupsRound([group for group in groups if group.offsets.start is not None], removed)

    def carry_over(self, queue: GroupedQueue, taken: GroupsRound) -> None:
        """Include the groups of a failed round in the next one."""
        self._removed.update(dict.fromkeys(taken.removed))
        for group in taken.groups:
            if self._all.get(group.name) is group:
                group.offsets.changed = True
                group.mark_dirty()
        if taken.removed:
            queue.mark_for_checkpoint()

    def _place(self, queue: GroupedQueue, name: str, place: Callable[[Group], object]) -> Group:
        """Set a group's position; create the group if needed, and undo that after an error."""
        group = self._all.get(name)
        if group is not None:
            place(group)
            return group
        group = self.create(queue, name)
        try:
            place(group)
        except BaseException:
            self.discard(group)
            raise
        return group

    def _mark_dirty(self, group: Group) -> None:
        self._dirty[group] = None
        group.queue.mark_for_checkpoint()


def _below(returns: Iterable[tuple[int, int, int]], end: int) -> list[tuple[int, int, int]]:
    return [(start, min(stop, end), count) for start, stop, count in returns if start < end]
