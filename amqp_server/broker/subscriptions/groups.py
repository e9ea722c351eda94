"""The consumer groups of one stream, by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.broker.subscriptions.group import Group
from amqp_server.broker.subscriptions.start_position import first_offset
from offsets import GROUPS_PER_LOG_MAX, GroupOffsets, TooManyGroupsError, UnknownGroupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Turn
    from offsets import GroupCheckpoint


logger = logging.getLogger(__name__)

NAMED_MAX: Final = 10
"""Groups that the server's log names when retention has passed them by."""


class GroupsRound(NamedTuple):
    """What one round of checkpoints says of the groups of one stream.

    Attributes:
        groups: Those that it names.
        removed: Names of those that are gone.
    """

    groups: list[Group]
    removed: list[str]


class Groups:
    """All groups of one stream. The event loop owns it.

    What changes here takes effect at once, and is durable behind the next round of checkpoints:
    whoever has to promise that waits for one (`Broker.write_checkpoint`).

    Args:
        queue: The stream.
        turn: Where they ask for their turns.
        on_dirty: Called when a checkpoint should say something new of the groups.
        groups_max: How many there may be.
    """

    def __init__(
        self,
        queue: Queue,
        turn: Turn,
        on_dirty: Callable[[], None],
        groups_max: int = GROUPS_PER_LOG_MAX,
    ) -> None:
        self._queue = queue
        self._turn = turn
        self._on_dirty = on_dirty
        self._groups_max = groups_max
        self._all: dict[str, Group] = {}
        # Dicts, for their order.
        self._dirty: dict[Group, None] = {}
        self._removed: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def __iter__(self) -> Iterator[Group]:
        """Iterate over a copy."""
        return iter(tuple(self._all.values()))

    def __contains__(self, name: str) -> bool:
        """Tell whether there is a group of this name."""
        return name in self._all

    def has(self, group: Group) -> bool:
        """Tell whether this very group is still there."""
        return self._all.get(group.name) is group

    @property
    def where(self) -> str:
        """What the log is called, in words for people."""
        return f"queue '{self._queue.name}' in vhost '{self._queue.virtual_host.name}'"

    def names(self) -> list[str]:
        """Return their names, sorted."""
        return sorted(self._all)

    def get(self, name: str) -> Group:
        """Return the group of this name.

        Raises:
            UnknownGroupError: There is none.
        """
        group = self._all.get(name)
        if group is None:
            raise UnknownGroupError(name, self.where)
        return group

    def create(self, name: str) -> Group:
        """Return a new group without a place; `begin`, `commit` or `seek` gives it one.

        Args:
            name: None of the others has it.

        Raises:
            InvalidGroupNameError: No group can have this name.
            TooManyGroupsError: There are as many as there may be.
        """
        assert name not in self._all, "there is one"
        self.check_limit(name)
        group = Group(self._queue, self._turn, GroupOffsets(name), self._note_dirty)
        self._all[name] = group
        return group

    def check_limit(self, name: str) -> None:
        """Check that there may be one more.

        Args:
            name: What it would be called.

        Raises:
            TooManyGroupsError: There are as many as there may be.
        """
        if len(self._all) >= self._groups_max:
            raise TooManyGroupsError(name, self.where, self._groups_max)

    def commit(self, name: str, offset: int) -> Group:
        """Commit for a group, which begins by that if there is none; see `Group.commit`."""
        return self._place(name, lambda group: group.commit(offset))

    def seek(self, name: str, offset: int, *, force: bool) -> Group:
        """Move a group, which begins by that if there is none; see `Group.seek`."""
        return self._place(name, lambda group: group.seek(offset, force=force))

    def delete(self, name: str, *, force: bool = False) -> Group:
        """Remove a group with all that it knows; a later one of its name begins anew.

        Args:
            name: Of the group.
            force: Whether it may have members; the caller has to cancel them.

        Returns:
            The group; its `subscription` has the members.

        Raises:
            UnknownGroupError: There is none.
            GroupInUseError: It has members, and `force` is not given.
        """
        group = self.get(name)
        group.check_unused(force=force)
        self.discard(group)
        self._removed[name] = None
        self._on_dirty()
        return group

    def discard(self, group: Group) -> None:
        """Forget a group that nobody heard of yet, or that is being deleted."""
        del self._all[group.name]
        self._dirty.pop(group, None)
        group.stop()

    def restore(self, checkpoint: GroupCheckpoint, log_end: int, *, was_clean: bool) -> None:
        """Bring a group back at the start of the server.

        Args:
            checkpoint: The last one of it.
            log_end: End of the log, exclusive; what the checkpoint says behind it is forgotten.
            was_clean: Whether the server stopped cleanly; if not, all there is may have been
                delivered before.
        """
        offsets = checkpoint.offsets(log_end)
        delivered_end = offsets.start or 0
        if offsets.start is not None:
            watermark = min(checkpoint.delivered_watermark, log_end) if was_clean else log_end
            delivered_end = max(delivered_end, watermark)
        group = Group(
            self._queue,
            self._turn,
            offsets,
            self._note_dirty,
            delivered_end,
            _below(checkpoint.redeliveries, log_end),
        )
        self._all[group.name] = group
        group.drop_below(first_offset(self._queue))
        group.note_dirty()

    def stop(self) -> None:
        """Let nothing be delivered any more: the queue is deleted."""
        for group in self._all.values():
            group.stop()

    def drop_below(self, log_start: int) -> None:
        """Let all go on to where the log begins now.

        Of thousands that lose something the log names a few: a line for each would keep the loop.
        """
        named = others = dropped = 0
        for group in self._all.values():
            is_named = named < NAMED_MAX
            count = group.drop_below(log_start, is_logged=is_named)
            if count and is_named:
                named += 1
            elif count:
                others, dropped = others + 1, dropped + count
        if others:
            logger.warning(
                "groups passed by retention queue=%s vhost=%s groups=%d dropped=%d log_start=%d",
                *(self._queue.name, self._queue.virtual_host.name, others, dropped, log_start),
            )

    def take_dirty(self, *, every: bool = False) -> GroupsRound:
        """Return what the next round of checkpoints has to say, and expect it to be written.

        Args:
            every: Also of those that are as they were: the last round tells what was delivered.
        """
        groups = dict.fromkeys(self._all.values() if every else self._dirty)
        removed: list[str] = []
        for name in self._removed:
            group = self._all.get(name)
            if group is None or group.offsets.start is None:
                removed.append(name)
            else:
                # Begun anew since: its entry replaces the old one.
                groups[group] = None
        self._dirty, self._removed = {}, {}
        for group in groups:
            group.is_dirty = group.offsets.changed = False
        return GroupsRound([group for group in groups if group.offsets.start is not None], removed)

    def carry_over(self, taken: GroupsRound) -> None:
        """Let the next round say what this one could not: it was not written."""
        self._removed.update(dict.fromkeys(taken.removed))
        for group in taken.groups:
            if self._all.get(group.name) is group:
                group.offsets.changed = True
                group.note_dirty()
        if taken.removed:
            self._on_dirty()

    def _place(self, name: str, place: Callable[[Group], object]) -> Group:
        """Let a group go somewhere, one that there is not too; nothing is left if it cannot."""
        group = self._all.get(name)
        if group is not None:
            place(group)
            return group
        group = self.create(name)
        try:
            place(group)
        except BaseException:
            self.discard(group)
            raise
        return group

    def _note_dirty(self, group: Group) -> None:
        self._dirty[group] = None
        self._on_dirty()


def _below(returns: Iterable[tuple[int, int, int]], end: int) -> list[tuple[int, int, int]]:
    return [(start, min(stop, end), count) for start, stop, count in returns if start < end]
