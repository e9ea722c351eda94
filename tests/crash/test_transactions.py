"""A server that ends at any step of a commit applies all of it or nothing."""

import errno
import random
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Tx

from amqp_server.upkeep import committer
from appendlog import LogReader
from appendlog.files.filesystem import FileSystem
from appendlog.layout.message import PERSISTENT
from offsets.errors import OffsetsError
from tests.amqp_client import AmqpClient, connect
from tests.crash.moving import (
    MESSAGES,
    QUEUES,
    is_there,
    prepare,
    serve,
    take_all,
    transactional,
)
from tests.crash.power import Power, powered
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

OPERATIONS_MAX = 400

pytestmark = pytest.mark.crash


def test_a_commit_has_no_effect_before_its_record_is_on_the_disk(power: Power) -> None:
    power.gated = power.root / "transactions"
    with serve(power) as server:
        with connect(server.address) as client, connect(server.address) as watcher:
            prepare(client)
            power.sync_gate.clear()
            client.send(Tx.Commit())
            assert power.sync_waiting.wait(HANG_SECONDS)
            watcher.open_channel()
            assert [watcher.ready_count(queue) for queue in QUEUES] == [0, 1, 1]
            power.unplug()
            assert client.expect_channel_close(406).method_id == 20
            assert watcher.ready_count("source") == 3
            server.wait_until(lambda: not server.server.broker.transaction_budget.held_bytes)
        server.abandon()
    power.lose()
    with serve(Power(power.root)) as server:
        assert not is_there(server.address)


class HalfRefusing(FileSystem):
    """A disk that takes a file of the journal, then says that it has not, and keeps it."""

    is_refusing = False

    def sync_directory(self, path: Path) -> None:
        """Fail for the journal, after all was written."""
        self._refuse(path)
        super().sync_directory(path)

    def unlink(self, path: Path) -> None:
        """Fail for the journal."""
        self._refuse(path.parent)
        super().unlink(path)

    def _refuse(self, path: Path) -> None:
        if self.is_refusing and path.name == "transactions":
            raise OSError(errno.EIO, "Input/output error")


def commit_without_knowing(client: AmqpClient) -> None:
    """Commit a transaction that the disk takes, and denies."""
    client.send(Tx.Commit())
    text = client.expect_channel_close(406).reply_text
    assert "may or may not be committed" in text
    assert "not committed" not in text


def test_a_commit_that_cannot_be_undone_is_reported_as_unknown(tmp_path: Path) -> None:
    """The text was that it is not committed, and the next start carried it out."""
    filesystem = HalfRefusing()
    with ThreadedServer(tmp_path, filesystem) as server, connect(server.address) as client:
        prepare(client)
        filesystem.is_refusing = True
        commit_without_knowing(client)
        with transactional(server) as other:
            other.publish(b"later", "left")
            other.send(Tx.Commit())
            text = other.expect_channel_close(406).reply_text
            assert "transaction not committed: the redo journal could not be written" in text
    with ThreadedServer(tmp_path) as server:
        assert is_there(server.address)


def test_after_a_commit_of_unknown_outcome_the_journal_works_when_the_disk_does(
    tmp_path: Path,
) -> None:
    filesystem = HalfRefusing()
    with ThreadedServer(tmp_path, filesystem) as server, connect(server.address) as client:
        prepare(client)
        filesystem.is_refusing = True
        commit_without_knowing(client)
        filesystem.is_refusing = False
        with transactional(server) as other:
            other.publish(b"later", "left")
            other.call(Tx.Commit(), Tx.CommitOk)
            other.open_channel(2)
            later = other.get("left", channel=2), other.get("left", channel=2)
            assert [message and message.body for message in later] == [b"before", b"later"]


