"""One log as a consumer of one group sees it: its position, and its settled records."""

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
        place: Place of the log.
        group: Name of the group.
        claim: Claim on the log for the group; `close` releases it.
        known: Checkpoint of the group in this log, if there is one.
        start: Position where the group begins without a checkpoint.
        filesystem: File operations, used to read the log.
        unsure: Contains the name of the log while the group is changed. The name stays there if an
            exception of a signal handler interrupts that: then `group` is not reliable.

    Attributes:
        place: Place of the log.
        group: Settled offsets of the group.
        claim: Claim on the log.
        follower: Reader of the log.
        began_at: Offset of the group when this object was made.
        position: Offset to read next.
        lost_records: Number of offsets skipped because of damage.

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
        # A power cut may have reset the `end` file. Acked records were on the disk, so they are in
        # the log, and its writer never assigns their offsets again.
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
        """Name of the log."""
        return self.place.name

    @property
    def lag(self) -> int:
        """Durable end minus settled records, in offsets, at the last refresh."""
        return self.group.lag(self.follower.log_end_offset, self.follower.log_start_offset)

    @property
    def is_gone(self) -> bool:
        """Whether the log was deleted: it had records, and its directory is not there."""
        had_records = self.follower.log_end_offset > 0
        return had_records and not self._filesystem.exists(self.place.directory)

    def refresh(self, *, is_thorough: bool = False) -> None:
        """Refresh the view of the log: appended records, and what retention has removed.

        Args:
            is_thorough: Whether to list the files even if nothing became durable, to see retention.

        Raises:
            LogError: The log cannot be read.
            OSError: A file cannot be read.
        """
        self.follower.refresh(is_thorough=is_thorough)
        self.drop()

    def drop(self) -> None:
        """Advance to the present start of the log; `GroupOffsets` counts the missed offsets."""
        log_start = self.follower.log_start_offset
        if log_start > (self.group.start or 0):
            self._change(lambda: self.group.drop_below(log_start))
        self.position = max(self.position, self.group.start or 0)

    def read(self, max_records: int, max_bytes: int) -> ConsumedBatch | None:
        """Return the next records that the group has not settled, and advance the position.

        Args:
            max_records: Limit of records, >= 1.
            max_bytes: Limit of message bytes, >= 1; at least one record is returned if there is
                one.

        Returns:
            None if there is no such record below the durable end of the last refresh, or if the log
            was deleted.

        Raises:
            ValueError: `max_records` or `max_bytes` is below 1.
            LogError: The log cannot be read.
        """
        while self.position < self.follower.log_end_offset:
            start = self._next_unsettled(self.position)
            found = self.follower.read_batch(start, max_records, max_bytes)
            self.drop()
            # Retention may have moved the start during the read.
            start = max(start, self.follower.log_start_offset)
            self.position = max(self.position, found.next_offset)
            batch = self._batch(start, found)
            if batch is not None:
                return batch
            if found.next_offset <= start:
                # Its files are removed: `Consumer` releases the log when it looks for logs again.
                return None
        return None

    def rewind(self, offset: int) -> None:
        """Read again from `offset` on, if that was read before; settled records stay settled."""
        self.position = max(min(self.position, offset), self.group.start or 0)

    def settle(self, start: int, end: int) -> int:
        """Settle `[start, end)`, and return how many offsets were not settled before.

        Raises:
            GroupOffsetOutOfRangeError: It is not a range of offsets that a reader can have seen.
        """
        log = self.follower
        if not 0 <= start <= end or end > log.log_end_offset:
            wrong = start if start < 0 else end
            raise GroupOffsetOutOfRangeError(
                self.group.name, wrong, log.log_start_offset, log.log_end_offset
            )
        return self._change(lambda: self.group.settle(start, end, time.time_ns()))

    def commit(self, offset: int) -> int:
        """Settle everything below `offset`; see `GroupOffsets.commit`."""
        log = self.follower
        start = log.log_start_offset
        end = log.log_end_offset
        now_ns = time.time_ns()
        return self._change(lambda: self.group.commit(offset, start, end, now_ns))

    def seek(self, position: Position) -> int:
        """Move to any position in the log; return the offset that is read next."""
        self.refresh(is_thorough=True)
        log = self.follower
        offset = position.find(log)

        def seek() -> int:
            self.group.seek(offset, log.log_start_offset, log.log_end_offset, time.time_ns())
            self.position = offset
            return offset

        return self._change(seek)

    def snapshot(self) -> GroupSnapshot:
        """Return the state of the group for a checkpoint."""
        end = self._settled_end
        return GroupSnapshot.of(self.group, self.place.identity.incarnation, end, self.position)

    def restored(self, known: GroupCheckpoint | None) -> Self:
        """Return a new object with the state of the checkpoints, as after a crash.

        Args:
            known: Checkpoint of the group in this log; None if there is none yet.
        """
        start = Position.at_offset(self.began_at)
        again = type(self)(
            self.place, self.group.name, self.claim, known, start, self._filesystem, self._unsure
        )
        again.lost_records = self.lost_records
        self.follower.close()
        return again

    def close(self) -> None:
        """Close the files, and release the log to other consumers of the group."""
        self.follower.close()
        self.claim.release()

    def close_removed(self) -> None:
        """Close the files of a log that is gone, and remove its lock file."""
        self.follower.close()
        self.claim.remove()

    @property
    def _settled_end(self) -> int:
        """Offset below which records were on the disk, exclusive: higher ones cannot be acked."""
        return max(self.follower.log_end_offset, self._known_end)

    def _change(self, change: Callable[[], int]) -> int:
        """Change the group; mark it as unsure until the change is complete."""
        self._unsure.add(self.name)
        try:
            done = change()
        except OffsetsError:
            # The request is refused before any change.
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
        """Return the records that the group has not settled; settle offsets missing in the log."""
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
        """Settle removed and lost offsets: nothing can ack them, so they would block the floor."""
        now_ns = time.time_ns()

        def settle() -> int:
            expected = start
            done = 0
            for offset in [*offsets, end]:
                if offset > expected:
                    done += self.group.settle(expected, offset, now_ns)
                expected = offset + 1
            return done

        self._change(settle)
