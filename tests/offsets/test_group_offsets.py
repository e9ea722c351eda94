"""Where a consumer group is, and what may move it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from offsets import (
    GroupInUseError,
    GroupOffsetOutOfRangeError,
    GroupOffsets,
    InvalidGroupNameError,
    RegressingCommitError,
    TooManyGroupsError,
    UnknownGroupError,
    check_group_name,
)

NOW_NS = 1_790_000_000_000_000_000
END = 3000
places = st.integers(0, 60) | st.integers(0, END)


def started(offset: int) -> GroupOffsets:
    group = GroupOffsets("billing")
    group.start_at(offset, NOW_NS)
    group.changed = False
    return group


def committed(offset: int) -> GroupOffsets:
    group = GroupOffsets("billing")
    group.commit(offset, 0, END, NOW_NS)
    group.changed = False
    return group


def story_of(group: GroupOffsets) -> tuple[object, ...]:
    return (
        group.committed,
        group.start,
        group.commit_floor,
        group.settlement.ranges(),
        group.dropped_total,
        group.dropped_since_last_poll,
        group.redelivered,
        group.updated_at_ns,
        group.changed,
    )


def test_no_commit_is_none_and_a_commit_of_0_is_0() -> None:
    group = GroupOffsets("billing")
    assert (group.committed, group.start, group.commit_floor) == (None, None, None)
    group.commit(0, 0, END, NOW_NS)
    assert (group.committed, group.start, group.commit_floor) == (0, 0, 0)


def test_a_group_that_only_has_a_start_has_no_commit() -> None:
    group = GroupOffsets("billing")
    group.start_at(0, NOW_NS)
    assert (group.committed, group.start) == (None, 0)
    assert group.changed
    assert group.updated_at_ns == NOW_NS


@pytest.mark.parametrize("start", [0, 7])
def test_the_first_ack_makes_the_floor_a_commit_also_one_out_of_order(start: int) -> None:
    group = started(start)
    assert group.settle(start + 5, start + 6, NOW_NS + 1) == 1
    assert group.committed == start
    assert group.settlement.ranges() == [(start + 5, start + 6)]
    assert group.changed
    assert group.updated_at_ns == NOW_NS + 1


def test_a_commit_of_the_start_is_a_commit() -> None:
    group = started(7)
    assert group.commit(7, 0, END, NOW_NS + 1) == 0
    assert group.committed == 7
    assert group.changed


def test_acks_move_the_commit_over_what_was_acked_ahead() -> None:
    group = started(10)
    group.settle(12, 15, NOW_NS)
    assert group.settle(10, 12, NOW_NS) == 2
    assert group.committed == 15


def test_acks_that_come_twice_change_nothing() -> None:
    group = started(10)
    group.settle(10, 12, NOW_NS)
    group.settle(20, 22, NOW_NS)
    group.changed = False
    before = story_of(group)
    assert group.settle(10, 12, NOW_NS + 1) == group.settle(20, 22, NOW_NS + 1) == 0
    assert story_of(group) == before


def test_acks_without_a_floor_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        GroupOffsets("billing").settle(0, 1, NOW_NS)


def test_a_second_start_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        started(5).start_at(6, NOW_NS)


def test_the_same_commit_again_is_fine_and_changes_nothing() -> None:
    group = committed(10)
    before = story_of(group)
    assert group.commit(10, 0, END, NOW_NS + 1) == 0
    assert story_of(group) == before


def test_the_same_commit_again_is_fine_though_acked_ranges_took_the_floor_on() -> None:
    group = committed(10)
    group.settle(12, 15, NOW_NS)
    assert group.commit(12, 0, END, NOW_NS) == 2
    assert group.committed == 15
    assert group.commit(12, 0, END, NOW_NS) == group.commit(14, 0, END, NOW_NS) == 0
    assert group.committed == 15
    with pytest.raises(RegressingCommitError):
        group.commit(11, 0, END, NOW_NS)


@pytest.mark.parametrize("attempted", [-1, 0, 9])
def test_a_lower_commit_is_refused_and_changes_nothing(attempted: int) -> None:
    group = committed(10)
    before = story_of(group)
    with pytest.raises(RegressingCommitError) as caught:
        group.commit(attempted, 0, END, NOW_NS + 1)
    error = caught.value
    assert (error.group, error.current, error.attempted) == ("billing", 10, attempted)
    assert str(error) == (
        f"group 'billing': a commit of offset {attempted} would go back from 10; "
        "10 or higher is expected, and a seek goes back"
    )
    assert story_of(group) == before


def test_a_commit_below_what_was_acked_or_begun_with_is_refused() -> None:
    group = started(10)
    with pytest.raises(RegressingCommitError):
        group.commit(9, 0, END, NOW_NS)
    assert group.committed is None
    group.settle(10, 20, NOW_NS)
    with pytest.raises(RegressingCommitError) as caught:
        group.commit(19, 0, END, NOW_NS)
    assert caught.value.current == 20


def test_a_commit_settles_what_is_below_it() -> None:
    group = started(10)
    group.settle(12, 13, NOW_NS)
    assert group.commit(20, 0, END, NOW_NS + 1) == 9
    assert group.committed == 20
    assert group.updated_at_ns == NOW_NS + 1
    assert group.commit(20, 0, END, NOW_NS + 2) == 0
    assert group.updated_at_ns == NOW_NS + 1


@pytest.mark.parametrize("group", [GroupOffsets("billing"), committed(10)])
def test_a_commit_beyond_the_end_is_refused_and_names_what_is_valid(group: GroupOffsets) -> None:
    before = story_of(group)
    with pytest.raises(GroupOffsetOutOfRangeError) as caught:
        group.commit(51, 5, 50, NOW_NS + 1)
    error = caught.value
    assert (error.group, error.offset) == ("billing", 51)
    assert (error.log_start_offset, error.log_end_offset) == (5, 50)
    assert str(error) == "group 'billing': offset 51 is out of range; 5 to 50 is expected"
    assert story_of(group) == before


def test_a_commit_of_the_end_says_that_all_is_done() -> None:
    group = committed(10)
    assert group.commit(50, 5, 50, NOW_NS) == 40
    assert group.lag(50) == 0


def test_a_first_commit_below_the_logs_start_is_refused() -> None:
    group = GroupOffsets("billing")
    with pytest.raises(GroupOffsetOutOfRangeError):
        group.commit(4, 5, 50, NOW_NS)
    assert group.committed is None
    assert not group.changed


def test_a_commit_that_retention_has_overtaken_is_fine() -> None:
    group = committed(5)
    assert group.drop_below(10) == 5
    assert group.commit(8, 10, 50, NOW_NS) == 0
    assert group.committed == 10
    with pytest.raises(RegressingCommitError):
        group.commit(7, 10, 50, NOW_NS)


@pytest.mark.parametrize("target", [0, 5, 10, 49, 50])
def test_a_seek_goes_anywhere_and_forgets_what_was_acked_ahead(target: int) -> None:
    group = committed(10)
    group.settle(20, 30, NOW_NS)
    group.changed = False
    group.seek(target, 0, 50, NOW_NS + 1)
    assert group.committed == group.start == group.commit_floor == target
    assert group.settlement.ranges() == []
    assert group.changed
    assert group.updated_at_ns == NOW_NS + 1


def test_a_seek_of_a_group_without_a_place_commits_it() -> None:
    group = GroupOffsets("billing")
    group.seek(0, 0, 50, NOW_NS)
    assert group.committed == 0


@pytest.mark.parametrize("target", [-1, 0, 4, 51])
def test_a_seek_out_of_the_log_is_refused_and_changes_nothing(target: int) -> None:
    group = committed(10)
    group.settle(20, 30, NOW_NS)
    before = story_of(group)
    with pytest.raises(GroupOffsetOutOfRangeError) as caught:
        group.seek(target, 5, 50, NOW_NS + 1)
    assert caught.value.offset == target
    assert story_of(group) == before


def test_what_would_be_refused_can_be_asked_without_a_change() -> None:
    group = committed(10)
    group.changed = False
    before = story_of(group)
    group.check_commit(50, 5, 50)
    group.check_seek(5, 5, 50)
    with pytest.raises(RegressingCommitError):
        group.check_commit(9, 5, 50)
    with pytest.raises(GroupOffsetOutOfRangeError):
        group.check_commit(51, 5, 50)
    with pytest.raises(GroupOffsetOutOfRangeError):
        group.check_seek(51, 5, 50)
    assert story_of(group) == before


def test_what_retention_took_before_the_group_was_done_is_counted() -> None:
    group = committed(10)
    group.settle(12, 15, NOW_NS)
    group.changed = False
    assert group.drop_below(10) == 0
    assert not group.changed
    assert group.drop_below(14) == 2
    assert group.changed
    assert group.committed == 15
    assert group.drop_below(20) == 5
    assert (group.dropped_total, group.dropped_since_last_poll) == (7, 7)
    assert group.updated_at_ns == NOW_NS


def test_each_poll_is_told_what_was_dropped_since_the_last() -> None:
    group = committed(0)
    group.drop_below(3)
    group.changed = False
    assert group.take_dropped() == 3
    assert group.changed
    group.changed = False
    assert group.take_dropped() == 0
    assert not group.changed
    group.drop_below(5)
    assert group.take_dropped() == 2
    assert group.dropped_total == 5


def test_a_group_that_has_only_begun_loses_messages_and_still_has_no_commit() -> None:
    group = started(3)
    assert group.drop_below(10) == 7
    assert (group.committed, group.start) == (None, 10)


def test_a_group_without_a_place_loses_nothing() -> None:
    group = GroupOffsets("billing")
    assert group.drop_below(10) == 0
    assert group.start is None
    assert not group.changed


def test_lag_is_what_lies_between_the_commit_and_the_end() -> None:
    group = committed(10)
    group.settle(12, 15, NOW_NS)
    assert group.lag(50) == 40
    assert group.lag(50, log_start=20) == 30
    assert group.lag(5) == 0
    assert started(7).lag(50) == 43
    assert GroupOffsets("billing").lag(50, log_start=8) == 42


def test_redelivered_messages_are_counted() -> None:
    group = started(0)
    group.note_redelivered(0)
    assert not group.changed
    group.note_redelivered(3)
    group.note_redelivered(2)
    assert group.redelivered == 5
    assert group.changed


@pytest.mark.parametrize(
    "name",
    ["a", "a:b", "a/b", "../x", "a b", "'", "%", "日本語", "é" * 127, "x" * 255, "\N{ROCKET}"],
)
def test_any_readable_name_is_a_name(name: str) -> None:
    assert GroupOffsets(name).name == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        ("x" * 256, "has 256 bytes"),
        ("é" * 128, "has 256 bytes"),
        ("a\0", "has a control character"),
        ("a\nb", "has a control character"),
        ("\x7f", "has a control character"),
        ("\x85", "has a control character"),
        ("\ud800", "is not UTF-8"),
    ],
)
def test_what_is_no_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidGroupNameError) as caught:
        GroupOffsets(name)
    assert (caught.value.group, caught.value.reason) == (name, reason)
    assert str(caught.value) == (
        f"group name {name[:64]!a} {reason}: "
        "1 to 255 bytes of UTF-8 without control characters are expected"
    )


@given(st.text(max_size=100))
def test_a_name_is_taken_or_refused_with_its_own_error(name: str) -> None:
    try:
        check_group_name(name)
    except InvalidGroupNameError as error:
        assert error.group == name  # noqa: PT017 - most names are taken
    else:
        assert 1 <= len(name.encode()) <= 255


def test_what_holds_groups_says_why_it_refuses() -> None:
    log = "queue 'events' in vhost '/'"
    unknown = UnknownGroupError("g", log)
    assert str(unknown) == "no group 'g' on queue 'events' in vhost '/'"
    assert (unknown.group, unknown.log) == ("g", log)
    used = GroupInUseError("g", log, 1)
    assert str(used) == "group 'g' on queue 'events' in vhost '/' is in use by 1 consumer"
    assert (used.group, used.log, used.members) == ("g", log, 1)
    assert str(GroupInUseError("g", log, 2)).endswith("by 2 consumers")
    full = TooManyGroupsError("g", log, 10_000)
    assert str(full) == (
        "no room for group 'g' on queue 'events' in vhost '/': "
        "it has 10000 groups, as many as a log may have"
    )
    assert (full.group, full.log, full.groups_max) == ("g", log, 10_000)


class GroupMachine(RuleBasedStateMachine):
    """Anything that can happen to a group, against the set of what it is done with."""

    def __init__(self) -> None:
        super().__init__()
        self.group = GroupOffsets("billing")
        self.done: set[int] | None = None
        self.begin = self.log_start = self.dropped = self.polled = 0
        self.lowest_commit = 0
        self.is_committed = False

    @property
    def floor(self) -> int:
        assert self.done is not None
        floor = self.begin
        while floor in self.done:
            floor += 1
        return floor

    def _place(self, offset: int) -> None:
        self.begin = self.lowest_commit = offset
        self.done = set()

    @precondition(lambda self: self.done is None)
    @rule(offset=places)
    def start(self, offset: int) -> None:
        self.group.start_at(offset, NOW_NS)
        self._place(offset)

    @precondition(lambda self: self.done is not None)
    @rule(start=places, count=st.integers(0, 30))
    def settle(self, start: int, count: int) -> None:
        assert self.done is not None
        new = set(range(max(start, self.begin), start + count)) - self.done
        floor = self.floor
        assert self.group.settle(start, start + count, NOW_NS) == len(new)
        self.done |= new
        self.is_committed |= bool(new)
        if self.floor != floor:
            self.lowest_commit = self.floor

    @rule(offset=places | st.just(END + 1))
    def commit(self, offset: int) -> None:
        before = story_of(self.group)
        try:
            self.group.commit(offset, self.log_start, END, NOW_NS)
        except RegressingCommitError:
            assert self.done is not None
            assert offset < self.lowest_commit
            assert story_of(self.group) == before
            return
        except GroupOffsetOutOfRangeError:
            assert offset > END or (offset < self.log_start and self.done is None)
            assert story_of(self.group) == before
            return
        assert offset <= END
        if self.done is None:
            assert offset >= self.log_start
            self._place(offset)
        else:
            assert offset >= self.lowest_commit
            self.done |= set(range(self.begin, offset))
            self.lowest_commit = offset
        self.is_committed = True

    @rule(offset=places | st.just(END + 1))
    def seek(self, offset: int) -> None:
        before = story_of(self.group)
        try:
            self.group.seek(offset, self.log_start, END, NOW_NS)
        except GroupOffsetOutOfRangeError:
            assert not self.log_start <= offset <= END
            assert story_of(self.group) == before
            return
        assert self.log_start <= offset <= END
        self._place(offset)
        self.is_committed = True

    @rule(count=st.integers(0, 200))
    def retain(self, count: int) -> None:
        self.log_start = min(self.log_start + count, END)
        lost: set[int] = set()
        if self.done is not None:
            lost = set(range(self.begin, self.log_start)) - self.done
            self.done |= lost
        assert self.group.drop_below(self.log_start) == len(lost)
        self.dropped += len(lost)

    @rule()
    def poll(self) -> None:
        assert self.group.take_dropped() == self.dropped - self.polled
        self.polled = self.dropped

    @invariant()
    def they_say_the_same(self) -> None:
        assert self.group.dropped_total == self.dropped
        if self.done is None:
            assert self.group.start is self.group.committed is None
            return
        floor = self.floor
        assert self.group.start == floor
        assert self.group.committed == (floor if self.is_committed else None)
        assert self.group.commit_floor == self.lowest_commit <= floor
        above = {offset for offset in self.done if offset > floor}
        assert self.group.settlement.settled_above_floor == len(above)
        assert all(map(self.group.settlement.is_settled, above))


TestGroupMachine = GroupMachine.TestCase