def test_a_channel_that_closes_during_a_commit_has_committed(power: Power) -> None:
    power.gated = power.root / "transactions"
    with serve(power) as server:
        with connect(server.address) as client:
            prepare(client)
            power.sync_gate.clear()
            client.send(Tx.Commit())
            assert power.sync_waiting.wait(HANG_SECONDS)
            (connection,) = server.server.connections
            server.call(lambda: connection.abandon("test"))
            server.wait_until(lambda: not server.server.connections)
        power.sync_gate.set()
        queues = server.call(lambda: server.server.broker.vhosts["/"].queues)
        server.wait_until(lambda: len(queues["left"].ready) > 1)
        assert is_there(server.address)


def test_a_stop_waits_for_the_commits_that_are_under_way(power: Power) -> None:
    power.gated = power.root / "transactions"
    with serve(power) as server, connect(server.address) as client:
        prepare(client)
        power.sync_gate.clear()
        client.send(Tx.Commit())
        assert power.sync_waiting.wait(HANG_SECONDS)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        client.await_connection_close()
        power.sync_gate.set()
        stopping.join()
    assert not list((power.root / "transactions").iterdir())
    with serve(Power(power.root)) as server:
        assert is_there(server.address)


@pytest.mark.parametrize("seed", [None, *range(5)])
def test_a_commit_is_kept_when_no_log_has_a_byte_of_it(power: Power, seed: int | None) -> None:
    with serve(power) as server:
        with connect(server.address) as client:
            prepare(client)
            power.sync_gate.clear()
            client.call(Tx.Commit(), Tx.CommitOk)
            assert power.sync_waiting.wait(HANG_SECONDS)
            power.unplug()
        server.abandon()
    power.lose(None if seed is None else random.Random(seed))
    for _ in range(2):
        again = Power(power.root)
        with serve(again) as server:
            assert is_there(server.address)
            again.unplug()
            server.abandon()
        again.lose()


def test_transient_messages_of_a_commit_are_kept_in_a_stream_that_has_no_byte_of_them(
    power: Power,
) -> None:
    with serve(power) as server:
        with transactional(server) as client:
            client.declare("s", arguments={"x-queue-type": "stream"})
            for body in (b"a", b"b"):
                client.publish(body, "s", properties=Basic.Properties(delivery_mode=1))
            client.call(Channel.Flow(active=True), Channel.FlowOk)
            power.sync_gate.clear()
            client.call(Tx.Commit(), Tx.CommitOk)
            assert power.sync_waiting.wait(HANG_SECONDS)
            power.unplug()
        server.abandon()
    power.lose()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        client.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
        found = [client.expect_delivery() for _ in range(2)]
        assert [each.body for each in found] == [b"a", b"b"]
    (directory,) = (power.root / "logs").glob("*/s/*")
    logged = [each for batch in LogReader(directory).read() for each in batch.messages]
    # A stream keeps transient messages too, and its log says that they are.
    assert [each[0] & PERSISTENT for each in logged] == [PERSISTENT] * 2


def test_a_commit_is_kept_when_one_log_fails_and_the_other_has_it(power: Power) -> None:
    with serve(power) as server:
        with connect(server.address) as client:
            prepare(client)
            power.broken = "/right/"
            client.call(Tx.Commit(), Tx.CommitOk)
            queues = server.call(lambda: server.server.broker.vhosts["/"].queues)
            server.wait_until(lambda: queues["right"].store.is_failed)
            server.wait_until(lambda: queues["left"].store.recovery_point == MESSAGES + 1)
            client.publish(b"refused", "left")
            client.publish(b"refused", "right")
            client.send(Tx.Commit())
            text = client.expect_channel_close(406).reply_text
            assert text == (
                "PRECONDITION_FAILED - transaction not committed: queue 'right' in vhost '/' is "
                "failed"
            )
        power.broken = None
        server.stop()
    with serve(Power(power.root)) as server:
        assert is_there(server.address)


