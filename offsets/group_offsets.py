"""Position of one consumer group in one log: its settled offsets, stored under its name.

Like the settlement of a queue, it is a floor and ranges above it, because the members of a group
also ack out of order. Three things are different. A group may have no commit yet, which is `None`
and never 0. A seek may move it, also back. And retention does not wait for it: the offsets that
retention removed before the group settled them are counted.

    no position  start_at: `start` is known, acks have a floor, nothing is committed
    started      the first ack or commit: `committed` is the floor from now on
    committed    acks and commits advance it, a seek moves it anywhere

A commit states "everything below is settled". So a commit below the last one is a mistake, probably
of a member that was replaced: it is refused and changes nothing. The lower limit of commits is
`commit_floor`, not the floor. Retention and ranges acked ahead advance the floor, and a repetition
of a correct commit must not be refused because of that.
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
"""Maximum number of groups of a log; the owner of the groups refuses further ones."""


def check_group_name(name: str) -> None:
    """Check that a group may have this name: 1 to 255 bytes of UTF-8, no control characters.

    Raises:
        InvalidGroupNameError: The name is not valid.
        TypeError: The name is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"group name {name!r} is not a string")
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
    """Position and settled offsets of one consumer group in one log.

    Not thread-safe: it belongs to the thread that owns the log. Callers pass all times, as ns since
    1970 UTC.

    Attributes:
        name: Name of the group.
        dropped_total: Number of offsets that retention removed before the group settled them.
        dropped_since_last_poll: Number of these since the last call of `take_dropped`.
        redelivered: Number of redelivered messages, counted by `note_redelivered`.
        updated_at_ns: Time when it last started, acked, committed or was moved; 0 if it never did.
        changed: Whether the state differs from the last checkpoint. Every change sets it; the
            caller that takes the state for a checkpoint clears it.
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
        """Make the state of a group that has no position yet.

        Args:
            name: Name of the group, 1 to 255 bytes of UTF-8 without control characters.

        Raises:
            InvalidGroupNameError: The name is not valid.
        """
        check_group_name(name)
        self.name = name
        self.dropped_total = self.dropped_since_last_poll = 0
        self.redelivered = 0
        self.updated_at_ns = 0
        self.changed = False
        self._settlement = Settlement()
        self._commit_floor = 0
        self._is_started = self._is_committed = False

    @property
    def committed(self) -> int | None:
        """Offset below which everything is acked; None if nothing was ever acked."""
        return self._settlement.ack_floor if self._is_committed else None

    @property
    def start(self) -> int | None:
        """Floor, from which on the group gets deliveries; None if it has no position.

        `settlement` may have settled ranges above it, which are not delivered again.
        """
        return self._settlement.ack_floor if self._is_started else None

    @property
    def commit_floor(self) -> int | None:
        """Lowest offset that a commit may name; None if it may name any offset of the log."""
        return self._commit_floor if self._is_started else None

    @property
    def settlement(self) -> Settlement:
        """Settled offsets. A seek replaces the object, so do not keep it."""
        return self._settlement

    def start_at(self, offset: int, now_ns: int) -> None:
        """Set the first position of a group; `committed` stays None.

        Args:
            offset: Offset where the group begins, >= 0; it never gets lower ones.
            now_ns: Present time, ns since 1970 UTC.
        """
        assert not self._is_started, "a group with a place is moved by seek"
        self._place(offset, now_ns)

    def restore(self, settlement: Settlement, commit_floor: int, is_committed: bool) -> None:
        """Set the state of a group without a position to that of a checkpoint.

        Args:
            settlement: Settled offsets; the group keeps the object.
            commit_floor: Lowest offset that a commit may name; limited to the floor.
            is_committed: Whether the floor is a commit.
        """
        assert not self._is_started
        self._settlement = settlement
        self._commit_floor = min(commit_floor, settlement.ack_floor)
        self._is_committed = is_committed
        self._is_started = True

    def settle(self, start: int, end: int, now_ns: int) -> int:
        """Settle `[start, end)`, in any order; return how many offsets were not settled before.

        Args:
            start: First offset, inclusive; may be below the floor.
            end: End offset, exclusive; at least `start`.
            now_ns: Present time, ns since 1970 UTC.

        Returns:
            Number of newly settled offsets. Repeated acks, and acks after retention removed the
            messages, count 0 and change nothing.
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
        """Settle everything below `offset`. Repeating a commit is allowed and changes nothing.

        A commit below the log's start is allowed too: retention has removed the messages since the
        group read them.

        Args:
            offset: First offset that is not settled; `log_end` means that everything is.
            log_start: Start of the log.
            log_end: End of the visible part of the log, exclusive.
            now_ns: Present time, ns since 1970 UTC.

        Returns:
            Number of newly settled offsets; 0 for a group without a position.

        Raises:
            RegressingCommitError: The offset is below an earlier commit, or below offsets acked
                without a gap.
            GroupOffsetOutOfRangeError: The offset is above `log_end`; or it is below `log_start`,
                and the group has no position yet.
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
        """Move to any offset of the log; discard acks from there on.

        Everything below `offset` counts as committed, even if it was never acked.

        Args:
            offset: Next offset to deliver; `log_end` for the next new message.
            log_start: Start of the log.
            log_end: End of the visible part of the log, exclusive.
            now_ns: Present time, ns since 1970 UTC.

        Raises:
            GroupOffsetOutOfRangeError: The offset is not in `log_start` to `log_end`.
        """
        self.check_seek(offset, log_start, log_end)
        self._place(offset, now_ns)
        self._is_committed = True

    def check_commit(self, offset: int, log_start: int, log_end: int) -> None:
        """Raise the errors of `commit`, without a change, to check several groups first."""
        if self._is_started and offset < self._commit_floor:
            raise RegressingCommitError(self.name, self._commit_floor, offset)
        if offset > log_end or (offset < log_start and not self._is_started):
            raise GroupOffsetOutOfRangeError(self.name, offset, log_start, log_end)

    def check_seek(self, offset: int, log_start: int, log_end: int) -> None:
        """Raise the errors of `seek`, without a change."""
        if not log_start <= offset <= log_end:
            raise GroupOffsetOutOfRangeError(self.name, offset, log_start, log_end)

    def drop_below(self, log_start: int) -> int:
        """Advance to the present start of the log: retention does not wait for groups.

        Returns:
            Number of offsets that the group had not settled; its counts include them. 0 for a group
            without a position.
        """
        if not self._is_started or log_start <= self._settlement.ack_floor:
            return 0
        dropped = self._settlement.settle(0, log_start)
        self.dropped_total += dropped
        self.dropped_since_last_poll += dropped
        self.changed = True
        return dropped

    def take_dropped(self) -> int:
        """Return the number of offsets dropped since the last call, and reset it."""
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
        """Return the log end offset minus the committed offset.

        Offsets acked above the floor, and messages that are being processed, still count.

        Args:
            log_end: End of the visible part of the log, exclusive.
            log_start: Start of the log; a group without a position has all of the log before it.
        """
        start = self._settlement.ack_floor if self._is_started else log_start
        return max(log_end - max(start, log_start), 0)

    def _place(self, offset: int, now_ns: int) -> None:
        assert offset >= 0
        self._settlement = Settlement(offset)
        self._commit_floor = offset
        self._is_started = self.changed = True
        self.updated_at_ns = now_ns
