"""One log as one group's consumer has it: where it reads, and what it is done with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Self

from appendlog import FileSystem, LogFollower
from appendlog.segments.read_result import ReadResult
from offsets.consuming.batch import ConsumedBatch
from offsets.consuming.catalog import LogPlace
from offsets.consuming.claims import GroupClaim
from offsets.consuming.position import Position
from offsets.errors import GroupOffsetOutOfRangeError, OffsetsError
from offsets.group_checkpoint import GroupCheckpoint, GroupSnapshot
from offsets.group_offsets import GroupOffsets


class ConsumedLog:
    """One log of one group. Not thread-safe.

    Args:
        place: Of the log.
        group: Name of the group.
        claim: On the log for the group; released by `close`.
        known: What the checkpoints say of the group.
        start: Where it begins if they say nothing.
        filesystem: The log is read through it.
        unsure: The name of the log is in it while the group is changed, and stays there if an
            exception of a signal handler cuts that short: `group` is not to be believed then.

    Attributes:
        place: Of the log.
        group: What the group is done with.
        claim: As given.
        follower: Reads the log.
        began_at: Where the group was when this was made.
        position: What is read next.
        lost_records: Offsets that were skipped because they are damaged.

    Raises:
        LogError: The log cannot be read.
        OSError: A file cannot be read.
    """

    def __init__(
        self,
        place: LogPlace,
        group: str,
        claim: GroupClaim,
        known: GroupCheckpoint | None,
        start: Position,
        filesystem: FileSystem,
        unsure: set[str],
    ) -> None:
        self.place: Final = place
        self.follower: Final = LogFollower(place.directory, filesystem)
        self.claim: Final = claim
        self._filesystem = filesystem
        self._unsure = unsure
        # The file `end` may have lost its newest content with the power: what was acked was on the
        # disk, so it is in the log, and its writer gives no other record those offsets.
        self._known_end = 0 if known is None else known.known_end
        self.group = GroupOffsets(group) if known is None else known.offsets(self._settled_end)
        if self.group.start is None:
            self.group.start_at(start.find(self.follower), time.time_ns())
        self.began_at: Final = self.group.start or 0
        self.position = self.began_at
        self.lost_records = 0
        self.drop()

    @property
    def name(self) -> str:
        """Of the log."""
        return self.place.name

    @property
    def lag(self) -> int:
        """Offsets between what the group is done with and the durable end, at the last look."""
        return self.group.lag(self.follower.log_end_offset, self.follower.log_start_offset)

    def look(self, *, is_thorough: bool = False) -> None:
        """See what was appended, and what retention has removed.

        Args:
            is_thorough: Also when nothing became durable since: retention alone shows only then.

        Raises:
            LogError: The log cannot be read.
            OSError: A file cannot be read.
        """
        self.follower.refresh(is_thorough=is_thorough)
        self.drop()

    def drop(self) -> None:
        """Go on to where the log begins now; `GroupOffsets` counts what the group missed."""
        log_start = self.follower.log_start_offset
        if log_start > (self.group.start or 0):
            self._change(lambda: self.group.drop_below(log_start))
        self.position = max(self.position, self.group.start or 0)

    def read(self, max_records: int, max_bytes: int) -> ConsumedBatch | None:
        """Return the next records that the group is not done with, and go on behind them.

        Args:
            max_records: >= 1.
            max_bytes: Of messages, >= 1; one record is always returned if there is one.

        Returns:
            None when there is nothing up to the durable end as it was at the last look, or the log
            was deleted.

        Raises:
            ValueError: `max_records` or `max_bytes` is below 1.
            LogError: The log cannot be read.
        """
        while self.position < self.follower.log_end_offset:
            start = self._next_unsettled(self.position)
            found = self.follower.read_batch(start, max_records, max_bytes)
            self.drop()
            # Retention may have moved the start while this was read.
            start = max(start, self.follower.log_start_offset)
            self.position = max(self.position, found.next_offset)
            batch = self._batch(start, found)
            if batch is not None:
                return batch
            if found.next_offset <= start:
                # Its files are gone: `Consumer` gives it up when it looks for logs again.
                return None
        return None

    def go_back(self, offset: int) -> None:
        """Read on at `offset`, if it was read before; what the group is done with stays so."""
        self.position = max(min(self.position, offset), self.group.start or 0)

    def settle(self, start: int, end: int) -> int:
        """Take acks of `[start, end)`, and return how many were new.

        Raises:
            GroupOffsetOutOfRangeError: It is no range of offsets that a reader can have seen.
        """
        log = self.follower
        if not 0 <= start <= end or end > log.log_end_offset:
            wrong = start if start < 0 else end
            raise GroupOffsetOutOfRangeError(
                self.group.name, wrong, log.log_start_offset, log.log_end_offset
            )
        return self._change(lambda: self.group.settle(start, end, time.time_ns()))

    def commit(self, offset: int) -> int:
        """Say that all below `offset` is done; see `GroupOffsets.commit`."""
        log = self.follower
        start, end, now_ns = log.log_start_offset, log.log_end_offset, time.time_ns()
        return self._change(lambda: self.group.commit(offset, start, end, now_ns))

    def seek(self, position: Position) -> int:
        """Go anywhere in the log, back or on; return the offset that is read next."""
        self.look(is_thorough=True)
        log = self.follower
        offset = position.find(log)

        def seek() -> int:
            self.group.seek(offset, log.log_start_offset, log.log_end_offset, time.time_ns())
            self.position = offset
            return offset

        return self._change(seek)

    def snapshot(self) -> GroupSnapshot:
        """Return what a checkpoint is to say of the group."""
        end = self._settled_end
        return GroupSnapshot.of(self.group, self.place.identity.incarnation, end, self.position)

    def restored(self, known: GroupCheckpoint | None) -> Self:
        """Return the log with what the checkpoints say of the group, as after a crash.

        Args:
            known: What they say; None if they do not know the group in this log yet.
        """
        start = Position.at_offset(self.began_at)
        again = type(self)(
            self.place, self.group.name, self.claim, known, start, self._filesystem, self._unsure
        )
        again.lost_records = self.lost_records
        self.follower.close()
        return again

    def close(self) -> None:
        """Close the files and give the log up to other consumers of the group."""
        self.follower.close()
        self.claim.release()

    def forget(self) -> None:
        """Close the files of a log that is gone, and give it up for good."""
        self.follower.close()
        self.claim.remove()

    @property
    def _settled_end(self) -> int:
        """What was never on the disk is at or above it, exclusive: nobody can have acked that."""
        return max(self.follower.log_end_offset, self._known_end)

    def _change(self, change: Callable[[], int]) -> int:
        """Change the group, and be unsure of it until that is done."""
        self._unsure.add(self.name)
        try:
            done = change()
        except OffsetsError:
            # It is refused before anything is changed.
            self._unsure.discard(self.name)
            raise
        self._unsure.discard(self.name)
        return done

    def _next_unsettled(self, offset: int) -> int:
        settlement = self.group.settlement
        if not settlement.settled_above_floor:
            return offset
        end = self.follower.log_end_offset
        ranges = settlement.unsettled_ranges(offset, end)
        return ranges[0][0] if ranges else end

    def _batch(self, start: int, found: ReadResult) -> ConsumedBatch | None:
        """Return what the group is not done with; what is not in the log it is done with."""
        offsets, times, messages = found.offsets, found.timestamps_ns, found.messages
        end = found.next_offset
        if len(offsets) != end - start:
            self._settle_gaps(start, offsets, end)
        self.lost_records += sum(high - low for low, high in found.lost)
        settlement = self.group.settlement
        if settlement.settled_above_floor:
            kept = [at for at, offset in enumerate(offsets) if not settlement.is_settled(offset)]
            if len(kept) != len(offsets):
                offsets = [offsets[at] for at in kept]
                times = [times[at] for at in kept]
                messages = [messages[at] for at in kept]
        if not offsets:
            return None
        return ConsumedBatch(self.name, start, end, offsets, times, messages)

    def _settle_gaps(self, start: int, offsets: list[int], end: int) -> None:
        """Nobody can ack what was removed or lost: the floor would stay below it for ever."""
        now_ns = time.time_ns()

        def settle() -> int:
            expected, done = start, 0
            for offset in [*offsets, end]:
                if offset > expected:
                    done += self.group.settle(expected, offset, now_ns)
                expected = offset + 1
            return done

        self._change(settle)
