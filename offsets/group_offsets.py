"""Where one consumer group is in one log: what it has done for good, under a name.

It is the settlement of a queue once more, a floor and ranges above it, because the members of a
group ack out of order as well. Three things are different. A group may have no commit yet, which
is `None` and never 0. It may be moved by hand, also back. And the log's retention does not wait
for it: what was taken away before the group was done with it is counted.

    no place   start_at: `start` is known, acks have a floor to stand on, nothing is committed
    started    the first ack or commit: `committed` is the floor from now on
    committed  acks and commits take it on, a seek takes it anywhere

A commit says "all below is done", so one that is lower than the last is a mistake, most likely of
a member that was replaced: it is refused and changes nothing. What a commit may not go below is
`commit_floor`. That is not the floor: retention and ranges acked ahead move the floor on, and
whoever then repeats a commit that was right must not be told that it is wrong.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from offsets.errors import (
    GroupOffsetOutOfRangeError,
    InvalidGroupNameError,
    RegressingCommitError,
)
from offsets.settlement import Settlement

GROUP_NAME_BYTES_MAX: Final = 255
"""Longest name of a group, in bytes of UTF-8."""

GROUPS_PER_LOG_MAX: Final = 10_000
"""How many groups one log may have; whoever holds them refuses one more."""


def check_group_name(name: str) -> None:
    """Check that a group can have this name: 1 to 255 bytes of UTF-8, no control characters.

    Raises:
        InvalidGroupNameError: It cannot.
        TypeError: It is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"group name {name!r} is no text")
    try:
        octets = name.encode()
    except UnicodeEncodeError:
        raise InvalidGroupNameError(name, "is not UTF-8") from None
    if not octets:
        raise InvalidGroupNameError(name, "is empty")
    if len(octets) > GROUP_NAME_BYTES_MAX:
        raise InvalidGroupNameError(name, f"has {len(octets)} bytes")
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise InvalidGroupNameError(name, "has a control character")


