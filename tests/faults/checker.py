"""Starts a server on what a crash left, and compares its state with the history."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pamqp.commands import Channel, Queue

from tests.faults.history import History, Life, Together
from tests.faults.inline_server import InlineClient, InlineServer

MISSING = ("log missing", "end of log missing", "group ahead of its log")
"""How the lines begin in which a start says that a checkpoint knows more than a log has."""
Content = list[tuple[bytes, bool]]
"""Bodies and redelivered flags, in order."""


@dataclass(slots=True)
class Found:
    """What a server has.

    Attributes:
        queues: What is in each queue that is there.
        offsets: By incarnation and offset: the bytes of the records in the logs.
        ends: By incarnation: the end of the log.
        bindings: Exchange, key and queue of each.
    """

    queues: dict[str, Content] = field(default_factory=dict)
    offsets: dict[str, dict[int, bytes]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    bindings: set[tuple[str, str, str]] = field(default_factory=set)


class Marks(Enum):
    """Which messages may be marked redelivered.

    EXACT: those that were delivered. KNOWN: those, behind a clean stop, or else all. TOO_MANY:
    those and others, behind a clean stop, or else all.
    """

    EXACT = 1
    KNOWN = 2
    TOO_MANY = 3


class Warnings(logging.Handler):
    """Collects what is logged above the level of information."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, unless it is about time: a busy machine stalls any loop."""
        line = record.getMessage()
        if not line.startswith("event loop stalled"):
            self.lines.append(line)

    def __enter__(self) -> Warnings:
        """Listen."""
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        logging.getLogger().removeHandler(self)


def check(
    storage_path: Path,
    history: History,
    at: int,
    *,
    is_exact: bool = False,
    may_be_marked: bool = False,
) -> None:
    """Start twice on a data directory and check all that was promised.

    Args:
        storage_path: What a crash left; it is changed.
        history: What the client knew.
        at: Operation in which the crash came.
        is_exact: Whether it was no crash but a clean stop.
        may_be_marked: Whether more may be marked redelivered than was delivered: what a disk that
            failed left in a log.
    """
    with Warnings() as warnings, InlineServer(storage_path) as server:
        first = look(server, history)
        added = add_one_to_each(server, first)
    check_nothing_is_missing(warnings)
    _check_offsets(history, first, at)
    for name in {life.name for life in history.lives}:
        allowed = Marks.EXACT if is_exact else Marks.TOO_MANY if may_be_marked else Marks.KNOWN
        _check_queue(history, name, first, at, allowed)
    for together in history.transactions:
        if together.begun <= at:
            _check_whole(history, together, first, at)
    _check_moves(history, first, at)
    lost = {each for each, span in history.bindings.items() if span.must(at)} - first.bindings
    assert not lost, f"bindings are lost: {lost}"
    with ExitStack() as stack:
        with Warnings() as warnings:
            server = stack.enter_context(InlineServer(storage_path))
        assert not warnings.lines, f"the second start is not clean: {warnings.lines}"
        second = look(server, history)
    for name, content in first.queues.items():
        again = [(body, True) for body, _ in content] + [(body, False) for body in added[name]]
        assert second.queues[name] == again, f"{name}: another start finds something else"
    _check_nothing_reused(first, second)


def check_nothing_is_missing(warnings: Warnings) -> None:
    """Check that no log ends before where a checkpoint knows it to have been on the disk."""
    false = [line for line in warnings.lines if line.startswith(MISSING)]
    assert not false, f"no file was touched, and a log is said to be gone: {false}"


def look(server: InlineServer, history: History) -> Found:
    """Return what is in all queues; it is still there afterwards, and was delivered."""
    found = Found()
    for queue in server.server.broker.queues():
        log = queue.store.log
        incarnation = str(queue.incarnation)
        result = log.read(0, 1 << 30, 1 << 20)
        found.offsets[incarnation] = dict(
            zip(result.offsets, map(bytes, result.messages), strict=True)
        )
        found.ends[incarnation] = log.log_end_offset
    for exchange in server.server.broker.vhosts["/"].exchanges.values():
        found.bindings |= {
            (each.source, each.routing_key, each.destination) for each in exchange.bindings
        }
    client = server.connect()
    for name in sorted({life.name for life in history.lives}):
        client.open_channel(2)
        answer = client.call(Queue.Declare(queue=name, passive=True), channel=2)
        if isinstance(answer, Channel.Close):
            assert answer.reply_code == 404, answer.reply_text
            assert "damaged" not in (answer.reply_text or ""), answer.reply_text
            continue
        client.call(Channel.Close(200, "", 0, 0), channel=2)
        found.queues[name] = _take_all(client, name)
    client.hang_up()
    server.settle()
    return found


def _take_all(client: InlineClient, name: str) -> Content:
    return [(body, is_redelivered) for _, is_redelivered, body in client.consume_all(name)]


def add_one_to_each(server: InlineServer, found: Found) -> dict[str, list[bytes]]:
    """Publish one message to every queue; it is confirmed. Return the bodies."""
    client = server.connect()
    client.open_channel(2, confirms=True)
    for name in found.queues:
        client.publish(b"added to " + name.encode(), name, channel=2)
    server.settle()
    assert client.confirmed == set(range(1, len(found.queues) + 1)), "a recovered queue is dead"
    client.hang_up()
    server.settle()
    return {name: [b"added to " + name.encode()] for name in found.queues}