@pytest.mark.parametrize("ending", ["killed", "power", "0", "1"])
def test_a_server_that_ends_at_any_operation_has_applied_all_of_a_commit_or_nothing(
    tmp_path: Path, ending: str
) -> None:
    outcomes: Counter[tuple[str, bool]] = Counter()
    for step in range(OPERATIONS_MAX):
        power = powered(tmp_path / str(step))
        with serve(power) as server:
            with connect(server.address) as client:
                prepare(client)
                power.fail_at = len(power.operations) + step
                answer = commit_and_settle(client, server)
                is_over = len(power.operations) <= power.fail_at
                power.unplug()
            server.abandon()
        if ending != "killed":
            power.lose(None if ending == "power" else random.Random(int(ending) + step))
        again = Power(power.root)
        with serve(again) as server:
            happened = is_there(server.address)
        # What was refused may still have happened if the disk could not even take it back.
        assert happened or answer != "committed"
        outcomes[answer, happened] += 1
        if is_over:
            assert outcomes["committed", True] > 5
            assert outcomes["refused", False] or ending != "power"
            return
    raise AssertionError(outcomes)


def commit_and_settle(client: AmqpClient, server: ThreadedServer) -> str:
    """Commit, then write a checkpoint, as far as the disk goes; return what the client heard."""
    client.send(Tx.Commit())
    _, answer = client.receive()
    queues = server.call(lambda: server.server.broker.vhosts["/"].queues)
    server.wait_until(lambda: not any(queue.store.is_flushing for queue in queues.values()))
    with suppress(OffsetsError):
        server.run(server.server.checkpointer.write_round)
    return "committed" if isinstance(answer, Tx.CommitOk) else "refused"


def test_a_commit_waits_until_the_messages_that_it_settles_are_on_the_disk(power: Power) -> None:
    """Else the record could not name it, and it would come back without the rest."""
    with serve(power) as server:
        with connect(server.address) as client, transactional(server) as consumer:
            client.open_channel()
            client.declare("q")
            client.declare("other")
            power.sync_gate.clear()
            client.publish(b"1", "q")
            assert power.sync_waiting.wait(HANG_SECONDS)
            assert consumer.get("q", no_ack=False) is not None
            consumer.send(Basic.Ack(1))
            consumer.publish(b"1", "other")
            consumer.send(Tx.Commit())
            commits = server.server.committer
            server.wait_until(lambda: commits._under_way == 1)
            power.sync_gate.set()
            consumer.expect(Tx.CommitOk)
            queue = server.call(lambda: server.server.broker.vhosts["/"].queues["q"])
            server.wait_until(lambda: queue.store.recovery_point == 1)
            power.unplug()
        server.abandon()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        assert (take_all(client, "q"), take_all(client, "other")) == ([], [b"1"])


def test_the_journal_stays_small_without_periodic_checkpoints(
    power: Power, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "FILE_BYTES_MAX", 10_000)
    journal = power.root / "transactions"
    with serve(power) as server, transactional(server) as client:
        client.declare("q", arguments={"x-max-length": 10})
        for number in range(100):
            client.publish(b"x" * 3_000, "q")
            client.call(Tx.Commit(), Tx.CommitOk)
            if number % 20 == 19:
                server.wait_until(lambda: len(list(journal.iterdir())) <= 2)
        assert len(list(journal.iterdir())) <= 2
    assert not list(journal.iterdir())


def test_commits_of_many_connections_share_a_sync(power: Power) -> None:
    power.gated = power.root / "transactions"
    with serve(power) as server:
        clients = [connect(server.address) for _ in range(10)]
        for number, client in enumerate(clients):
            client.open_channel()
            client.declare("q")
            client.call(Tx.Select(), Tx.SelectOk)
            client.publish(b"%d" % number, "q")
            client.call(Channel.Flow(active=True), Channel.FlowOk)
        power.sync_gate.clear()
        clients[0].send(Tx.Commit())
        assert power.sync_waiting.wait(HANG_SECONDS)
        for client in clients[1:]:
            client.send(Tx.Commit())
        commits = server.server.committer
        server.wait_until(lambda: len(commits._waiting) == 9)
        power.sync_gate.set()
        for client in clients:
            client.expect(Tx.CommitOk)
            client.socket.close()
        (journal,) = (power.root / "transactions").iterdir()
        assert journal.read_bytes().count(b"AQTX") == 2