class GroupOffsets:
    """The place of one consumer group in one log.

    Not thread-safe: it belongs to the thread that owns the log. All moments are passed in, int64
    ns since the epoch, UTC.

    Attributes:
        name: Of the group.
        dropped_total: Offsets that retention took away before the group was done with them.
        dropped_since_last_poll: Those since `take_dropped` was last asked.
        redelivered: Messages delivered to it again; counted by `note_redelivered`.
        updated_at_ns: When it was last started, acked, committed or moved by hand; 0: never.
        changed: Something that a checkpoint holds is different. Set by every change, and cleared
            by whoever has taken it for a checkpoint.
    """

    __slots__ = (
        "_commit_floor",
        "_is_committed",
        "_is_started",
        "_settlement",
        "changed",
        "dropped_since_last_poll",
        "dropped_total",
        "name",
        "redelivered",
        "updated_at_ns",
    )

    def __init__(self, name: str) -> None:
        """Begin without a place.

        Args:
            name: 1 to 255 bytes of UTF-8, no control characters.

        Raises:
            InvalidGroupNameError: The name is not such.
        """
        check_group_name(name)
        self.name = name
        self.dropped_total = self.dropped_since_last_poll = 0
        self.redelivered = self.updated_at_ns = 0
        self.changed = False
        self._settlement = Settlement()
        self._commit_floor = 0
        self._is_started = self._is_committed = False

    @property
    def committed(self) -> int | None:
        """All below it is done, and what it names is not; None: nothing was ever acked."""
        return self._settlement.ack_floor if self._is_committed else None

    @property
    def start(self) -> int | None:
        """Where to deliver from, as far as the group knows: its floor; None: it has no place.

        Above it there may be settled ranges, which are not delivered again: ask `settlement`.
        """
        return self._settlement.ack_floor if self._is_started else None

    @property
    def commit_floor(self) -> int | None:
        """Lowest offset that a commit may name; None: any that the log has."""
        return self._commit_floor if self._is_started else None

    @property
    def settlement(self) -> Settlement:
        """What is done. A seek puts another in its place, so do not keep it."""
        return self._settlement

    def start_at(self, offset: int, now_ns: int) -> None:
        """Give a group without a place its first one; `committed` stays None.

        Args:
            offset: Where to begin, >= 0. What is below it the group never asks for.
            now_ns: Now.
        """
        assert not self._is_started, "a group with a place is moved by seek"
        self._place(offset, now_ns)

    def restore(self, settlement: Settlement, commit_floor: int, is_committed: bool) -> None:
        """Give a group without a place what was written down of it.

        Args:
            settlement: What it is done with. Kept.
            commit_floor: Lowest offset that a commit may name; cut to the floor.
            is_committed: Whether the floor is a commit.
        """
        assert not self._is_started
        self._settlement = settlement
        self._commit_floor = min(commit_floor, settlement.ack_floor)
        self._is_committed = is_committed
        self._is_started = True

    def settle(self, start: int, end: int, now_ns: int) -> int:
        """Take the acks of `[start, end)`, in any order, and return how many were new.

        Args:
            start: First offset, inclusive; may lie below the floor.
            end: >= start, exclusive.
            now_ns: Now.

        Returns:
            Offsets newly settled. Of what the group was done with before there are none: acks
            that come twice, or after retention took the messages, change nothing.
        """
        assert self._is_started, "acks need a floor to stand on"
        settlement = self._settlement
        floor = settlement.ack_floor
        newly = settlement.settle(start, end)
        if newly:
            self._is_committed = self.changed = True
            self.updated_at_ns = now_ns
            if settlement.ack_floor != floor:
                self._commit_floor = settlement.ack_floor
        return newly

    def commit(self, offset: int, log_start: int, log_end: int, now_ns: int) -> int:
        """Say that all below `offset` is done. The same once more is fine and changes nothing.

        A commit that retention has overtaken is fine as well: the messages it speaks of were
        there when they were read.

        Args:
            offset: The first that is not done; `log_end` says that all is.
            log_start: What the log begins with.
            log_end: End of what may be seen of the log, exclusive.
            now_ns: Now.

        Returns:
            Offsets newly settled; of a group without a place 0.

        Raises:
            RegressingCommitError: It is below an earlier commit, or below what was acked without
                a gap.
            GroupOffsetOutOfRangeError: It is above `log_end`; or below `log_start`, and the
                group has no place yet.
        """
        self.check_commit(offset, log_start, log_end)
        newly = 0
        if not self._is_started:
            self._place(offset, now_ns)
        else:
            newly = self._settlement.settle(0, offset)
        if newly or offset != self._commit_floor or not self._is_committed:
            self._commit_floor = offset
            self._is_committed = self.changed = True
            self.updated_at_ns = now_ns
        return newly

    def seek(self, offset: int, log_start: int, log_end: int, now_ns: int) -> None:
        """Go anywhere in the log, back or on, and forget what was acked from there on.

        All below `offset` counts as committed, also what nobody acked.

        Args:
            offset: What is to be delivered next; `log_end` for what comes next.
            log_start: What the log begins with.
            log_end: End of what may be seen of the log, exclusive.
            now_ns: Now.

        Raises:
            GroupOffsetOutOfRangeError: It is outside `log_start` to `log_end`.
        """
        self.check_seek(offset, log_start, log_end)
        self._place(offset, now_ns)
        self._is_committed = True

    def check_commit(self, offset: int, log_start: int, log_end: int) -> None:
        """Raise what `commit` would, and change nothing: of several groups all go, or none."""
        if self._is_started and offset < self._commit_floor:
            raise RegressingCommitError(self.name, self._commit_floor, offset)
        if offset > log_end or (offset < log_start and not self._is_started):
            raise GroupOffsetOutOfRangeError(self.name, offset, log_start, log_end)

    def check_seek(self, offset: int, log_start: int, log_end: int) -> None:
        """Raise what `seek` would, and change nothing."""
        if not log_start <= offset <= log_end:
            raise GroupOffsetOutOfRangeError(self.name, offset, log_start, log_end)

    def drop_below(self, log_start: int) -> int:
        """Go on to where the log begins now: retention does not wait for groups.

        Returns:
            How many offsets the group was not done with; they are added to its counts. A group
            without a place loses nothing.
        """
        if not self._is_started or log_start <= self._settlement.ack_floor:
            return 0
        dropped = self._settlement.settle(0, log_start)
        self.dropped_total += dropped
        self.dropped_since_last_poll += dropped
        self.changed = True
        return dropped

    def take_dropped(self) -> int:
        """Return how many offsets were dropped since this was last asked, and count anew."""
        dropped, self.dropped_since_last_poll = self.dropped_since_last_poll, 0
        if dropped:
            self.changed = True
        return dropped

    def note_redelivered(self, count: int) -> None:
        """Count messages that were delivered to the group again."""
        self.redelivered += count
        if count:
            self.changed = True

    def lag(self, log_end: int, log_start: int = 0) -> int:
        """Return how far the group is behind: log end offset - committed offset.

        What is acked above the floor still counts, as does what is being worked on.

        Args:
            log_end: End of what may be seen of the log, exclusive.
            log_start: What the log begins with; a group without a place has all of it to come.
        """
        start = self._settlement.ack_floor if self._is_started else log_start
        return max(log_end - max(start, log_start), 0)

    def _place(self, offset: int, now_ns: int) -> None:
        assert offset >= 0
        self._settlement = Settlement(offset)
        self._commit_floor = offset
        self._is_started = self.changed = True
        self.updated_at_ns = now_ns