def _check_queue(history: History, name: str, found: Found, at: int, allowed: Marks) -> None:
    lives = history.named(name)
    content = found.queues.get(name)
    if content is None:
        is_lost = any(life.must(at) and not life.is_unsure for life in lives)
        assert not is_lost, f"queue {name} is lost"
        return
    if history.is_unsure(name):
        _check_unsure(lives, content)
        return
    possible = [life for life in lives if life.may(at)]
    assert possible, f"queue {name} is back"
    reasons = []
    for life in possible:
        reason = _against(history, life, content, at, allowed)
        if reason is None:
            return
        reasons.append(reason)
    raise AssertionError("\n".join(reasons))


def _check_unsure(lives: list[Life], content: Content) -> None:
    """Check a queue whose declaration or deletion was refused: it may be any of that name."""
    bodies = [body for body, _ in content]
    known = {placed.body for life in lives for placed in life.placed if placed.is_persistent}
    assert set(bodies) <= known, f"unexpected {_short(bodies)}"
    assert len(set(bodies)) == len(bodies), f"twice the same message: {_short(bodies)}"


def _against(history: History, life: Life, content: Content, at: int, allowed: Marks) -> str | None:
    """Return why this cannot be what is left of a queue; None if it can."""
    bodies = [body for body, _ in content]
    expected = [placed for placed in life.placed if placed.is_persistent and placed.may(at)]
    if len(set(bodies)) < len(bodies):
        return f"{life.name}: twice the same message: {_short(bodies)}"
    by_body = {placed.body: placed for placed in expected}
    unexpected = [body for body in bodies if body not in by_body]
    if unexpected:
        return f"{life.name}: unexpected {_short(unexpected)}"
    lost = [each.body for each in expected if each.must(at) and each.body not in set(bodies)]
    if lost:
        return f"{life.name}: lost {_short(lost)}, found {_short(bodies)}"
    # What was refused and is there all the same may have been carried out by the next start.
    ordered = [each.body for each in expected if each.sure <= at and not each.is_late]
    order = [body for body in ordered if body in set(bodies)]
    if [body for body in bodies if body in set(ordered)] != order:
        return f"{life.name}: disordered {_short(bodies)}"
    exact = [by_body[body].delivered <= at for body in bodies]
    flags = [flag for _, flag in content]
    is_clean = any(start <= at <= end for start, end in history.clean)
    is_known = flags == exact
    if allowed is Marks.TOO_MANY:
        is_known = all(flag or not was for flag, was in zip(flags, exact, strict=True))
    if not (is_known and is_clean) and (allowed is Marks.EXACT or not all(flags)):
        return f"{life.name}: redelivered flags {flags}, exactly {exact}"
    return None


def _check_whole(history: History, together: Together, found: Found, at: int) -> None:
    """Check that a transaction is there as a whole or not at all, as far as one can still see."""
    present = {
        (life.name, body) for life in history.lives for body, _ in found.queues.get(life.name, [])
    }
    coming = [each for each in together.coming if at < each.ending]
    going = [each for each in together.going if at < min(each.gone, each.dropped_again)]
    seen = {
        ((each.queue, each.body) in present) == (each in coming)
        for each in (*coming, *going)
        if not history.is_unsure(each.queue)
    }
    bodies = [each.body for each in together.coming]
    assert len(seen) <= 1, f"a part of the transaction {_short(bodies)}"


def _check_moves(history: History, found: Found, at: int) -> None:
    """Check that what is on its way from one queue to another is in one of them at least."""
    for life in history.lives:
        if life.ending <= at or history.is_unsure(life.name):
            continue
        there = {body for body, _ in found.queues.get(life.name, [])}
        for placed in life.placed:
            copy = placed.waits_for
            if copy is None or history.is_unsure(copy.queue) or not placed.sure <= at:
                continue
            if copy.ending <= at or placed.dropped <= at:
                continue
            copies = {body for body, _ in found.queues.get(copy.queue, [])}
            assert placed.body in there | copies, f"lost on its way: {_short([placed.body])}"


def _check_offsets(history: History, found: Found, at: int) -> None:
    """Check I9: what had been published under an offset is there under no other content."""
    for incarnation, records in history.offsets.items():
        if incarnation not in found.ends:
            continue
        published = {o: body for o, (stamp, body) in records.items() if stamp <= at}
        assert found.ends[incarnation] > max(published, default=-1), "I9: offsets are free again"
        for offset, body in published.items():
            assert found.offsets[incarnation].get(offset, body) == body, f"I9: {offset} reused"


def _check_nothing_reused(first: Found, second: Found) -> None:
    for incarnation, end in first.ends.items():
        assert second.ends[incarnation] > end
        for offset, body in first.offsets[incarnation].items():
            assert second.offsets[incarnation].get(offset, body) == body


def _short(bodies: list[bytes]) -> list[str]:
    return [body[:24].decode(errors="replace") for body in bodies]
