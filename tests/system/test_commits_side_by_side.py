"""Commits of several clients at once: each is answered, each is in the journal when it is answered.

The record of a commit is made in steps. A test stops it before one of them, and lets other clients
commit: their records are written while the first one is not complete.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Tx

from offsets import RedoTransaction
from tests.amqp_client import AmqpClient, connect
from tests.cutting import cut_everywhere
from tests.limits import HANG_SECONDS
from tests.system.stopped_record import StoppedRecord
from tests.threaded_server import ThreadedServer

QUEUES = ["q0", "q1", "q2"]
BODIES = [b"one", b"two"]


@pytest.fixture(autouse=True)
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_everywhere(monkeypatch)


def transaction(server: ThreadedServer, bodies: list[bytes], queues: list[str]) -> AmqpClient:
    """Return a client with a transaction that is not committed."""
    client = connect(server.address)
    client.open_channel()
    client.call(Tx.Select(), Tx.SelectOk)
    for name in queues:
        for body in bodies:
            client.publish(body, name)
    return client


def drained(client: AmqpClient, queue: str) -> list[bytes]:
    bodies = []
    while (message := client.get(queue)) is not None:
        bodies.append(message.body)
    return bodies


def commit_beside_each_step(
    server: ThreadedServer, stopped: StoppedRecord, large: list[bytes]
) -> Iterator[tuple[int, AmqpClient, AmqpClient]]:
    """Commit while a larger record stops before each step; yield the step and both clients."""
    for step in range(1000):
        with (
            transaction(server, large, QUEUES) as slow,
            transaction(server, [b"beside"], ["side"]) as quick,
        ):
            stopped.before(step)
            slow.send(Tx.Commit())
            assert stopped.has_stopped.wait(HANG_SECONDS)
            quick.call(Tx.Commit(), Tx.CommitOk)
            stopped.go_on()
            slow.expect(Tx.CommitOk)
            yield step, slow, quick
        if not stopped.is_long_enough:
            assert step > len(QUEUES)
            return
    pytest.fail("the record has no end")


def test_a_commit_is_answered_though_others_commit_while_its_record_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = StoppedRecord(monkeypatch)
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as owner:
        owner.open_channel()
        for name in (*QUEUES, "side"):
            owner.declare(name)
        for _, slow, quick in commit_beside_each_step(server, stopped, BODIES):
            for name in QUEUES:
                assert drained(slow, name) == BODIES
            assert drained(quick, "side") == [b"beside"]


def test_what_is_answered_was_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of a round and its write, a record came that the round answered, too."""
    stopped = StoppedRecord(monkeypatch)
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as owner:
        owner.open_channel()
        for name in (*QUEUES, "side"):
            owner.declare(name)
        written: list[int] = []
        journal = server.server.journal
        write = journal.write
        is_begun, may_end = threading.Event(), threading.Event()
        may_end.set()

        def slow_write(number: int, records: list[RedoTransaction]) -> None:
            written.append(sum(len(record.messages) for record in records))
            is_begun.set()
            assert may_end.wait(HANG_SECONDS)
            write(number, records)

        monkeypatch.setattr(type(journal), "write", lambda _, *given: slow_write(*given))
        with (
            transaction(server, BODIES, QUEUES) as slow,
            transaction(server, [b"beside"], ["side"]) as quick,
        ):
            stopped.before(1)
            slow.send(Tx.Commit())
            assert stopped.has_stopped.wait(HANG_SECONDS)
            may_end.clear()
            is_begun.clear()
            quick.send(Tx.Commit())
            # The round of the second commit is being written when the first record is complete.
            assert is_begun.wait(HANG_SECONDS)
            stopped.go_on()
            server.wait_until(lambda: not server.server.broker.turn.jobs)
            may_end.set()
            quick.expect(Tx.CommitOk)
            slow.expect(Tx.CommitOk)
            assert sum(written) == len(QUEUES) * len(BODIES) + 1


def test_messages_that_were_acked_in_it_do_not_stay_unacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = StoppedRecord(monkeypatch)
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as owner:
        owner.open_channel()
        for name in (*QUEUES, "side", "acked"):
            owner.declare(name)
        with (
            transaction(server, BODIES, QUEUES) as slow,
            transaction(server, [b"beside"], ["side"]) as quick,
        ):
            owner.publish(b"to be acked", "acked")
            server.wait_until(lambda: ready(server, "acked") == 1)
            message = slow.get("acked", no_ack=False)
            assert message is not None
            slow.send(Basic.Ack(delivery_tag=message.tag))
            stopped.before(1)
            slow.send(Tx.Commit())
            assert stopped.has_stopped.wait(HANG_SECONDS)
            quick.call(Tx.Commit(), Tx.CommitOk)
            # Nobody waits for the answer; it is a commit all the same.
            slow.socket.close()
            stopped.go_on()
            server.wait_until(lambda: ready(server, QUEUES[0]) == len(BODIES))
        assert owner.get("acked") is None
        queue = server.server.broker.vhosts["/"].queues["acked"]
        server.wait_until(lambda: queue.unacked_count == 0)


def ready(server: ThreadedServer, name: str) -> int:
    """Return how many messages of a queue are ready."""
    return server.server.broker.vhosts["/"].queues[name].ready_count


def test_the_stop_waits_for_a_commit_whose_record_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = StoppedRecord(monkeypatch)
    server = ThreadedServer(tmp_path / "data")
    with server:
        with connect(server.address) as owner:
            owner.open_channel()
            for name in (*QUEUES, "side"):
                owner.declare(name)
        slow = transaction(server, BODIES, QUEUES)
        quick = transaction(server, [b"beside"], ["side"])
        stopped.before(1)
        slow.send(Tx.Commit())
        assert stopped.has_stopped.wait(HANG_SECONDS)
        quick.call(Tx.Commit(), Tx.CommitOk)
        stopped.go_on()
        server.stop()
        slow.socket.close()
        quick.socket.close()
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as reader:
        reader.open_channel()
        assert [drained(reader, name) for name in QUEUES] == [BODIES] * len(QUEUES)
