"""Consumer groups under any interleaving, against sets of offsets that say what must happen.

The server is whole, with its real files and its real recovery, on a loop that runs in this
thread: so the model knows after every step what each group must have been given, and in which
order. A kill is a start on a copy of the files as they are at that moment.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pamqp.commands import Basic, Channel, Queue

from amqp_server.broker.subscriptions.groups import Groups
from tests.faults.inline_loop import BEGIN_NS
from tests.faults.inline_server import InlineClient, InlineServer
from tests.groups.member import SHORT_LIVED, STREAM, Delivery, Member, join
from tests.groups.model import ModelGroup

IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
EXAMPLES: Final = settings().max_examples * 3 // 5 if IS_LONG else 40
GROUPS: Final = ("a", "b", "g/ü")
AGE_SECONDS: Final = 3600
anything = st.integers(0, 1000)
seldom = st.integers(0, 3).map(lambda number: number == 3)


class GroupMachine(RuleBasedStateMachine):
    """Each rule does one thing, and then the model and what was delivered must agree.

    Attributes:
        server: The one that runs now.
        publisher: Its connection.
        members: All consumers of groups.
        groups: Those that there are, by name.
        bodies: What was published, by offset.
        times_ns: When, by offset.
        log_start: Where the log begins.
        durable: What was done of each group at the last checkpoint, by name.
    """

    server: InlineServer
    publisher: InlineClient

    @initialize(seed=st.integers(0, 3))
    def begin(self, seed: int) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="groups-"))
        self._lives = count()
        self._seed = seed
        self._passed_seconds = 0.0
        self.members: list[Member] = []
        self.groups: dict[str, ModelGroup] = {}
        self.bodies: list[bytes] = []
        self.times_ns: list[int] = []
        self.log_start = 0
        self.durable: dict[str, set[int]] = {}
        self._start(self._root / "0")
        arguments: dict[str, Any] = {**SHORT_LIVED}
        declare = Queue.Declare(queue=STREAM, durable=True, arguments=arguments)
        assert isinstance(self.publisher.call(declare), Queue.DeclareOk)

    # What clients do

    @rule(number=st.integers(1, 12))
    def publish(self, number: int) -> None:
        for _ in range(number):
            body = b"%d " % len(self.bodies) + b"." * 150
            self.publisher.publish(body, STREAM)
            self.bodies.append(body)
            self.times_ns.append(BEGIN_NS + int(self.server.loop.passed_seconds * 1e9))
        self._look()
        self._pass_time(1)

    @rule(
        name=st.sampled_from(GROUPS),
        prefetch=st.integers(1, 5),
        start=st.sampled_from(["first", "next", "offset", None]),
        at=anything,
        reset=seldom,
    )
    def join(self, name: str, prefetch: int, start: str | None, at: int, reset: bool) -> None:
        if len(self.members) >= 6:
            return
        end = len(self.bodies)
        place = {"first": self.log_start, "next": end, None: end}.get(start, at % (end + 1))
        arguments: dict[str, Any] = {"x-offset-reset": True} if reset else {}
        if start is not None:
            arguments["x-stream-offset"] = place if start == "offset" else start
        is_used = any(member.group == name for member in self.members)
        answer = join(self.server, name, prefetch, arguments)
        if isinstance(answer, Channel.Close):
            assert is_used, f"refused: {answer.reply_text}"
            assert reset, f"refused: {answer.reply_text}"
            assert answer.reply_code == 406
            return
        assert not (is_used and reset), "a group in use was moved"
        self.members.append(answer)
        group = self.groups.get(name)
        if group is None:
            self.groups[name] = ModelGroup(name, place)
            self._note_durable()
        elif reset:
            group.move(place)
            self._note_durable()
        self._look()

    @rule(at=anything, how=st.sampled_from(["cancel", "channel", "connection"]))
    def leave(self, at: int, how: str) -> None:
        if not self.members:
            return
        member = self.members[at % len(self.members)]
        if how == "cancel":
            assert isinstance(member.client.call(Basic.Cancel("c")), Basic.CancelOk)
            self._look()
        if how != "connection":
            member.client.call(Channel.Close(200, "", 0, 0))
        self._forget(member)
        member.client.hang_up()
        self._look()

    @rule(
        at=anything,
        which=anything,
        multiple=st.booleans(),
        outcome=st.sampled_from(["ack", "ack", "ack", "requeue", "reject"]),
    )
    def answer(self, at: int, which: int, multiple: bool, outcome: str) -> None:
        busy = [member for member in self.members if member.unacked]
        if not busy:
            return
        member = busy[at % len(busy)]
        tags = sorted(member.unacked)
        tag = tags[which % len(tags)]
        taken = [each for each in tags if each == tag or (multiple and each < tag)]
        if outcome == "ack":
            member.client.send(Basic.Ack(tag, multiple))
        else:
            member.client.send(Basic.Nack(tag, multiple, outcome == "requeue"))
        for each in taken:
            self._answered(member, each, is_done=outcome != "requeue")
        self._look()

    @rule(at=anything)
    def recover(self, at: int) -> None:
        busy = [member for member in self.members if member.unacked]
        if not busy:
            return
        member = busy[at % len(busy)]
        member.client.send(Basic.Recover(True))
        for each in sorted(member.unacked):
            self._answered(member, each, is_done=False)
        self.server.settle()
        member.client.take(Basic.RecoverOk)
        self._look()

    # A rule that has several names is chosen so much more often.
    answer_2 = answer_3 = answer_4 = answer_5 = answer
    publish_2 = publish_3 = publish
    join_2 = join_3 = join

    # What operators do

    @rule(name=st.sampled_from(GROUPS), at=anything, force=st.booleans())
    def seek(self, name: str, at: int, force: bool) -> None:
        group = self.groups.get(name)
        if group is None:
            return
        offset = self.log_start + at % (len(self.bodies) - self.log_start + 1)
        is_used = any(member.group == name for member in self.members)
        if is_used and not force:
            return
        self._groups().seek(self._queue(), name, offset, force=force)
        self._moved(group, offset)

    @rule(name=st.sampled_from(GROUPS), at=anything)
    def seek_to_a_time(self, name: str, at: int) -> None:
        group = self.groups.get(name)
        if group is None or not self.bodies:
            return
        timestamp_ns = self.times_ns[at % len(self.bodies)] + (at % 3 - 1)
        log = self._queue().store.log
        offset = log.first_offset_at(timestamp_ns)
        later = [each for each, time in enumerate(self.times_ns) if time >= timestamp_ns]
        expected = max(later[0] if later else len(self.bodies), self.log_start)
        assert max(offset, self.log_start) == expected
        self._groups().seek(self._queue(), name, expected, force=True)
        self._moved(group, expected)

    @rule(name=st.sampled_from(GROUPS), at=anything)
    def commit(self, name: str, at: int) -> None:
        group = self.groups.get(name)
        if group is None:
            return
        end = len(self.bodies)
        offset = group.floor + at % (end - group.floor + 1)
        self._groups().commit(self._queue(), name, offset)
        group.settled |= set(range(group.start, offset))
        group.outstanding = {each for each in group.outstanding if each >= offset}
        self._look()

    @rule(name=st.sampled_from(GROUPS), is_meant=seldom)
    def delete(self, name: str, is_meant: bool) -> None:
        if name not in self.groups or not is_meant:
            return
        if any(member.group == name for member in self.members):
            return
        self._groups().delete(name)
        del self.groups[name]
        self.checkpoint()

    def checkpoint(self) -> None:
        self.server.checkpoint()
        self._note_durable()
        self._look()

    @rule(times=st.sampled_from([0, 0, 1, 3]))
    def write_checkpoints(self, times: int) -> None:
        """Write some; three in a row after a long time, so that all that is old goes."""
        if times > 1:
            self._pass_time(AGE_SECONDS + 1)
        for _ in range(times):
            self.checkpoint()

    @rule(is_meant=seldom)
    def stop_and_start(self, is_meant: bool) -> None:
        if not is_meant:
            return
        self._forget_all()
        assert self.server.stop()
        self._start(self.server.server.config.storage_path)
        for group in self.groups.values():
            assert self._done(group.name) == group.done()
        self._note_durable()

    @rule(is_meant=seldom)
    def kill(self, is_meant: bool) -> None:
        """Go on with a copy of the files as they are now."""
        if not is_meant:
            return
        before = self.server.server.config.storage_path
        path = self._root / str(next(self._lives) + 1)
        shutil.copytree(before, path, ignore=shutil.ignore_patterns("control.sock"))
        self._forget_all()
        self.server.stop()
        shutil.rmtree(before)
        self._start(path)
        assert self._groups().names() == sorted(self.groups)
        for group in self.groups.values():
            self._go_on_after_kill(group)

    @invariant()
    def lag_is_what_is_left(self) -> None:
        if not hasattr(self, "server"):
            return
        for group in self.groups.values():
            found = self._groups().get(group.name).stats()
            end = len(self.bodies)
            assert found.lag == end - group.floor
            assert found.ready == len(group.ready(end))
            assert found.unacked == len(group.outstanding)

    def teardown(self) -> None:
        if hasattr(self, "server"):
            failed = sys.exc_info()[0] is not None
            if self.server.was_clean is None:
                is_clean = self.server.stop()
                assert is_clean or failed
            shutil.rmtree(self._root, ignore_errors=True)

    commit_2 = commit

    # The server

    def _start(self, path: Path) -> None:
        self.server = InlineServer(path, seed=self._seed)
        self.server.loop.pass_time(self._passed_seconds)
        self.server.__enter__()
        self.publisher = self.server.connect()
        self.publisher.open_channel(2, confirms=True)

    def _queue(self) -> Any:  # noqa: ANN401 - what it is does not matter here
        return self.server.server.broker.vhosts["/"].queues[STREAM]

    def _groups(self) -> Groups:
        groups = self._queue().groups
        assert isinstance(groups, Groups)
        return groups

    def _pass_time(self, seconds: float) -> None:
        self.server.loop.pass_time(seconds)
        self._passed_seconds += seconds

    def _done(self, name: str) -> set[int]:
        settlement = self._groups().get(name).offsets.settlement
        done = set(range(settlement.ack_floor))
        for start, end in settlement.ranges():
            done |= set(range(start, end))
        return done

    # The model

    def _note_durable(self) -> None:
        """Take note that all is on the disk."""
        self.durable = {group.name: group.done() for group in self.groups.values()}

    def _moved(self, group: ModelGroup, offset: int) -> None:
        """Take note of a seek; it is made durable."""
        group.move(offset)
        for member in self.members:
            if member.group == group.name:
                member.stale |= set(member.unacked)
                member.next_offset = 0
        self.checkpoint()

    def _answered(self, member: Member, tag: int, *, is_done: bool) -> None:
        offset = member.unacked.pop(tag)
        group = self.groups[member.group]
        if tag in member.stale:
            member.stale.discard(tag)
        elif is_done:
            group.settle(offset)
        else:
            group.requeue(offset)

    def _forget(self, member: Member) -> None:
        """Take note that a member is gone, and gives back what it has."""
        for tag in sorted(member.unacked):
            self._answered(member, tag, is_done=False)
        self.members.remove(member)

    def _forget_all(self) -> None:
        for member in tuple(self.members):
            self._forget(member)

    def _go_on_after_kill(self, group: ModelGroup) -> None:
        """Check what is left, and let the model go on from there."""
        end = len(self.bodies)
        now = self._done(group.name)
        assert self.durable[group.name] <= now, "a checkpoint was lost"
        assert now <= group.done(), "settled by nobody"
        offsets = self._groups().get(group.name).offsets
        group.start = offsets.settlement.ack_floor
        group.settled = {offset for offset in now if offset >= group.start}
        group.delivered = set(range(end))
        group.dropped = offsets.dropped_since_last_poll
        group.knows_returns = False

    def _look(self) -> None:
        """Let the server work, and check all that came."""
        self.server.settle()
        # Retention runs behind a round of checkpoints, which knows nothing of it yet.
        self.log_start = self._queue().settlement.ack_floor
        for group in self.groups.values():
            group.drop_below(self.log_start)
        end = len(self.bodies)
        came: dict[str, list[Delivery]] = {name: [] for name in self.groups}
        for member in self.members:
            for delivery in member.collect():
                came[member.group].append(delivery)
                member.unacked[delivery.tag] = delivery.offset
                if not delivery.redelivered:
                    assert delivery.offset >= member.next_offset, "I7: the order went back"
                    member.next_offset = delivery.offset + 1
            assert len(member.unacked) <= member.prefetch, "more than the prefetch"
        for name, deliveries in came.items():
            self._check(self.groups[name], deliveries, end)

    def _check(self, group: ModelGroup, deliveries: list[Delivery], end: int) -> None:
        ready = group.ready(end)
        offsets = sorted(each.offset for each in deliveries)
        assert offsets == ready[: len(offsets)], f"{group.name}: not what goes next"
        for each in deliveries:
            assert each.body == self.bodies[each.offset]
            assert each.redelivered == (each.offset in group.delivered)
            if group.knows_returns:
                assert each.delivery_count == group.returns.get(each.offset)
        told = [each for each in deliveries if each.dropped is not None]
        if deliveries:
            assert sum(each.dropped or 0 for each in told) == group.dropped, "dropped silently"
            assert len(told) <= 1
            group.dropped = 0
        group.outstanding |= set(offsets)
        group.delivered |= set(offsets)
        if len(ready) > len(offsets):
            able = [m for m in self.members if m.group == group.name and m.credit > 0]
            assert not able, f"{group.name} has {ready[len(offsets) :]}, and who takes it"


TestGroups = pytest.mark.timeout(0 if IS_LONG else 300)(GroupMachine.TestCase)
TestGroups.settings = settings(max_examples=EXAMPLES, stateful_step_count=60)
